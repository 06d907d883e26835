"""Use one enrolment ticket twice: after the person has, before they finish, after its time, and many times at once."""

import threading

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, refusal
from support.approval_server import Clock, running
from support.registry import requirement
from support.table import rows

NOT_AUTHORISED = (-32602, "enrolment_not_authorised")


@rows("era", ERAS)
@requirement("VA-026")
def test_a_used_ticket_opens_nothing(library, era):
    name = f"ticket-{era}"
    ticket = library.ticket(name)
    person, thief = library.peer(name, era), library.peer("thief", era)
    options = person.begin(ticket)["result"]["options"]
    # Not even while the person has not finished.
    assert refusal(thief.begin(ticket)) == NOT_AUTHORISED
    assert "result" in person.finish(SoftwareAuthenticator().create(options))
    assert refusal(thief.begin(ticket)) == NOT_AUTHORISED
    assert refusal(person.begin(ticket)) == NOT_AUTHORISED


@requirement("VA-025")
def test_a_ticket_has_its_time():
    clock = Clock()
    with running(clock=clock) as server:
        late, good = server.ticket("alice"), server.ticket("alice")
        clock.now += 3_600_000 - 1
        assert "result" in server.peer().begin(good)
        clock.now += 1
        assert refusal(server.peer().begin(late)) == NOT_AUTHORISED


@requirement("VA-026")
def test_twenty_at_once_make_one(durable):
    with running(store=durable, user="alice") as server:
        ticket = server.ticket("alice")
        answers, start = [], threading.Barrier(20)

        def begin():
            peer = server.peer()
            start.wait(20)
            answers.append(peer.begin(ticket))

        threads = [threading.Thread(target=begin, daemon=True) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sum("result" in answer for answer in answers) == 1
        assert {refusal(answer) for answer in answers if "error" in answer} == {NOT_AUTHORISED}
        assert len(answers) == 20
