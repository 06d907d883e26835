"""`callgate agents sign|verify`: sign a request, or say what is right and wrong with a signed one."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
import typer

from callgate.agents.keys import PublicKey
from callgate.agents.model import Signed
from callgate.agents.nonces import MemoryNonces
from callgate.agents.signing import COVERED
from callgate.agents.verifying import Input, Lookup, SignedMessage, Verifier, VerifySettings, inputs, signature_base
from callgate.cli.agents.keys import KeyFile
from callgate.cli.common import JsonOption, parse_when, print_json, say
from callgate.cli.printing import plain
from callgate.errors import CallgateError, Refused
from callgate.sdk.agent_keys import AgentKey, read_public

HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="'NAME: VALUE'", help="A header of the request.")
]
MAX_REQUEST: Final = 16 * 1024 * 1024
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (\S{1,8192})(?: HTTP/[0-9.]{1,3})?")
_NAME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_HOW: Final = "It begins with a line such as `POST /mcp HTTP/1.1`, then headers, an empty line and the body."


def sign(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the request goes.")],
    *,
    key: KeyFile = Path("agent.pem"),
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="URL", help="Where its key is published, for Signature-Agent.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-X", help="By default GET, or POST with a body.")] = None,
    body: Annotated[
        str | None, typer.Option("--body", "-d", metavar="TEXT|@FILE", help="The body; @- reads it from stdin.")
    ] = None,
    header: HeaderOption = None,
    expires: Annotated[int, typer.Option("--expires", min=1, max=86_400, help="Seconds that it holds.")] = 60,
    label: Annotated[str, typer.Option("--label", help="The signature's label.")] = "sig1",
    legacy: Annotated[bool, typer.Option("--legacy", help="Signature-Agent as older verifiers read it.")] = False,
    digest: Annotated[bool, typer.Option("--digest/--no-digest", help="Cover the body by Content-Digest.")] = True,
    cover: Annotated[
        list[str] | None, typer.Option("--cover", metavar="COMPONENT", help="A further component, such as a header.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="COMPONENT", help="Leave one of @method, @authority, @path, @query out."),
    ] = None,
    curl: Annotated[bool, typer.Option("--curl", help="Print a curl command that sends it.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the whole request, as `agents verify` reads it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Sign a request and print the headers to send with it. Each signature is good for one request."""
    from callgate.sdk.sign import signed_headers

    whole = b"" if body is None else read_body(body)
    verb = (method or ("GET" if body is None else "POST")).upper()
    headers = [split_header(one) for one in header or ()]
    made = signed_headers(
        AgentKey.read(key).signer(directory, label=label),
        verb,
        url,
        whole,
        headers,
        expires_in=expires,
        digest=digest,
        covered=covered_by(cover or (), without or ()),
        legacy=legacy,
    )
    replaced = {name.lower() for name in made}
    every = [(name, value) for name, value in headers if name.lower() not in replaced] + list(made.items())
    if as_json:
        print_json({"method": verb, "url": url, "headers": dict(every)})
    elif curl:
        typer.echo(_curl(verb, url, every, body))
    elif raw:
        _write_request(verb, url, every, whole)
    else:
        for name, value in made.items():
            typer.echo(f"{name}: {value}")


