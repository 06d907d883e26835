"""`callgate agents verify`: what is right and wrong with a signed request, label by label."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from callgate.cli.common import JsonOption, print_json, say
from callgate.cli.people import plain

if TYPE_CHECKING:
    from callgate.agents.components import SignedMessage
    from callgate.agents.fields import Input
    from callgate.agents.keys import PublicKey
    from callgate.agents.model import Signed

MAX_REQUEST: Final = 16 * 1024 * 1024


class Label(msgspec.Struct):
    """One signature of a request."""

    label: str
    covered: list[str]
    params: dict[str, Any]
    base: str = ""
    problem: str = ""


class Report(msgspec.Struct):
    """What `verify` found. `reason` is empty where a signature holds."""

    ok: bool = False
    reason: str = ""
    status: int = 200
    detail: str = ""
    advice: str = ""
    verified: dict[str, Any] | None = None
    labels: list[Label] = []
    others: dict[str, str] = {}
    # What it would be if judged at the moment it was signed, where the time is what is wrong.
    in_its_time: str | None = None


def verify(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="The request as it was sent; - or nothing is stdin.")
    ] = "-",
    *,
    key: Annotated[
        list[Path] | None,
        typer.Option("--key", "-k", metavar="FILE", help="Keys to verify with: PEM, JWK, or a directory document."),
    ] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch the directory that Signature-Agent names.")] = False,
    scheme: Annotated[Literal["https", "http"], typer.Option("--scheme", help="How it was sent.")] = "https",
    authority: Annotated[
        str | None, typer.Option("--authority", metavar="HOST", help="What it was sent to; by default its Host header.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Judge it at this time: `created`, seconds, or ISO.")
    ] = None,
    profile: Annotated[
        Literal["ietf", "legacy"], typer.Option("--profile", help="Which signatures are taken.")
    ] = "ietf",
    digest: Annotated[bool, typer.Option("--require-digest", help="The body has to be covered.")] = False,
    show_base: Annotated[bool, typer.Option("--base/--no-base", help="Show what exactly was signed.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Verify a captured request, and show what was signed. Nothing is sent; with --fetch its directory is fetched.

    Exits with 0 if a signature holds, else with 1.
    """
    from callgate.cli.agents_captured import captured

    signed = captured(_read(file), scheme, authority)
    report = asyncio.run(_report(signed, key or [], at=at, fetch=fetch, profile=profile, digest=digest))
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        _print(report, show_base=show_base)
    if not report.ok:
        raise typer.Exit(1)


async def _report(
    signed: Signed, files: list[Path], *, at: str | None, fetch: bool, profile: Any, digest: bool
) -> Report:
    from callgate.agents.verifying import Verifier, VerifySettings
    from callgate.errors import Refused
    from callgate.store.memory import MemoryAgents

    report = Report(labels=_labels(signed))
    settings = VerifySettings(
        profile=profile, content_digest="required" if digest else "optional", allow_test_keys=True
    )
    looking = _Looking(files, fetch=fetch, by_kid=profile == "legacy")

    async def judged(now: float) -> Report:
        found = msgspec.structs.replace(report)
        try:
            held = await Verifier(settings, looking.key, MemoryAgents(), lambda: now).verify(signed)
        except Refused as refused:
            found.reason, found.status, found.detail = refused.reason.value, refused.status, refused.message
            found.advice = refused.advice
            found.others = dict(refused.data.get("labels", {}))
        else:
            found.ok, found.verified, found.others = True, msgspec.to_builtins(held), dict(held.others)
        return found

    created = _created(report.labels)
    try:
        done = await judged(_moment(at, created))
        if created is not None and done.reason in ("signature_expired", "created_in_future"):
            done.in_its_time = (await judged(created)).reason
    finally:
        await looking.close()
    return done


