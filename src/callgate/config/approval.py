"""Who approves calls, with which passkeys and on which pages: `[approval]` and `[servers.NAME.approval]`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from callgate.config import rules
from callgate.config.rules import Clash, KeyRule, Section, http_url
from callgate.protocol import COMMON_SERVER_IDS

_MOST_GROUPS: Final = 10
ANY_LOCAL_PORT: Final = "http://localhost:*"
LOCAL: Final = "localhost"

_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*\Z")
_PORTS: Final = {"http": 80, "https": 443}
_NAMES: Final = "passkeys belong to a name, never to an IP address"
_ORIGIN: Final = (
    'expected an origin, such as "https://agent.example" or "http://localhost:6274": scheme, host and port only'
)


def origin(text: str) -> str | None:
    """An origin of pages on which passkeys can be used, as browsers spell it."""
    if "*" in text:
        return f'wildcards are not taken, but for "{ANY_LOCAL_PORT}" in origins; name each origin'
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _ORIGIN
    if parts.scheme not in _PORTS or not host or not text.isascii() or "@" in parts.netloc:
        return _ORIGIN
    if f"{parts.scheme}://{parts.netloc}".lower() != text.lower():
        return _ORIGIN
    if _is_ip(host):
        return f'{_NAMES}; write "{_spell_origin(parts.scheme, LOCAL, port)}" for this machine'
    if parts.scheme == "http" and host != LOCAL:
        return "browsers use passkeys on https pages only, and on http://localhost; write https"
    if text != (right := _spell_origin(parts.scheme, host, port)):
        return f'browsers spell this origin "{right}"; write it so'
    return None


def signing_origin(text: str) -> str | None:
    """The same, or any port of this machine."""
    return None if text == ANY_LOCAL_PORT else origin(text)


def console_url(text: str) -> str | None:
    """The console's address; its pages are at the root."""
    wrong = http_url(text)
    if wrong is not None:
        return wrong
    bare = text.removesuffix("/")
    wrong = origin(bare)
    return (
        'expected scheme, host and port only, such as "https://gate.example"; the console is at the root of its host'
        if wrong == _ORIGIN
        else wrong
    )


def relying_party(text: str) -> str | None:
    """A WebAuthn rpId."""
    if _is_ip(text.strip("[]")):
        return f'{_NAMES}; write "localhost", or the host of url'
    if not _DOMAIN.match(text):
        return 'expected a domain in small letters, such as "gate.example", without scheme, port or path'
    return None


def misfit(url: str | None, rp_id: str, origins: tuple[str, ...]) -> str | None:
    """Why passkeys for `rp_id` could not be used on the console's pages: the domain is theirs, or one above it."""
    if url is None:
        if rp_id == LOCAL or origins:
            return None
        return f'people sign on a page of this domain, and none is named; write url = "https://{rp_id}" as well'
    host = urlsplit(url).hostname or ""
    if host == rp_id or ("." in rp_id and host.endswith(f".{rp_id}")):
        return None
    if rp_id == LOCAL:
        return (
            'passkeys are bound to a domain, by default to "localhost", and no page of '
            f'{host} could use them; write rp_id = "{host}" beside url in [approval]'
        )
    if host == LOCAL:
        return (
            f'a page of localhost cannot use passkeys for {rp_id}; take rp_id away, or write url = "https://{rp_id}" '
            "and put TLS in front of it"
        )
    return f'a page of {host} can use passkeys for {host} or a domain above it, not for {rp_id}; write rp_id = "{host}"'


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # Browsers read a host of digits as an IPv4 address, in forms that Python does not know.
        return re.fullmatch(r"(.*\.)?(\d+|0x[0-9a-f]*)\.?", text.lower()) is not None
    return True


