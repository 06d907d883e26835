"""Ten finishes at once on one registration challenge, each with another passkey: one wins, nine get nothing."""

import threading

from sqlalchemy import select

from callgate.sdk.authenticators.software import SoftwareAuthenticator
from callgate.store import Store
from callgate.store.schema import passkey
from support.approval_peer import refusal
from support.approval_server import running
from support.registry import requirement


@requirement("VA-047")
def test_one_registration_challenge_makes_one_passkey(durable):
    with running(store=durable, user="alice") as server:
        options = server.peer().begin(server.ticket("alice"))["result"]["options"]
        responses = [SoftwareAuthenticator().create(options) for _ in range(10)]
        answers, start = [], threading.Barrier(10)

        def finish(response):
            peer = server.peer()
            start.wait(20)
            answers.append(peer.finish(response))

        threads = [threading.Thread(target=finish, args=(one,), daemon=True) for one in responses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        won = [answer["result"]["credentialId"] for answer in answers if "result" in answer]
        assert len(won) == 1
        lost = {refusal(answer) for answer in answers if "error" in answer}
        assert lost == {(-32001, "no_pending_enrollment")}
        assert len(answers) == 10
    opened = Store.open(durable)
    with opened.reading() as conn:
        assert conn.execute(select(passkey.c.id)).scalars().all() == won
    opened.close_sync()
