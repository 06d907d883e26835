"""Sign with a copy of a passkey whose counter has fallen behind; and race with it, to turn the stored counter back."""

import threading

from sqlalchemy import select

from callgate.store import Store
from callgate.store.schema import passkey
from support.approval_peer import ERAS, refusal, signed, text_of
from support.approval_server import running
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}
REGRESSION = (-32001, "signature_counter_regression")


@rows("era", ERAS)
@requirement("VA-123", "VA-128", "VA-150")
def test_a_counter_that_is_not_above_the_last_one(library, era):
    alice = library.join(f"stale-{era}", era)
    assert text_of(alice.approves("delete_resource", A, counter=10)) == "deleted a"
    challenge = alice.challenge("delete_resource", A)
    before = len(library.executed)
    for counter in (10, 9, 1, 0):
        answer = alice.call("delete_resource", A, alice.signs(challenge, counter=counter))
        assert refusal(answer) == REGRESSION, counter
    assert library.executed[before:] == []
    assert text_of(alice.call("delete_resource", A, alice.signs(challenge, counter=11))) == "deleted a"


@requirement("VA-131", "VA-123")
def test_two_approvals_in_flight_never_turn_it_back(durable):
    with running(store=durable, user="alice") as server:
        peer = server.peer()
        key = peer.enrol(server.ticket("alice"))
        highest = 1
        for first in range(10, 60, 10):
            evidence = [signed(peer.challenge("delete_resource", A), key, counter=first + extra) for extra in (7, 6)]
            answers = in_parallel(server, evidence)
            # Whoever comes with the lower number second is told so; in the other order both are good.
            ends = ["result" in answer or refusal(answer) for answer in answers]
            assert ends[0] is True
            assert ends[1] in (True, REGRESSION)
            highest = first + 7
            assert stored(durable) == highest


def in_parallel(server, evidence):
    answers = {}
    start = threading.Barrier(len(evidence))

    def send(number):
        peer = server.peer()
        start.wait(20)
        answers[number] = peer.call("delete_resource", A, evidence[number])

    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(len(evidence))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return [answers[number] for number in range(len(evidence))]


def stored(url):
    opened = Store.open(url)
    try:
        with opened.reading() as conn:
            return conn.execute(select(passkey.c.counter)).scalar_one()
    finally:
        opened.close_sync()
