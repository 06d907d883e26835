"""Where a path on a shared host is allowed, name it and step out of it again: to a neighbour's directory on that host."""

import pytest

from callgate.agents.directories import Directories, Sources, directory_url
from callgate.agents.fetching import Fetcher, FetchFailed
from support.registry import requirement
from support.table import rows

ALLOWED = "https://files.example/partner/*"
OUT = [
    "/partner/../stranger/keys.json",
    "/partner/./../stranger/keys.json",
    "/partner/%2e%2e/stranger/keys.json",
    "/partner/.%2E/stranger/keys.json",
    "/partner/..%2fstranger/keys.json",
    "/partner/%2e%2e%5cstranger/keys.json",
    "/partner/..;x/stranger/keys.json",
    "/partner/..",
]


class Resolved:
    """Told every name that somebody is about to connect to."""

    def __init__(self):
        self.names = []

    async def __call__(self, host, port):
        self.names.append(host)
        raise OSError("nothing is fetched here")


@requirement("WB-048")
@rows("path", OUT)
async def test_a_path_that_leads_out_of_what_is_allowed(path):
    asked = Resolved()
    directories = made(asked)
    told = await directories.why("x" * 43, f"https://files.example{path}")
    assert [(step.where, step.outcome) for step in told.steps][-1] == (f"https://files.example{path}", "refused")
    assert asked.names == []
    await directories.close()


@requirement("WB-048")
@rows("path", ["/partner/keys.json", "/partner/a..b/keys.json", "/partner/.well-known/keys"])
async def test_a_path_inside_of_it(path):
    asked = Resolved()
    directories = made(asked)
    assert await directories.key("x" * 43, f"https://files.example{path}") is None
    assert asked.names == ["files.example"]
    await directories.close()


@rows("path", OUT)
def test_such_an_address_is_no_directory_at_all(path):
    """Two spellings of one place would be two directories."""
    with pytest.raises(FetchFailed):
        directory_url(f"https://files.example{path}")


def made(asked):
    return Directories(Sources(discovery="allow", allowed=(ALLOWED,)), fetcher=Fetcher(resolve=asked))
