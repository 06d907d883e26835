"""Enrol a passkey that is enrolled already, to take it over: the same id with another key, another person, other facts."""

import asyncio

from callgate.approval.action import to_base64url
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.approval_peer import ERAS, refusal, text_of
from support.registry import requirement
from support.table import rows
from support.trust_gateway import fresh

ENROLLED = (-32001, "credential_already_enrolled")


@rows("era", ERAS)
@requirement("VA-044", "VA-045", "VA-154")
def test_what_is_stored_stays(library, era):
    alice, nobody = library.join(fresh("again"), era), fresh("thief")
    (stored,) = asyncio.run(library.shelf.credentials(alice.name))
    taken = {"credential_id": to_base64url(alice.key.passkeys[0].id), "ignore_exclude": True}
    for name in (alice.name, nobody):
        thief = library.peer(name, era)
        options = thief.begin(library.ticket(name))["result"]["options"]
        for forged in (SoftwareAuthenticator(), SoftwareAuthenticator(transports=("internal",), algorithm="EdDSA")):
            assert refusal(thief.finish(forged.create(options, **taken))) == ENROLLED
        # What does not verify is refused for that, before anything is compared.
        bad = SoftwareAuthenticator().create(options, uv=False, **taken)
        assert refusal(thief.finish(bad)) == (-32001, "verification_failed")
    assert asyncio.run(library.shelf.credentials(alice.name)) == [stored]
    assert asyncio.run(library.shelf.credentials(nobody)) == []
    assert text_of(alice.approves("wipe")) == "wiped"
