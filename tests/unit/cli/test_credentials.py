import pytest

from callgate.approval.action import to_base64url
from callgate.approval.overview import fingerprint
from callgate.canonical import canonical
from callgate.cli.common import operator
from callgate.errors import Reason, Refused
from callgate.sdk.authenticators.software import SoftwareAuthenticator
from support.enrolling import GATED, ORIGIN, approve, enrol
from support.registry import requirement
from support.table import rows

TWINS = [to_base64url(bytes(12) + bytes([number])) for number in (1, 2)]
# base64url that begins with a dash, as one id in sixty-four does.
DASHED = to_base64url(b"\xfb" + bytes(range(16)))


def test_what_the_list_shows_of_each(people):
    synced = SoftwareAuthenticator(
        ORIGIN, transports=("hybrid", "internal"), backup_eligible=True, backed_up=True, counting=False
    )
    first, _ = people.enrolled(name="my phone", authenticator=synced)
    people.enrolled("bob", name="blue key [b]")
    lines = people("credentials", "list").out.splitlines()
    headings = ("id", "user", "name", "transports", "backed", "up", "created", "last", "used", "approves")
    assert lines[0].split() == list(headings)
    assert lines[1].startswith(first.credential.id.lstrip("-")[:10])
    assert "alice  my phone      hybrid, internal  yes" in lines[1]
    assert "bob    blue key [b]  usb               no" in lines[2]
    assert lines[2].split()[-2:] == ["-", "all"]
    row = people.json("credentials", "list", "alice")[0]
    assert (row["id"], row["name"], row["transports"]) == (first.credential.id, "my phone", ["hybrid", "internal"])
    assert row["kind"] == "Phone or computer, also from others"
    assert (row["backed_up"], row["counts"], row["last_used_at"]) == (True, False, None)
    assert row["created_at"] == first.credential.created_at
    assert row["fingerprint"] == fingerprint(first.credential.public_key)


def test_when_it_was_used_last_is_shown(people):
    _, key = people.enrolled()

    async def use(approvals):
        verified = await approve(approvals, key, {"name": "x"})
        await approvals.shelf.use(verified.use)
        return verified.use.at

    assert people.json("credentials", "list")[0]["last_used_at"] is None
    used = people.asks(use)
    assert people.json("credentials", "list")[0]["last_used_at"] == used


def test_nobody_and_nothing(people):
    people("users", "add", "alice")
    assert "`callgate enroll alice`" in people("credentials", "list", "alice").err
    assert "there is no user 'bob'" in people("credentials", "list", "bob", code=1).err
    assert "`callgate credentials list --all`" in people("credentials", "revoke", "xyz", "--yes", code=1).err


def test_the_beginning_of_an_id_is_enough_if_it_is_one_passkeys(people):
    for one in TWINS:
        people.enrolled(credential_id=one)
    ids = [line.split()[0] for line in people("credentials", "list").out.splitlines()[1:]]
    assert ids == TWINS
    said = people("credentials", "rename", "AAAA", "mine", code=1).err
    assert "more than one passkey" in said
    assert all(one in said for one in TWINS)
    people("credentials", "rename", ids[1], "mine")
    assert [row["name"] for row in people.json("credentials", "list")] == ["Passkey", "mine"]


def test_an_id_that_begins_with_a_dash_can_be_typed_as_it_is_shown(people):
    assert DASHED.startswith("-")
    people.enrolled(credential_id=DASHED)
    shown = people("credentials", "list").out.splitlines()[1].split()[0]
    people("credentials", "rename", shown, "mine")
    assert people.json("credentials", "list")[0]["name"] == "mine"


@pytest.mark.parametrize("given", [DASHED, DASHED[:6], f"-{DASHED}"])
def test_an_id_that_begins_with_a_dash_can_be_typed_with_it(people, given):
    people.enrolled(credential_id=f"-{DASHED}" if given.startswith("--") else DASHED)
    people("credentials", "rename", given, "mine")
    assert people.json("credentials", "list")[0]["name"] == "mine"
    people("credentials", "rename", given, "=-c")
    assert people.json("credentials", "list")[0]["name"] == "=-c"
    people("credentials", "revoke", "-y", given)
    assert people.json("credentials", "list") == []


