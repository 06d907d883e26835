"""Put a signature of an unknown key beside that of a listed agent, before it or behind it, to be taken for somebody else."""

import itertools

from callgate.agents.signing import Signer
from support.agents_gate import INSIDE, call, known, reason, signer, site, web
from support.raw import JSON_HEADERS
from support.registry import requirement


def both(running, first, second, body):
    """A request with two signatures, in this order."""
    headers = dict(JSON_HEADERS)
    for at, by in enumerate((first, second)):
        one = Signer(by._key, by._directory, label=f"sig{at}")
        headers |= {name.lower(): value for name, value in running.signed(one, body, headers=headers).items()}
    return headers


@requirement("WB-003", "WB-077")
def test_the_listed_agent_counts_whatever_the_order(tmp_path):
    with web(tmp_path) as pages:
        stranger, listed, shut = signer(pages.url), signer(), signer()
        pages.publish(stranger)
        for strangers in ("refuse", "admit"):
            section = {
                "mode": "required",
                "strangers": strangers,
                "known": {"listed": known(listed), "shut": known(shut, denied=True)},
                "default": {"deny_tools": ["buy"]},
                "signatures": {"allow_addresses": INSIDE},
            }
            with site(tmp_path, pages.env, agents=section) as running:
                for pair in itertools.permutations((stranger, listed)):
                    reply = running.send(None, call("buy"), headers=both(running, *pair, call("buy")))
                    assert reason(reply) == (200, ""), strangers
                    assert running.got()[-1].header("callgate-agent") == [b"listed"]
                for pair in itertools.permutations((stranger, shut)):
                    reply = running.send(None, call("search"), headers=both(running, *pair, call("search")))
                    assert reason(reply) == (403, "agent_denied"), strangers
                # Neither signature is good for another time, alone or with the other.
                twice = both(running, stranger, listed, call("search"))
                assert reason(running.send(None, call("search"), headers=twice)) == (200, "")
                assert reason(running.send(None, call("search"), headers=twice)) == (401, "nonce_replay")
