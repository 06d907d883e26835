"""Publish a dozen keys in one directory of one's own, to have a budget for each of them."""

from support.agents_gate import INSIDE, call, known, reason, signer, site, web
from support.registry import requirement


@requirement("WB-023", "WB-044")
def test_twelve_keys_of_a_stranger_have_one_budget(tmp_path):
    with web(tmp_path) as pages:
        keys = [signer(pages.url) for _ in range(12)]
        listed = signer()
        pages.publish(*keys)
        section = {
            "mode": "required",
            "strangers": "admit",
            "default": {"per_minute": 2, "burst": 2},
            "known": {"listed": known(listed, per_minute=3, burst=3)},
            "signatures": {"discovery": "trust", "allow_addresses": INSIDE},
        }
        with site(tmp_path, pages.env, agents=section) as running:
            told = [reason(running.send(by, call("search"))) for by in keys]
            assert told == [(200, "")] * 2 + [(429, "rate_limited")] * 10
            # The record still says which key it was, and others are counted by themselves.
            assert running.got()[-1].header("callgate-agent") == [keys[1].keyid.encode()]
            assert reason(running.send(listed, call("search"))) == (200, "")


@requirement("WB-023")
def test_two_listed_agents_of_one_directory_have_their_own(tmp_path):
    with web(tmp_path) as pages:
        one, two = signer(pages.url), signer(pages.url)
        pages.publish(one, two)
        section = {
            "mode": "required",
            "known": {
                name: {"directory": pages.url, "thumbprint": by.keyid, "per_minute": 1, "burst": 1}
                for name, by in (("one", one), ("two", two))
            },
            "signatures": {"allow_addresses": INSIDE},
        }
        with site(tmp_path, pages.env, agents=section) as running:
            assert [running.send(by, call("search")).status for by in (one, two, one, two)] == [200, 200, 429, 429]