def test_options_stay_options_where_ids_may_have_a_dash(people, here):
    people.enrolled(credential_id=DASHED)
    (here / "gate.toml").write_text("")
    assert "no such file" in people("credentials", "rename", "-cnowhere", DASHED, "x", code=1).err
    people("credentials", "rename", "-cgate.toml", DASHED, "mine")
    people("credentials", "rename", "--config", "gate.toml", DASHED, "yours")
    assert "No such option" in people("credentials", "rename", "--nmae", DASHED, "x", code=2).err
    assert "rename" in people("credentials", "rename", "--help").out
    assert people.json("credentials", "list")[0]["name"] == "yours"


@rows("name", ["", "  ", "\x1b\x07"])
def test_a_passkey_keeps_its_name_where_the_new_one_is_none(people, name):
    made, _ = people.enrolled(name="my key")
    assert "Write one, such as" in people("credentials", "rename", made.credential.id, name, code=1).err
    assert {row["name"] for row in people.json("credentials", "list")} == {"my key"}


def test_renaming_is_on_record(people):
    made, _ = people.enrolled()
    people("credentials", "rename", made.credential.id.lstrip("-")[:8], "  blue \x1b[31mkey ")
    assert people.json("credentials", "list")[0]["name"] == "blue [31mkey"
    detail = {"credential": made.credential.id, "name": "blue [31mkey"}
    assert people.records()[-1] == ("credential.rename", operator(), detail)


def test_revoking_is_asked_about_and_on_record(people):
    made, _ = people.enrolled()
    beginning = made.credential.id.lstrip("-")[:12]
    assert "Add --yes" in people("credentials", "revoke", beginning, code=1).err
    assert people.json("credentials", "list")[0]["revoked_at"] is None
    said = people("credentials", "revoke", beginning, "--yes")
    assert "alice's passkey 'Passkey' is revoked." in said.out
    assert "`callgate enroll alice`" in said.err
    assert people.json("credentials", "list") == []
    assert people.json("credentials", "list", "--all")[0]["revoked_at"] is not None
    assert people("credentials", "list", "--all").out.splitlines()[0].split()[-1] == "revoked"
    assert people.records()[-1] == ("credential.revoke", operator(), {"credential": made.credential.id})
    records = len(people.records())
    again = people("credentials", "revoke", beginning, "--yes", code=1).err
    assert "alice's passkey 'Passkey' was revoked on 20" in again
    assert "was revoked on" in people("credentials", "rename", beginning, "mine", code=1).err
    assert len(people.records()) == records


def test_one_that_is_in_use_is_meant_before_one_that_is_revoked(people):
    for one in TWINS:
        people.enrolled(credential_id=one)
    people("credentials", "revoke", TWINS[0], "--yes")
    people("credentials", "rename", "AAAA", "mine")
    assert [row["name"] for row in people.json("credentials", "list")] == ["mine"]


@requirement("VA-179")
def test_a_lost_passkey_is_revoked_and_replaced_without_an_unsigned_path(people):
    lost, key = people.enrolled()
    held = people.asks(lambda approvals: approve(approvals, key, {"name": "x"}))
    assert held.credential.id == lost.credential.id

    # A challenge from before the passkey was revoked, answered by whoever has it now.
    form = canonical({"name": "x"})
    issued = people.asks(lambda approvals: approvals.challenge(GATED, {"name": "x"}, form, "alice"))
    response = key.get(issued.result["requestOptions"])
    evidence = {"method": "webauthn", "challengeId": issued.challenge.id, "response": response}
    people("credentials", "revoke", lost.credential.id.lstrip("-"), "--yes")
    with pytest.raises(Refused) as refused:
        people.asks(lambda approvals: approvals.verify(GATED, {"name": "x"}, form, evidence))
    assert refused.value.reason is Reason.UNKNOWN_CREDENTIAL
    with pytest.raises(Refused) as refused:
        people.asks(lambda approvals: approve(approvals, key, {"name": "x"}))
    assert refused.value.reason is Reason.NO_ELIGIBLE_CREDENTIAL
    ticket = people.json("enroll", "alice")["ticket"]
    replaced, fresh = people.asks(lambda approvals: enrol(approvals, ticket))
    held = people.asks(lambda approvals: approve(approvals, fresh, {"name": "x"}))
    assert held.credential.id == replaced.credential.id
