"""The people of a store and what each may do; the command line and the console change them here and nowhere else."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from callgate.approval.base import Base
from callgate.approval.model import Role, User
from callgate.errors import Reason, Refused

SECRET: Final = 32
_NAME_CHARS: Final = 64
USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}\Z")


def check_user_name(name: str) -> str:
    if not USER.match(name):
        raise Refused(
            Reason.INVALID_PARAMS,
            "a user's name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit",
            advice="Choose a name such as `alice` or `alice@example.com`.",
        )
    return name


def label(text: str, otherwise: str) -> str:
    """A name that a person gave a passkey or themselves, fit to be shown."""
    shown = "".join(char for char in text if char.isprintable()).strip()[:_NAME_CHARS]
    return shown or otherwise


class Removed(msgspec.Struct, frozen=True):
    """Somebody who is here no longer, and how many passkeys went with them."""

    name: str
    passkeys: int


class Persons(Base):
    """Add, change, remove; each with its line in the log."""

    async def user(self, name: str) -> User:
        user = await self.shelf.user(name)
        if user is None:
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")
        return user

    async def add_user(self, name: str, display_name: str = "", *, by: str, role: Role | None = None) -> User:
        """Add a person. The first one of a store runs it; who comes later approves, unless it is said otherwise."""
        shown = label(display_name, check_user_name(name))
        if role is None:
            role = "approver" if await self.shelf.users() else "operator"
        user = User(name=name, display_name=shown, handle=self._random(SECRET), created_at=self.now(), role=role)
        await self.shelf.add_user(user, self._witness("user.add", by, {"user": name, "role": role}))
        return user

    async def set_role(self, name: str, role: Role, *, by: str) -> None:
        """What a person may do from now on, in every page that is open too."""
        before = (await self.user(name)).role
        witness = self._witness("user.role", by, {"user": name, "role": role, "before": before})
        if not await self.shelf.set_role(name, role, witness):
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")

    async def remove(self, name: str, *, by: str) -> Removed:
        """Remove a person with their passkeys, recovery codes and open approvals, for good.

        Refused(LAST_OPERATOR) where those who stay could change nothing.
        """
        await self.user(name)
        passkeys = len(await self.shelf.credentials(name))
        witness = self._witness("user.remove", by, {"user": name, "passkeys": passkeys})
        if not await self.shelf.remove_user(name, witness):
            raise Refused(Reason.USER_UNKNOWN, f"there is no user {name!r}")
        return Removed(name, passkeys)
