"""Come with a key and a directory of one's own to a gateway that says whose keys count, and be taken for one of them."""

import pytest

from callgate.agents.directories import Directories, Sources
from callgate.agents.model import Verified
from callgate.agents.storage import Listed
from callgate.config import parse
from callgate.store.memory import MemoryAgents
from support.agents_gate import INSIDE, call, reason, signer, site, web
from support.registry import requirement
from support.table import rows

OUTSIDE = {"listen": "0.0.0.0:0", "allowed_hosts": ["127.0.0.1"]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The directory of a stranger, and that of a partner."""
    with web(tmp_path_factory.mktemp("pages")) as made:
        made.stranger, made.partner = signer(made.url), signer()
        made.publish(made.stranger)
        made.publish(made.partner, path="/partner.json")
        yield made


@requirement("WB-035", "WB-077")
def test_where_agents_are_to_be_listed_and_none_is_yet(tmp_path, pages):
    """Before the first `callgate agents add`, and after the last one was removed: nobody, and not everybody."""
    section = {"known": {"crm": {"directory": "listed"}}, "signatures": {"allow_addresses": INSIDE}}
    with site(tmp_path, pages.env, agents=section, gateway=OUTSIDE) as running:
        assert reason(running.send(pages.stranger, call("search"))) == (403, "agent_not_in_directory")
        assert running.got() == []


@requirement("WB-046")
def test_where_keys_of_one_directory_count(tmp_path, pages):
    section = {"signatures": {"allow_addresses": INSIDE, "directories": [f"{pages.url}/partner.json"]}}
    pages.asked.clear()
    with site(tmp_path, pages.env, agents=section, gateway=OUTSIDE) as running:
        assert reason(running.send(pages.stranger, call("search"))) == (401, "unknown_keyid")
        assert pages.asked == ["/partner.json"]
        assert running.got() == []
        assert reason(running.send(pages.partner, call("search"))) == (200, "")


THUMBPRINT = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


@rows(
    ("lines", "whose"),
    [
        ("", "trust"),
        ("enabled = true", "trust"),
        ('directories = ["https://a.example/keys"]', "ignore"),
        (f'data_uris = ["{THUMBPRINT}"]', "ignore"),
        # Where the operator says so, or lists agents in a document that may name any directory.
        ('directories = ["https://a.example/keys"]\nenabled = true', "trust"),
        ('directories = ["https://a.example/keys"]\ndiscovery = "trust"', "trust"),
        ('directories = ["https://a.example/keys"]\nagents_directory = "https://a.example/agents"', "trust"),
    ],
)
def test_whose_directories_are_fetched_unless_it_is_said(lines, whose):
    assert parse(f"[agents.signatures]\n{lines}", environ={}).agents.signatures.discovers == whose


async def test_a_list_that_cannot_be_read_is_still_a_list():
    """One that was added when other addresses could be reached: then nobody is on it, and nobody gets in."""
    shelf = MemoryAgents()
    await shelf.add_agent(Listed("crm", "", "http://inside.example/keys"))
    directories = Directories(Sources(), shelf)
    stranger = Verified("sig1", THUMBPRINT, "ed25519", "https://stranger.example/keys", 0, 0, None, ())
    assert await directories.agent(stranger) is None
    await shelf.remove_agent("crm")
    assert (await directories.agent(stranger)).agent == THUMBPRINT
    await directories.close()
