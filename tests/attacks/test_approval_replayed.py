"""Use one approval twice: one after the other, and two hundred times at once in four processes on one store."""

import json
import threading

from callgate.approval.action import from_base64url
from support.approval_peer import ERAS, HttpPeer, refusal, signed, text_of
from support.approval_server import fleet, ticket
from support.registry import requirement
from support.table import rows

A = {"resourceId": "a"}
CALLS, PROCESSES = 200, 4


@rows("era", ERAS)
@requirement("VA-106", "VA-144")
def test_one_after_the_other(library, era):
    person = library.join(f"replayed-{era}", era)
    evidence = person.signs(person.challenge("delete_resource", A))
    before = len(library.executed)
    assert text_of(person.call("delete_resource", A, evidence)) == "deleted a"
    for _ in range(3):
        assert refusal(person.call("delete_resource", A, evidence)) == (-32001, "challenge_consumed")
    # Signed anew, it is as used as before.
    again = evidence | {"response": person.key.get({"challenge": _challenge_of(evidence), "rpId": "localhost"})}
    assert refusal(person.call("delete_resource", A, again)) == (-32001, "challenge_consumed")
    assert library.executed[before:] == [("delete_resource", "a")]


def _challenge_of(evidence):
    return json.loads(from_base64url(evidence["response"]["response"]["clientDataJSON"]))["challenge"]


@requirement("VA-106", "VA-127")
def test_two_hundred_times_at_once_in_four_processes(durable, tmp_path):
    marks = tmp_path / "marks"
    with fleet(durable, marks, PROCESSES) as urls:
        peers = [HttpPeer(url) for url in urls]
        assert "tools" in peers[0].result("tools/list")
        key = peers[0].enrol(ticket(durable, "alice"))
        evidence = signed(peers[0].challenge("delete_resource", A), key)
        answers = at_once([HttpPeer(urls[number % PROCESSES]) for number in range(CALLS)], evidence)
    ran = [answer for answer in answers if "result" in answer]
    refused = [refusal(answer) for answer in answers if "error" in answer]
    assert (len(ran), len(refused)) == (1, CALLS - 1)
    assert set(refused) == {(-32001, "challenge_consumed")}
    assert marks.read_text() == '["delete_resource", "a"]\n'


def at_once(peers, evidence):
    """Every peer sends the same call at the same moment; what each was answered."""
    answers = []
    start = threading.Barrier(len(peers))

    def send(peer):
        start.wait(60)
        answers.append(peer.call("delete_resource", A, evidence))

    threads = [threading.Thread(target=send, args=(peer,), daemon=True) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == len(peers)
    return answers