def _spell_origin(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://{host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{host}:{port}"


class ApprovalSection(Section, frozen=True):
    """Verified approval: a person signs with a passkey over exactly the call that is made."""

    enabled: bool | None = None
    """Whether tools that their server marks as needing verified approval need it here, and whether the console is
    served. By default yes while `trust.mode` is `enforce`, whose policy may ask a person, or any server has `tools` in
    its approval section."""
    user: Annotated[str | None, KeyRule(check=rules.user_name)] = None
    """Who is asked to approve. By default the only user there is; with several, name one."""
    url: Annotated[str | None, KeyRule(check=console_url, expand=True)] = None
    """Address of the console as people's browsers see it, such as `https://gate.example`: https, and `rp_id` to go with
    it. By default `http://localhost:PORT` with the port the gateway listens on."""
    rp_id: Annotated[str, KeyRule(check=relying_party)] = "localhost"
    """The domain passkeys are bound to (WebAuthn rpId): the host of `url` or a domain above it. Passkeys enrolled for
    another one cannot be used any more."""
    rp_name: Annotated[str, KeyRule(check=rules.word)] = "Callgate"
    """What authenticators show as the name of this gateway."""
    origins: Annotated[tuple[str, ...], KeyRule(check=signing_origin)] = ()
    """Further origins of pages that people sign on, such as `https://agent.example`. `http://localhost:*` stands for
    any port and is there by default while `rp_id` is localhost."""
    top_origins: Annotated[tuple[str, ...], KeyRule(check=origin)] = ()
    """Origins of pages that may hold such a page in a frame while it signs. By default none."""
    server_id: Annotated[str | None, KeyRule(check=rules.word)] = None
    """What sets this deployment apart in everything that is signed; it is never sent. By default a random id that is
    kept in the store. Changing it makes open challenges useless."""
    first_use: bool = False
    """Let a client enrol the first passkey of `user` without a ticket. For trying things out: whoever comes first, a
    program included, becomes the one who approves."""
    recovery_codes: bool = True
    """Give people recovery codes with their first passkey. Without them, whoever loses every passkey needs a new link
    from whoever runs the gateway."""
    challenge_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """How long a challenge can be signed and used."""
    enrolment_seconds: Annotated[float, Meta(ge=10, le=3600)] = 300.0
    """How long an enrolment that was begun may take."""
    ticket_seconds: Annotated[float, Meta(ge=10, le=604800)] = 3600.0
    """How long an enrolment ticket is good for."""
    request_seconds: Annotated[float, Meta(ge=5, le=86400)] = 600.0
    """How long a call waits for its person on the approval page, and how long an approval given there lets the same
    call through once."""
    park_seconds: Annotated[float, Meta(ge=0, le=3600)] = 50.0
    """How long a client that cannot be told of the approval page is kept waiting; then it gets an error that names the
    page. Most clients give up after 60 seconds."""
    session_seconds: Annotated[float, Meta(ge=60, le=604800)] = 28800.0
    """How long a person stays signed in to the console."""
    pending_per_user: Annotated[int, Meta(ge=1, le=100000)] = 20
    """Most challenges of one caller open at once for one person, and most calls of it that wait for that person.
    All callers together have twice as many places; one caller has at most half of those that others leave."""
    pending: Annotated[int, Meta(ge=1, le=1000000)] = 10000
    """Most challenges open at once in all."""
    argument_bytes: Annotated[int, Meta(ge=256, le=2**24), KeyRule(read=rules.read_size)] = 262144
    """Largest arguments that a person can be asked to approve."""
    attestation: Literal["none", "direct"] = "none"
    """`direct` asks new passkeys to prove what they are and takes only those that `attestation_roots` vouch for."""
    attestation_roots: Annotated[tuple[Path, ...], KeyRule(check=rules.word, expand=True, place=rules.place_path)] = ()
    """PEM files with the certificates of authenticator makers that are trusted."""
    aaguids: Annotated[tuple[str, ...], KeyRule(check=rules.aaguid)] = ()
    """The only models of authenticators to enrol, by AAGUID; needs `attestation = "direct"`. By default any."""
    strict_defaults: bool = False
    """Refuse tools that need approval and whose input schema has defaults: what a default fills in is not what was
    signed. By default they are warned about."""
    locale: Literal["en", "de"] = "en"
    """Language of the messages of approval errors; reasons stay the same."""

    def clashes(self) -> Iterator[Clash]:
        if (wrong := misfit(self.url, self.rp_id, self.origins)) is not None:
            # The file says nothing of a default: then it is the url that asks for more.
            key = "url" if self.rp_id == LOCAL else "rp_id"
            yield Clash(key, wrong, ("url", "rp_id", "origins"))
        if self.attestation == "direct" and not self.attestation_roots:
            yield Clash(
                "attestation",
                'direct attestation needs attestation_roots = ["maker.pem"], or nobody could be believed',
                ("attestation", "attestation_roots"),
            )
        if self.aaguids and self.attestation != "direct":
            text = 'without proof a passkey can claim any model; write attestation = "direct" and attestation_roots'
            yield Clash("aaguids", text, ("aaguids", "attestation"))
        if self.server_id is not None and self.server_id.strip().lower() in COMMON_SERVER_IDS:
            text = "this name is not unique; take it away to have one made, or give this deployment's own URL"
            yield Clash("server_id", text, ("server_id",))


Approvals = Annotated[int, Meta(ge=1, le=20)]
Groups = Annotated[tuple[str, ...], KeyRule(check=rules.group_name)]
Methods = tuple[Literal["passkey", "device"], ...]


class ToolDemand(Section, frozen=True):
    """Who has to approve calls of a tool."""

    approvals: Approvals = 1
    """How many people have to sign, each with their own passkey. One refusal ends it."""
    of: Groups = ()
    """Of which groups they have to be (`callgate groups`). By default anybody who may approve, or for one approval the
    person in `user`."""
    methods: Methods = ()
    """How they may answer, instead of what the server's section says. If several tables fit a tool, all have to name a
    way."""
    grants: bool = True
    """Whether a person may sign a grant beforehand that lets an agent call these tools within bounds
    (`callgate grants`). No grant takes the place of several people, whatever this says."""

    def clashes(self) -> Iterator[Clash]:
        yield from _too_many_groups(self.of)
        yield from _without_passkeys(self.methods)


def _without_passkeys(methods: Methods) -> Iterator[Clash]:
    if methods and "passkey" not in methods:
        yield Clash("methods", 'passkeys are always taken; write methods = ["passkey", "device"]', ("methods",))


def _too_many_groups(groups: tuple[str, ...]) -> Iterator[Clash]:
    if len(groups) > _MOST_GROUPS:
        yield Clash("of", f"at most {_MOST_GROUPS} groups; put these people into one", ("of",))


class ServerApproval(Section, frozen=True):
    """Which tools of a server need a person's approval."""

    tools: Annotated[tuple[str, ...], KeyRule(check=rules.word)] = ()
    """Names of tools that need approval, whatever the server says; `*` stands for any letters, so `delete_*` works.
    Tools that the server marks need it anyway."""
    authenticator_class: Literal["cross-platform", "platform"] | None = None
    """For the tools listed here and for what the policy asks about: `platform` takes any passkey that verifies its
    user, `cross-platform` only those that work from another device (security keys, phones, synced passkeys). By default
    any, and what the server says of a tool that it marks."""
    require_counter: bool = False
    """Refuse passkeys whose signature counter never moves, so that a copy would be noticed."""
    user: Annotated[str | None, KeyRule(check=rules.user_name)] = None
    """Instead of `approval.user`, for this server."""
    approvals: Approvals = 1
    """How many people have to sign each call of this server that needs approval, also where only the policy asks. With
    more than one, or with `of`, these people are asked instead of the one in `user`."""
    of: Groups = ()
    """Of which groups they have to be (`callgate groups`). By default anybody who may approve, or for one approval the
    person in `user`."""
    methods: Methods = ("passkey",)
    """How people may answer calls of this server: `passkey`, and also `device` for a signed answer from a device that
    they have enrolled, without a passkey. Tools that the server marks take passkeys only."""
    grants: bool = True
    """Whether a person may sign a grant beforehand that lets an agent call tools of this server within bounds
    (`callgate grants`). With `false` no grant counts here, also none that was signed before."""
    demands: Annotated[dict[str, ToolDemand], KeyRule(name=rules.word)] = field(default_factory=dict)
    """Who has to approve some tools, one table `[servers.NAME.approval.demands.TOOL]` each; in a name `*` stands for
    any letters. These tools need approval as if `tools` named them, and every table that fits has to be met."""
    verifier: Literal["auto", "gateway", "server"] = "auto"
    """Who verifies approvals of tools that the server marks: the `gateway`, or the `server` itself, which then sees the
    evidence. `auto`: the server if it declares the capability. Tools listed in `tools` are always verified by the
    gateway."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every name or pattern of tools that need approval by the operator's wish."""
        return (*self.tools, *(name for name in self.demands if name not in self.tools))

    def clashes(self) -> Iterator[Clash]:
        yield from _too_many_groups(self.of)
        yield from _without_passkeys(self.methods)
        picky = self.authenticator_class == "cross-platform" or self.require_counter
        if picky and any(
            "device" in one for one in (self.methods, *(table.methods for table in self.demands.values()))
        ):
            text = "a device is weaker than the passkeys that authenticator_class or require_counter ask for"
            between = ("methods", "authenticator_class", "require_counter", "demands")
            yield Clash("methods", f"{text}; take one of them away", between)