class _Looking:
    """Where keys come from: files, and if wanted the directory that the request names."""

    def __init__(self, files: list[Path], *, fetch: bool, by_kid: bool) -> None:
        from callgate.agents.directories import Directories, Sources
        from callgate.agents.keys import PublicKey
        from callgate.sdk.agent_keys import read_public

        self._keys: list[PublicKey] = [PublicKey.read(jwk) for file in files for jwk in read_public(file)]
        self._by_kid = by_kid
        self._directories = Directories(Sources(kid_fallback=by_kid)) if fetch else None

    async def key(self, keyid: str, directory: str | None) -> PublicKey | None:
        for key in self._keys:
            if key.thumbprint == keyid or (self._by_kid and key.kid == keyid):
                return key
        if self._directories is None:
            return None
        explained = await self._directories.why(keyid, directory)
        for step in explained.steps:
            if step.outcome not in ("found", "absent") or step.where != "static":
                say(f"looked in {plain(step.where, 300)}: {step.outcome} {plain(step.text, 300)}".rstrip())
        return await self._directories.key(keyid, directory)

    async def close(self) -> None:
        if self._directories is not None:
            await self._directories.close()


def _labels(signed: Signed) -> list[Label]:
    """Every label with what it covers and its base, as far as they can be read."""
    from callgate.agents.components import SignedMessage
    from callgate.agents.fields import inputs
    from callgate.errors import Refused

    message = SignedMessage(signed)
    raw = message.header(b"signature-input")
    try:
        given = {} if raw is None else inputs(raw)
    except Refused:
        return []
    return [
        Label(label, [], {}, problem="it is no list of components") if one is None else _label(label, one, message)
        for label, one in given.items()
    ]


def _label(label: str, given: Input, message: SignedMessage) -> Label:
    from callgate.agents.components import signature_base
    from callgate.errors import Refused

    params = {name: value if isinstance(value, str | int) else str(value) for name, value in given.params.items()}
    made = Label(label, [one.text for one in given.components], params)
    try:
        made.base = signature_base(given, message).decode()
    except Refused as refused:
        made.problem = refused.message
    return made


def _created(labels: list[Label]) -> int | None:
    found = [one.params["created"] for one in labels if type(one.params.get("created")) is int]
    return found[0] if found else None


def _moment(at: str | None, created: int | None) -> float:
    from callgate.cli.when import parse_when

    if at is None:
        return time.time()
    if at == "created":
        return float(created or 0)
    if at.isdigit():
        return float(at[:15])
    return (parse_when(at, time.time()) or 0) / 1000


def _read(file: str) -> bytes:
    from callgate.errors import CallgateError

    if file == "-":
        raw = sys.stdin.buffer.read(MAX_REQUEST + 1)
    else:
        try:
            with Path(file).open("rb") as opened:
                raw = opened.read(MAX_REQUEST + 1)
        except OSError as error:
            raise CallgateError(f"{file} cannot be read: {error.strerror}", advice="Name another file.") from None
    if len(raw) > MAX_REQUEST:
        raise CallgateError("the request is larger than 16 MiB", advice="Capture a smaller one.")
    return raw


def _print(report: Report, *, show_base: bool) -> None:
    for one in report.labels:
        others = report.others.get(one.label, "")
        typer.echo(f"label {plain(one.label)}" + (f"  ({others})" if others else ""))
        for name, value in one.params.items():
            typer.echo(f"  {plain(name)} = {plain(str(value), 300)}")
        if one.problem:
            typer.echo(f"  {plain(one.problem, 300)}")
        elif show_base:
            typer.echo("  what was signed:")
            for line in one.base.splitlines():
                typer.echo(f"    {plain(line, 2000)}")
    if report.ok and report.verified is not None:
        body = "the body is bound to it" if report.verified["digest_verified"] else "the body is NOT bound to it"
        typer.echo(f"OK: label {plain(report.verified['label'])}, key {report.verified['keyid']}; {body}.")
        return
    typer.echo(f"Refused: {report.reason} ({report.status}). {plain(report.detail, 500)}")
    if report.reason == "unknown_keyid":
        say("Give the key with --key FILE, or --fetch the directory that the request names.")
    elif report.advice:
        say(report.advice)
    if report.in_its_time is not None:
        say(f"When it was signed: {report.in_its_time or 'it held'}.")
