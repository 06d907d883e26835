"""A client may call a tool without ever asking for a list: what the server says of it holds all the same."""

import pytest

from support.table import rows
from support.trust_gateway import ERAS, input_metadata, return_metadata, text, tool, trust_site

HARSH = {
    "inputMetadata": input_metadata("public", "none", "irreversible"),
    "returnMetadata": return_metadata("untrustedPublic"),
}
MILD = {
    "inputMetadata": input_metadata("ephemeral", "none", "benign"),
    "returnMetadata": return_metadata("system"),
}
INSIDE = {"destination": "internal", "outcomes": "benign", "source": "internal", "sensitivity": "none"}
SECRET = "between-us-and-nobody-else"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    servers = {
        "strict": {"tools": [tool("post", "path", annotations=HARSH)], "trust": {"tools": {"*": INSIDE}}},
        "believed": {"tools": [tool("read", "path", annotations=MILD)], "trust": {"trusted": True}},
        "mail": {
            "tools": [tool("send", "to", "note", "password")],
            "results": {"send": text("Sent.")},
            "trust": {"tools": {"send": {**INSIDE, "destination": "user", "outcomes": "consequential"}}},
        },
    }
    with trust_site(
        tmp_path_factory.mktemp("unlisted"), servers, pinning={"mode": "observe"}, audit={"redact": ["mail/*:note"]}
    ) as found:
        yield found


@rows("era", ERAS)
def test_a_server_tightens_what_the_operator_said_from_the_first_call_on(site, era):
    site.agent(era).call("strict", "post", path="a")
    label = site.trust_of("post")["tool"]
    assert "public" in label["destinations"]
    assert "irreversible" in label["outcomes"]


@rows("era", ERAS)
def test_a_trusted_server_is_believed_from_the_first_call_on(site, era):
    site.agent(era).call("believed", "read", path="a")
    label = site.trust_of("read")["tool"]
    assert (label["destinations"], label["outcomes"]) == (["ephemeral"], ["benign"])


def test_what_the_log_does_not_keep_is_not_kept_with_the_session(site):
    """Neither a key that the operator names nor one that is redacted everywhere."""
    agent = site.agent()
    agent.call("strict", "post", path="a")
    agent.call("mail", "send", to="known-recipient", note=SECRET, password=f"{SECRET}-2")
    files = b"".join(path.read_bytes() for path in site.directory.glob("callgate.db*"))
    assert b"known-recipient" in files
    assert SECRET.encode() not in files
