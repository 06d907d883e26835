"""Which calls a passkey approves, in plain words: the same ones at enrolment, in `callgate doctor` and in a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from callgate.approval.display import escape
from callgate.approval.model import ApprovalPolicy, Credential, User, reaches

_SHOWN: Final = 5
_NAME_CHARS: Final = 80


class Demand(msgspec.Struct, frozen=True):
    """A tool that does not take every passkey. `user` is who is asked about it; None stands for the only person."""

    server: str
    tool: str
    policy: ApprovalPolicy
    user: str | None = None

    def concerns(self, user: str) -> bool:
        return self.user is None or self.user == user


def kind_of(policy: ApprovalPolicy) -> str:
    """The passkey that such a tool takes."""
    elsewhere = policy.authenticator_class == "cross-platform"
    if policy.require_counter:
        also = "works from another device and " if elsewhere else ""
        return f"a passkey that {also}counts its signatures (as security keys do)"
    if elsewhere:
        return "a passkey that works from another device (a security key, a phone or a synced passkey)"
    return "any passkey that verifies its user"


def how_to_add(policy: ApprovalPolicy, way: str) -> str:
    """Where to begin (`way`), and what to choose then: the browser offers every kind."""
    choose = "a security key" if policy.require_counter else "a security key or a phone"
    return f"Add one with {way}, and choose {choose} when the browser asks where to save it."


def lacking(held: Iterable[Credential], demands: Iterable[Demand], user: str) -> list[Demand]:
    """The tools that this person is asked about and that none of these passkeys approves."""
    keys = list(held)
    return [one for one in demands if one.concerns(user) and not any(one.policy.takes(key) for key in keys)]


def reach(user: User, held: Credential, demands: Sequence[Demand], *, whom: str = "") -> str:
    """What one passkey of this person approves; `whom` is what to call them, such as "you"."""
    if not reaches(user.role, "approver"):
        return f"{user.name} is a viewer, who may look and not approve."
    every = f"This passkey approves every call that Callgate asks {whom or user.name} about"
    if without := lacking([held], demands, user.name):
        return f"{every}, except those of {_but(without)}"
    taken = [one for one in demands if one.concerns(user.name)]
    return f"{every}, also where a tool does not take every kind: {tools_of(taken)}." if taken else f"{every}."


def except_for(held: Credential, demands: Sequence[Demand]) -> str:
    """The same in a cell of a table."""
    without = lacking([held], demands, held.user)
    return f"all but {_count(without)}" if without else "all"


def choice(user: User, demands: Sequence[Demand], *, whom: str = "") -> str:
    """What to know before a passkey is made."""
    if not reaches(user.role, "approver"):
        return f"{user.name} is a viewer, who may look and not approve."
    every = f"Any passkey, also that of the device, approves the calls that Callgate asks {whom or user.name} about"
    picky = [one for one in demands if one.concerns(user.name)]
    return f"{every}, except those of {_but(picky)}" if picky else f"{every}."


def _but(demands: Sequence[Demand]) -> str:
    kinds = {kind_of(one.policy) for one in demands}
    if len(kinds) > 1:
        return f"{_count(demands)}. {demanded(demands)}"
    return f"{tools_of(demands)}, which {'demands' if len(demands) == 1 else 'demand'} {kinds.pop()}."


def demanded(demands: Sequence[Demand]) -> str:
    """What the tools demand: a sentence for each kind."""
    kinds = dict.fromkeys(kind_of(one.policy) for one in demands)
    groups = [(kind, [one for one in demands if kind_of(one.policy) == kind]) for kind in kinds]
    return " ".join(
        f"{_count(group)} {'demands' if len(group) == 1 else 'demand'} {kind}: {tools_of(group)}."
        for kind, group in groups
    )


def tools_of(demands: Sequence[Demand]) -> str:
    """A few of them by name. A server chose the names: what misleads the eye is written out."""
    names = [f"{one.server}/{escape(one.tool[:_NAME_CHARS])}" for one in demands[:_SHOWN]]
    rest = len(demands) - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def _count(demands: Sequence[Demand]) -> str:
    return "1 tool" if len(demands) == 1 else f"{len(demands)} tools"
