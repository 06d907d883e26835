"""What parts of the gateway need to know of a configuration, each taken from it in one place."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from callgate.audit import ArgumentsPolicy
from callgate.audit.cosigning import Witnesses, WitnessParty
from callgate.audit.note import WITNESS, VerifierKey
from callgate.config import Config, ServerApproval, ServerPinning, ServerTrust
from callgate.jsonrpc import Limits
from callgate.transport.http.exchange import Guard, host_of, origin_of


def review_command(path: Path | None) -> str:
    """What to type to review tools under this configuration, from wherever."""
    return "callgate review" if path is None else shlex.join(["callgate", "review", "-c", str(path.absolute())])


def arguments(config: Config) -> ArgumentsPolicy:
    """How much of a call's arguments goes on record."""
    return ArgumentsPolicy(config.audit.arguments, config.audit.redact)


def witnesses(config: Config) -> tuple[WitnessParty, ...]:
    """Who is asked to cosign the log."""
    return tuple(
        WitnessParty(name, one.url.rstrip("/"), VerifierKey.parse(one.key, WITNESS))
        for name, one in config.audit.witnesses.items()
        if one.url is not None and one.key is not None
    )


def demanded_witnesses(config: Config) -> Witnesses:
    """Whose cosignatures the log needs, and how many."""
    return Witnesses(tuple(party.key for party in witnesses(config)), config.audit.demanded)


def concerning(config: Config, name: str) -> tuple[object, ...] | None:
    """What an upstream is made of: while this stays, it and its sessions stay."""
    server = config.servers.get(name)
    if server is None:
        return None
    bounds = config.server_limits(name) if server.kind == "stdio" else None
    plain = msgspec.structs.replace(server, approval=ServerApproval(), pinning=ServerPinning(), trust=ServerTrust())
    return plain, config.limits.message_bytes, bounds


def guard(config: Config) -> Guard:
    """The gateway is ours too under the names that agents and people's browsers know it by."""
    hosts, origins = config.gateway.allowed_hosts, config.gateway.allowed_origins
    if config.agents.external_url is not None:
        hosts += (host_of(config.agents.external_url),)
    if config.has_console and config.approval.url is not None:
        hosts += (host_of(config.approval.url),)
        origins += (origin_of(config.approval.url),)
    return Guard(config.gateway.address.host, hosts, origins)


def limits(config: Config) -> Limits:
    """How large a message may be."""
    return Limits(config.limits.message_bytes, config.limits.depth, config.limits.batch)