def covered_by(more: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    """What a signature covers; it has to stay good for one host only."""
    if unknown := set(without) - set(COVERED):
        raise typer.BadParameter(f"{min(unknown)!r} is not covered anyway", param_hint="--without")
    covered = (*(one for one in COVERED if one not in without), *more)
    if not {"@authority", "@target-uri"} & set(covered):
        raise typer.BadParameter("a signature has to cover @authority or @target-uri", param_hint="--without")
    return covered


def split_header(text: str) -> tuple[str, str]:
    """`Name: value` as it stands on a line."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not text.isprintable():
        raise typer.BadParameter(f"{text!r} is no 'NAME: VALUE'", param_hint="--header")
    return name.strip(), value.strip()


def read_body(text: str) -> bytes:
    """A body from the command line, a file, or stdin."""
    if not text.startswith("@"):
        return text.encode()
    if text == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{text[1:]} cannot be read: {error.strerror}", param_hint="--body") from None


def _curl(method: str, url: str, headers: list[tuple[str, str]], body: str | None) -> str:
    words = ["curl", "-sS", "-X", method]
    for name, value in headers:
        words += ["-H", f"{name}: {value}"]
    if body is not None:
        # curl adds a content type of its own where there is none.
        if all(name.lower() != "content-type" for name, _ in headers):
            words += ["-H", "Content-Type: application/json"]
        # --data-raw does not read @FILE, --data-binary does not touch line ends.
        words += ["--data-binary", body] if body.startswith("@") else ["--data-raw", body]
    return shlex.join([*words, url])


def _write_request(method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> None:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1"]
    if all(name.lower() != "host" for name, _ in headers):
        lines.append(f"Host: {parts.netloc.rpartition('@')[2]}")
    lines += [f"{name}: {value}" for name, value in headers]
    sys.stdout.buffer.write("\r\n".join([*lines, "", ""]).encode() + body)
    sys.stdout.buffer.flush()


class SignatureLabel(msgspec.Struct, frozen=True):
    """One signature of a request."""

    label: str
    covered: list[str]
    params: dict[str, Any]
    base: str = ""
    problem: str = ""


class SignatureReport(msgspec.Struct, frozen=True):
    """What `verify` found. `reason` is empty where a signature holds."""

    ok: bool = False
    reason: str = ""
    status: int = 200
    detail: str = ""
    advice: str = ""
    verified: dict[str, Any] | None = None
    labels: list[SignatureLabel] = []
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
    signed = read_captured(_read(file), scheme, authority)
    report = asyncio.run(_report(signed, key or [], at=at, fetch=fetch, profile=profile, digest=digest))
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        _print(report, show_base=show_base)
    if not report.ok:
        raise typer.Exit(1)


async def _report(
    signed: Signed, files: list[Path], *, at: str | None, fetch: bool, profile: Any, digest: bool
) -> SignatureReport:
    labels = _labels(signed)
    settings = VerifySettings(
        profile=profile, content_digest="required" if digest else "optional", allow_test_keys=True
    )

    async def judged(lookup: Lookup, now: float) -> SignatureReport:
        try:
            held = await Verifier(settings, lookup, MemoryNonces(), lambda: now).verify(signed)
        except Refused as refused:
            return SignatureReport(
                reason=refused.reason.value,
                status=refused.status,
                detail=refused.message,
                advice=refused.advice,
                labels=labels,
                others=dict(refused.data.get("labels", {})),
            )
        return SignatureReport(ok=True, verified=msgspec.to_builtins(held), labels=labels, others=dict(held.others))

    created = _created(labels)
    async with _lookup(files, fetch=fetch, by_kid=profile == "legacy") as lookup:
        done = await judged(lookup, _moment(at, created))
        if created is not None and done.reason in ("signature_expired", "created_in_future"):
            done = msgspec.structs.replace(done, in_its_time=(await judged(lookup, created)).reason)
    return done


@contextlib.asynccontextmanager
async def _lookup(files: list[Path], *, fetch: bool, by_kid: bool) -> AsyncIterator[Lookup]:
    """Where keys come from: files, and if wanted the directory that the request names."""
    from callgate.agents.directories import Directories, Sources

    keys = [PublicKey.read(jwk) for file in files for jwk in read_public(file)]
    directories = Directories(Sources(kid_fallback=by_kid)) if fetch else None

    async def find(keyid: str, directory: str | None) -> PublicKey | None:
        for key in keys:
            if key.thumbprint == keyid or (by_kid and key.kid == keyid):
                return key
        if directories is None:
            return None
        explained = await directories.why(keyid, directory)
        for step in explained.steps:
            if step.outcome not in ("found", "absent") or step.where != "static":
                say(f"looked in {plain(step.where, 300)}: {step.outcome} {plain(step.text, 300)}".rstrip())
        return await directories.key(keyid, directory)

    try:
        yield find
    finally:
        if directories is not None:
            await directories.close()


def _labels(signed: Signed) -> list[SignatureLabel]:
    """Every label with what it covers and its base, as far as they can be read."""
    message = SignedMessage(signed)
    raw = message.header(b"signature-input")
    try:
        given = {} if raw is None else inputs(raw)
    except Refused:
        return []
    return [
        SignatureLabel(label, [], {}, problem="it is no list of components")
        if one is None
        else _label(label, one, message)
        for label, one in given.items()
    ]


def _label(label: str, given: Input, message: SignedMessage) -> SignatureLabel:
    params = {name: value if isinstance(value, str | int) else str(value) for name, value in given.params.items()}
    covered = [one.text for one in given.components]
    try:
        return SignatureLabel(label, covered, params, base=signature_base(given, message).decode())
    except Refused as refused:
        return SignatureLabel(label, covered, params, problem=refused.message)


def _created(labels: list[SignatureLabel]) -> int | None:
    found = [one.params["created"] for one in labels if type(one.params.get("created")) is int]
    return found[0] if found else None


def _moment(at: str | None, created: int | None) -> float:
    if at is None:
        return time.time()
    if at == "created":
        return float(created or 0)
    if at.isdigit():
        return float(at[:15])
    return (parse_when(at, time.time()) or 0) / 1000


def _read(file: str) -> bytes:
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


def _print(report: SignatureReport, *, show_base: bool) -> None:
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


def read_captured(raw: bytes, scheme: str, authority: str | None) -> Signed:
    """The request; the body are the bytes after the empty line, to the last one."""
    head, body = _head_and_body(raw)
    lines = head.splitlines()
    if lines and all(line[:1] in (b">", b"*", b"{", b"}", b"<") or not line.strip() for line in lines):
        lines = [line[1:].removeprefix(b" ") for line in lines if line[:1] == b">"]
    first = _REQUEST_LINE.fullmatch(lines[0].strip()) if lines else None
    if first is None:
        raise CallgateError("this is no HTTP request", advice=_HOW)
    headers = _headers([line for line in lines[1:] if line.strip()])
    target = first[2].decode("latin-1")
    parts = urlsplit(target)
    if parts.scheme:
        scheme, authority = parts.scheme, authority or parts.netloc
        target = target.partition("://")[2].partition("/")[2]
        target = f"/{target}"
    path, mark, query = target.partition("?")
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if authority is None and len(hosts) != 1:
        raise CallgateError("the request does not say whom it is for", advice="Add --authority HOST.")
    where = authority if authority is not None else hosts[0]
    return Signed(first[1].decode(), scheme, where, path, query if mark else None, headers, body)


def _head_and_body(raw: bytes) -> tuple[bytes, bytes]:
    raw = raw.lstrip(b"\r\n")
    found = re.search(rb"\r?\n\r?\n", raw)
    return (raw, b"") if found is None else (raw[: found.start()], raw[found.end() :])


def _headers(lines: list[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    found: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name):
            raise CallgateError(f"{line[:80]!r} is no header", advice=_HOW)
        found.append((name.lower(), value.strip(b" \t\r")))
    return tuple(found)
