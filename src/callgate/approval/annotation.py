"""The mark on a tool that says: only with a person's approval (SEP-2672 §4.2), and putting it there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import msgspec

from callgate.approval.model import ApprovalPolicy, AuthenticatorClass
from callgate.errors import ConfigError
from callgate.jsonrpc import member_span, put_member
from callgate.jsonrpc.reading import decode_leniently
from callgate.pipeline.replies import is_object
from callgate.protocol import CAPABILITIES, META, REQUIRED

CLASSES: Final = get_args(AuthenticatorClass)


class UnreadableAnnotation(ValueError):
    """A mark that says something this Callgate does not know: the tool is gated, and nobody can approve it."""


def annotation(policy: ApprovalPolicy, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The mark for `tool._meta`; `extra` members stand beside ours."""
    return {**(extra or {}), "required": REQUIRED, "authenticatorClass": policy.authenticator_class}


def read_annotation(tool: Mapping[str, Any]) -> ApprovalPolicy | None:
    """What a tool's listing asks for: None if it has no mark; raises UnreadableAnnotation where nobody can tell."""
    meta = tool.get("_meta")
    if not isinstance(meta, Mapping) or META not in meta:
        return None
    mark = meta[META]
    if not isinstance(mark, Mapping):
        raise UnreadableAnnotation("the mark is not an object")
    if mark.get("required") != REQUIRED:
        raise UnreadableAnnotation("`required` has a value that is not known here")
    wanted = mark.get("authenticatorClass", "cross-platform")
    if wanted not in CLASSES:
        raise UnreadableAnnotation("`authenticatorClass` has a value that is not known here")
    return ApprovalPolicy(authenticator_class=wanted)


def check_class(wanted: str) -> AuthenticatorClass:
    """An unknown class is a mistake in the program or the configuration, never a wider policy."""
    if wanted == "cross-platform":
        return "cross-platform"
    if wanted == "platform":
        return "platform"
    raise ConfigError(f"{wanted!r} is not an authenticator class", advice='Use "cross-platform" or "platform".')


PolicyFor = Callable[[str], ApprovalPolicy | None]

_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode

_encode: Final = msgspec.json.Encoder().encode


def add_capability(reply: bytes) -> bytes:
    """SEP-2672 §4.3: the capability under both of its names; what the server says there stays."""
    span = member_span(reply, ("result", "capabilities"))
    if span is None or not is_object(reply[span[0] : span[1]]):
        return reply
    capabilities = reply[span[0] : span[1]]
    inner = member_span(capabilities, ("extensions",))
    extensions = b"{}" if inner is None else capabilities[inner[0] : inner[1]]
    if not is_object(extensions):
        extensions = b"{}"
    declared = {name: extensions[at[0] : at[1]] for name in CAPABILITIES if (at := member_span(extensions, (name,)))}
    missing = [name for name in CAPABILITIES if name not in declared]
    if not missing:
        return reply
    for name in missing:
        extensions = put_member(extensions, name, next(iter(declared.values()), b"{}"))
    return reply[: span[0]] + put_member(capabilities, "extensions", extensions) + reply[span[1] :]


def mark_tools(reply: bytes, policy_for: PolicyFor) -> bytes:
    """§4.2: the mark on each tool of a list that has a policy; everything else of an entry stays as it is."""
    span = member_span(reply, ("result", "tools"))
    if span is None:
        return reply
    try:
        entries = [bytes(entry) for entry in _decode_list(reply[span[0] : span[1]])]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _mark_leniently(reply, policy_for)
    written = [_mark(entry, policy_for) for entry in entries]
    if written == entries:
        return reply
    return reply[: span[0]] + b"[" + b",".join(written) + b"]" + reply[span[1] :]


def marked(tool: Any, policy_for: PolicyFor) -> Any:
    """The same for an entry that was read; the same object where it needs no mark."""
    mark = _mark_for(tool, policy_for)
    if mark is None:
        return tool
    meta = tool.get("_meta")
    return {**tool, "_meta": {**(meta if isinstance(meta, dict) else {}), META: mark}}


def _mark(entry: bytes, policy_for: PolicyFor) -> bytes:
    tool = decode_leniently(entry)
    mark = _mark_for(tool, policy_for)
    if mark is None:
        return entry
    span = member_span(entry, ("_meta",))
    meta = b"{}" if span is None else entry[span[0] : span[1]]
    return put_member(entry, "_meta", put_member(meta if is_object(meta) else b"{}", META, _encode(mark)))


def _mark_leniently(reply: bytes, policy_for: PolicyFor) -> bytes:
    """The same where only a lenient reader can take the list apart: half an emoji in an honest description."""
    message = decode_leniently(reply)
    result = message.get("result") if isinstance(message, dict) else None
    tools = result.get("tools") if isinstance(result, dict) else None
    entries = tools if isinstance(tools, list) else []
    written = [marked(tool, policy_for) for tool in entries]
    if not isinstance(result, dict) or all(one is other for one, other in zip(written, entries, strict=True)):
        return reply
    return json.dumps({**message, "result": {**result, "tools": written}}).encode()


def _mark_for(tool: Any, policy_for: PolicyFor) -> dict[str, Any] | None:
    """The mark that an entry lacks; None where it needs none or has it."""
    name = tool.get("name") if isinstance(tool, dict) else None
    policy = policy_for(name) if isinstance(name, str) else None
    if policy is None:
        return None
    meta = tool.get("_meta")
    there = meta.get(META) if isinstance(meta, dict) else None
    mark = annotation(policy, there if isinstance(there, dict) else None)
    return None if mark == there else mark
