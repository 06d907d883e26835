"""Several gateways on one store: a request is good once at all of them, a key that is gone is gone everywhere."""

import contextlib
import os
import threading
from collections import Counter

import pytest

from support.agents_gate import INSIDE, TOOLS, Site, call, echo, known, reason, signer, web
from support.fork_server import CALLGATE, run
from support.gateway import review_ahead, serving, write_config
from support.hostile import until
from support.postgres import database
from support.raw import raw_server
from support.registry import requirement
from support.stores import write_ready
from support.table import rows

# By whatever address a gateway is reached, agents know all of them by this one.
NAME = "https://gate.example"
# The promise is a second; the bound here is for a machine that is busy with other tests.
SOON = 60
PASSES, UNKNOWN = (200, ""), (401, "unknown_keyid")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request, tmp_path_factory):
    if request.param == "sqlite":
        yield on_disk(tmp_path_factory.mktemp("shared"))
        return
    with database() as url:
        yield {"url": url}


def on_disk(directory):
    return {"url": f"sqlite:///{write_ready(directory / 'callgate.db')}"}


@contextlib.contextmanager
def fleet(directory, store, count, env=None, **agents):
    """So many gateways, in front of one server."""
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(raw_server())
        upstream.script = echo
        sites = []
        for number in range(count):
            (place := directory / f"gateway-{number}").mkdir()
            section = {"mode": "required", "external_url": NAME, **agents}
            servers, sections = {"one": {"url": upstream.url}}, {"store": store, "agents": section}
            if not sites:
                review_ahead(write_config(place, servers, **sections), {"one": TOOLS})
            gateway = stack.enter_context(serving(place, servers, env, reviewed=False, **sections))
            sites.append(Site(gateway, {"one": upstream}))
        yield sites


@pytest.fixture
def alone(tmp_path):
    """A store for one test."""
    return on_disk(tmp_path)


def operator(running, *words, env, status=0):
    done = run([CALLGATE, "agents", *words, "-c", str(running.gateway.config)], env=os.environ | env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@requirement("WB-017", "WB-066", "WB-090")
def test_of_100_copies_over_3_gateways_one_passes(tmp_path, store):
    by = signer()
    with fleet(tmp_path, store, 3, known={"by": known(by)}) as sites:
        first, second = sites[:2]
        headers = first.signed(by, call("search"), base=NAME)
        assert reason(first.send(None, call("search"), headers=headers)) == PASSES
        # Through another worker.
        assert reason(second.send(None, call("search"), headers=headers)) == (401, "nonce_replay")

        headers = first.signed(by, call("search"), base=NAME)
        start, ends = threading.Barrier(100), []

        def send(running):
            start.wait(30)
            ends.append(reason(running.send(None, call("search"), headers=headers)))

        threads = [threading.Thread(target=send, args=(sites[at % 3],)) for at in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert Counter(ends) == {PASSES: 1, (401, "nonce_replay"): 99}
        assert len(first.got()) == 2


@requirement("WB-012", "WB-091")
def test_a_key_that_was_rotated_counts_nowhere_once_its_directory_is_refreshed(tmp_path, alone):
    with web(tmp_path) as pages:
        old, new = signer(pages.url), signer(pages.url)
        pages.publish(old)
        agents = {"known": {"by": {"directory": pages.url}}, "signatures": {"allow_addresses": INSIDE}}
        with fleet(tmp_path, alone, 2, pages.env, **agents) as sites:

            def outcomes(by):
                return [reason(running.send(by, base=NAME)) for running in sites]

            assert outcomes(old) == [PASSES, PASSES]
            # What one of them fetched is enough for the other.
            assert len(pages.asked) == 1

            # A directory that is down takes no key away, whoever asks for it.
            kept, pages.pages = pages.pages, {}
            operator(sites[0], "refresh", pages.url, env=pages.env, status=1)
            assert outcomes(old) == [PASSES, PASSES]
            pages.pages = kept

            pages.publish(new)
            told = operator(sites[0], "refresh", pages.url, env=pages.env)
            assert old.keyid in told
            for running in sites:
                until(lambda r=running: reason(r.send(old, base=NAME)) == UNKNOWN, "the old key is refused", SOON)
            assert outcomes(old) == [UNKNOWN, UNKNOWN]
            assert outcomes(new) == [PASSES, PASSES]
            assert sites[1].got()[-1].header("callgate-agent") == [b"by"]

            # Flushed while it is down: nothing that was fetched is believed, anywhere.
            pages.pages = {}
            operator(sites[1], "refresh", "--flush", env=pages.env)
            for running in sites:
                until(lambda r=running: reason(r.send(new, base=NAME)) == UNKNOWN, "nothing is believed", SOON)
            assert outcomes(new) == [UNKNOWN, UNKNOWN]


@requirement("WB-012")
def test_a_gateway_that_starts_while_a_directory_is_down_has_what_others_fetched(tmp_path, alone):
    with web(tmp_path) as pages:
        by = signer(pages.url)
        pages.publish(by)
        agents = {"signatures": {"enabled": True, "allow_addresses": INSIDE}}
        for round_ in ("up", "down"):
            (place := tmp_path / round_).mkdir()
            with fleet(place, alone, 1, pages.env, **agents) as (running,):
                assert reason(running.send(by, base=NAME)) == PASSES
            pages.pages = {}


@requirement("WB-023", "WB-080")
@rows(("shared", "passed"), [(True, 3), (False, 6)])
def test_a_budget_is_one_for_all_gateways_unless_the_operator_says_otherwise(tmp_path, shared, passed):
    by = signer()
    agents = {"known": {"by": known(by, per_minute=0.01, burst=3)}, "shared_limits": shared}
    with fleet(tmp_path, on_disk(tmp_path), 2, **agents) as sites:
        ends = Counter(reason(sites[at % 2].send(by, call("search"), base=NAME)) for at in range(12))
        assert ends == {PASSES: passed, (429, "rate_limited"): 12 - passed}


def test_an_agent_that_is_removed_is_shut_out_everywhere(tmp_path, alone):
    with web(tmp_path) as pages:
        by, other = signer(pages.url), signer()
        pages.publish(by)
        agents = {"known": {"other": known(other)}, "signatures": {"allow_addresses": INSIDE}}
        with fleet(tmp_path, alone, 2, pages.env, **agents) as sites:
            assert [reason(one.send(by, base=NAME)) for one in sites] == [(403, "agent_not_in_directory")] * 2
            operator(sites[0], "add", "guest", "--directory", pages.url, env=pages.env)
            for one in sites:
                until(lambda r=one: reason(r.send(by, base=NAME)) == PASSES, "the guest is let in", SOON)
            operator(sites[1], "remove", "guest", "--yes", env=pages.env)
            for one in sites:
                until(
                    lambda r=one: reason(r.send(by, base=NAME)) == (403, "agent_not_in_directory"),
                    "it is shut out",
                    SOON,
                )
