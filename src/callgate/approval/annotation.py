"""The mark on a tool that says: only with a person's approval (SEP-2672 §4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from callgate.approval.model import AuthenticatorClass, Policy
from callgate.errors import ConfigError
from callgate.protocol import META, REQUIRED

CLASSES: Final = get_args(AuthenticatorClass)


class Unreadable(ValueError):
    """A mark that says something this Callgate does not know: the tool is gated, and nobody can approve it."""


def annotation(policy: Policy, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The mark for `tool._meta`; `extra` members stand beside ours."""
    return {**(extra or {}), "required": REQUIRED, "authenticatorClass": policy.authenticator_class}


def read_annotation(tool: Mapping[str, Any]) -> Policy | None:
    """What a tool's listing asks for: None if it has no mark; raises Unreadable where nobody can tell."""
    meta = tool.get("_meta")
    if not isinstance(meta, Mapping) or META not in meta:
        return None
    mark = meta[META]
    if not isinstance(mark, Mapping):
        raise Unreadable("the mark is not an object")
    if mark.get("required") != REQUIRED:
        raise Unreadable("`required` has a value that is not known here")
    wanted = mark.get("authenticatorClass", "cross-platform")
    if wanted not in CLASSES:
        raise Unreadable("`authenticatorClass` has a value that is not known here")
    return Policy(authenticator_class=wanted)


def check_class(wanted: str) -> AuthenticatorClass:
    """An unknown class is a mistake in the program or the configuration, never a wider policy."""
    if wanted == "cross-platform":
        return "cross-platform"
    if wanted == "platform":
        return "platform"
    raise ConfigError(f"{wanted!r} is not an authenticator class", advice='Use "cross-platform" or "platform".')
