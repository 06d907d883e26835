"""Name a directory with a path, a query, a fragment or a user in Signature-Agent: a file that anybody could have put there."""

import json

import pytest

from callgate.agents.model import WELL_KNOWN
from callgate.agents.signing import Signer
from support.agents_gate import INSIDE, known, reason, signer, site, web
from support.registry import requirement

MODES = ("trust", "allow", "ignore")
UNKNOWN = (401, "unknown_keyid")
MALFORMED = (400, "signature_input_malformed")


@pytest.fixture(scope="module", params=MODES)
def running(request, tmp_path_factory):
    """A gateway for each way of discovery; `listed` is known by its key alone, `found` by its directory."""
    folder = tmp_path_factory.mktemp(request.param)
    listed, found = signer(), signer()
    with web(folder) as pages:
        signatures = {"discovery": request.param, "allow_addresses": INSIDE}
        if request.param == "allow":
            signatures["origins"] = [pages.url]
        if request.param == "ignore":
            signatures["directories"] = [pages.url]
        section = {
            "mode": "required",
            "strangers": "admit",
            "known": {"listed": known(listed)},
            "signatures": signatures,
        }
        for path in (WELL_KNOWN, "/keys", "/keys.json", f"{WELL_KNOWN}?a=1", "/?a=1"):
            pages.pages[path] = json.dumps({"keys": [dict(found.jwk), dict(listed.jwk)]}).encode()
        with site(folder, pages.env, agents=section) as made:
            made.pages, made.keys = pages, {"listed": listed, "found": found}
            yield made


@requirement("WB-008", "WB-048")
def test_an_address_that_is_more_than_an_origin(running):
    base, host = running.pages.url, running.pages.url.removeprefix("https://")
    rows = {
        base: (200, ""),
        f"{base}/": (200, ""),
        f"{base}/keys": UNKNOWN,
        f"{base}/keys.json": UNKNOWN,
        f"{base}{WELL_KNOWN}": UNKNOWN,
        f"{base}{WELL_KNOWN}?a=1": UNKNOWN,
        f"{base}?": UNKNOWN,
        f"{base}/?a=1": UNKNOWN,
        f"{base}#": UNKNOWN,
        f"{base}/#here": UNKNOWN,
        f"{base}//": UNKNOWN,
        f"https://somebody@{host}": UNKNOWN,
        f"http://{host}": MALFORMED,
        "ftp://agent.example": MALFORMED,
        "agent.example": MALFORMED,
        "": MALFORMED,
    }
    for name, by in running.keys.items():
        for address, expected in rows.items():
            for legacy in (False, True):
                reply = running.send(Signer(by._key, address), legacy=legacy)
                assert reason(reply) == expected, (name, address, legacy)
