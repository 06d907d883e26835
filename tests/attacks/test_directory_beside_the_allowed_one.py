"""Where a shared host is allowed, name a file of a neighbour there, or step out of the path that everybody means."""

import pytest

from callgate.agents.directories import Directories, Sources, directory_url
from callgate.agents.fetching import Fetcher, FetchFailed
from support.registry import requirement
from support.table import rows

ALLOWED = "https://files.example"
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
BESIDE = ["/stranger/keys.json", "/.well-known/keys", "/.well-known/http-message-signatures-directory/x"]


class Resolved:
    """Told every name that somebody is about to connect to."""

    def __init__(self):
        self.names = []

    async def __call__(self, host, port):
        self.names.append(host)
        raise OSError("nothing is fetched here")


@requirement("WB-048")
@rows("path", [*OUT, *BESIDE])
async def test_a_path_beside_what_is_allowed(path):
    asked = Resolved()
    directories = Directories(Sources(discovery="allow", allowed=(ALLOWED,)), fetcher=Fetcher(resolve=asked))
    told = await directories.why("x" * 43, f"https://files.example{path}")
    assert [(step.where, step.outcome) for step in told.steps][-1] == (f"https://files.example{path}", "refused")
    assert asked.names == []
    assert await directories.key("x" * 43, "https://files.example") is None
    assert asked.names == ["files.example"]
    await directories.close()


@rows("path", OUT)
def test_such_an_address_is_no_directory_at_all(path):
    """Two spellings of one place would be two directories."""
    with pytest.raises(FetchFailed):
        directory_url(f"https://files.example{path}")
