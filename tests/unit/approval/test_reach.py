"""What a passkey approves, told in words by the same rule that decides."""

from __future__ import annotations

from callgate.approval import ApprovalPolicy, Credential, User
from callgate.approval.reach import Demand, choice, demanded, except_for, kind_of, lacking, reach

ANN = User("ann", "Ann", b"h", 1)
PAY = Demand("bank", "pay", ApprovalPolicy("cross-platform"))
COUNTED = Demand("bank", "sign", ApprovalPolicy("platform", require_counter=True))


def passkey(*transports: str, counter: int = 0, user: str = "ann") -> Credential:
    return Credential(
        id="c",
        user=user,
        handle=b"h",
        public_key=b"k",
        counter=counter,
        transports=transports,
        name="Key",
        aaguid="",
        attestation="none",
        backup_eligible=False,
        backed_up=False,
        created_at=1,
    )


def test_what_is_told_is_what_is_decided() -> None:
    for held in (passkey("internal"), passkey("usb"), passkey("internal", "hybrid"), passkey("usb", counter=3)):
        for demand in (PAY, COUNTED):
            told = reach(ANN, held, [demand])
            assert ("except" not in told) == demand.policy.takes(held) == (lacking([held], [demand], "ann") == [])


def test_nothing_is_demanded() -> None:
    assert reach(ANN, passkey("internal"), []) == "This passkey approves every call that Callgate asks ann about."
    assert except_for(passkey("internal"), []) == "all"
    assert choice(ANN, []).endswith("approves the calls that Callgate asks ann about.")


def test_each_kind_has_its_sentence() -> None:
    told = reach(ANN, passkey("internal"), [PAY, Demand("bank", "send", PAY.policy), COUNTED])
    assert "except those of 3 tools. 2 tools demand a passkey that works from another device" in told
    assert told.endswith("1 tool demands a passkey that counts its signatures (as security keys do): bank/sign.")
    both = ApprovalPolicy("cross-platform", require_counter=True)
    assert kind_of(both) == "a passkey that works from another device and counts its signatures (as security keys do)"


def test_what_somebody_else_is_asked_about_does_not_count() -> None:
    bobs = Demand("bank", "pay", PAY.policy, "bob")
    assert lacking([passkey("internal")], [bobs], "ann") == []
    assert lacking([passkey("internal", user="bob")], [bobs], "bob") == [bobs]


def test_who_may_only_look_approves_nothing() -> None:
    vera = User("vera", "Vera", b"v", 1, "viewer")
    assert reach(vera, passkey("usb", user="vera"), []) == "vera is a viewer, who may look and not approve."
    assert choice(vera, [PAY]) == "vera is a viewer, who may look and not approve."


def test_names_are_a_few_and_cannot_mislead() -> None:
    many = [Demand("bank", f"tool{number}", PAY.policy) for number in range(8)]
    assert demanded(many).endswith("bank/tool0, bank/tool1, bank/tool2, bank/tool3, bank/tool4 and 3 more.")
    odd = demanded([Demand("bank", "pay\x1b[2J\u202e" + "x" * 1000, PAY.policy)])
    assert odd.isprintable()
    assert len(odd) < 300
