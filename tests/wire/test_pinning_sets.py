"""While it is worked out which tools have to wait for a review of several servers, a call waits for that as well."""

from __future__ import annotations

import threading
import time

from support.gateway import Gateway
from support.pinning import shifty_site
from support.raw_clients import ERAS, RawHttpClient, Way, until
from support.registry import requirement
from support.shifting import tool
from support.table import rows

NAMES = ("mail", "files", "notes")


def served(name):
    return Way("serve", "legacy", name)


@requirement("TP-019")
def test_a_call_after_an_approval_waits_for_the_look_at_all_servers(tmp_path):
    """It is refused for want of an approval, and then it passes: for nothing else between."""
    with shifty_site(tmp_path, *NAMES, pinning={"recheck_seconds": 3600}) as site:
        for name in NAMES[1:]:
            site[name].fresh(*(tool(f"{name}_{number}") for number in range(300)))
            site.visit(served(name)).names()
        site["mail"].fresh(*(tool(f"send_{number}") for number in range(6)))
        visitor = site.visit(served("mail"))
        visitor.names()
        for number in range(6):
            answers: list[str] = []
            calling = threading.Thread(target=call_until_open, args=(visitor, f"send_{number}", answers))
            calling.start()
            until(lambda answers=answers: answers, "it was called once")
            site.approve("mail", f"send_{number}")
            calling.join()
            assert set(answers[:-1]) == {"tool_not_approved"}, answers
            assert answers[-1] == ""


@requirement("TP-019")
@rows("era", ERAS)
def test_the_first_call_at_another_gateway_waits_for_the_look_at_all_servers(tmp_path, era):
    """It was there before anybody had met the server, so it expected another one."""
    with shifty_site(tmp_path, *NAMES, pinning={"recheck_seconds": 3600}) as site:
        second = Gateway(site.gateway.config)
        try:
            second.wait_ready()
            for name in NAMES[1:]:
                site[name].fresh(*(tool(f"{name}_{number}") for number in range(300)))
                site.visit(served(name)).names()
            site["mail"].fresh(tool("send"))
            visitor = site.visit(served("mail"))
            visitor.names()
            site.approve("mail", "send")
            visitor.until_open("send")
            answer = RawHttpClient(second.url("mail"), era).call("send")
            assert "result" in answer, answer
        finally:
            assert second.stop() == 0


def call_until_open(visitor, name, answers):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not answers or answers[-1]):
        answers.append(visitor.reason(name))
