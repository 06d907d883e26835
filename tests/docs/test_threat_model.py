"""What verified approval does not protect against is said where people look for it."""

import re

from support.pages import ROOT
from support.registry import requirement
from support.table import rows

PAGE = "docs/explanation/what-a-passkey-proves.md"


def words(path):
    """The page as one line of plain text."""
    return re.sub(r"\s+", " ", (ROOT / path).read_text(encoding="utf-8").replace("**", ""))


@requirement("VA-171")
def test_a_dishonest_verifying_server_is_listed_as_excluded():
    page = words(PAGE)
    assert "A malicious server is excluded: verified approval does not protect against it" in page
    assert "The verifier is trusted." in page
    table = page[page.index("## Which attackers are stopped") :]
    assert re.search(r"\| [^|]*a malicious server \| excluded: not stopped \|", table)
    assert "A dishonest server, above all one that verifies approvals by itself, is excluded" in words("SECURITY.md")
    assert "what-a-passkey-proves.md" in words("README.md")
    assert PAGE.removeprefix("docs/") in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@rows(
    "risk",
    [
        "§8.3.1",
        "§8.3.2",
        "§8.3.3",
        "§8.3.4",
        "§8.1.5",
        "first_use",
        "software authenticator",
        "A browser sends a cookie to every port of a host",
    ],
)
def test_each_residual_risk_is_told(risk):
    assert risk in words(PAGE)
