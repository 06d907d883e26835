"""What every table of callgate.toml has in common, and what a value has to be beyond its type."""

from __future__ import annotations

import ipaddress
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, Struct

from callgate.config.secret import mask_all
from callgate.protocol import FIELD_NAME, FIELD_VALUE, fixed_header

Check = Callable[[str], str | None]

_HOST: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_SIZE: Final = re.compile(r"(?P<number>\d{1,15})\s*(?P<unit>B|KB|MB|GB|KiB|MiB|GiB)?")
_UNITS: Final = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_NAME: Final = r"[a-z0-9][a-z0-9_-]{0,63}"
_STORES: Final = ("sqlite", "postgresql", "postgresql+psycopg")
Sessions = Annotated[int, Meta(ge=1, le=1000000)]
Processes = Annotated[int, Meta(ge=1, le=100000)]
IdleSeconds = Annotated[float, Meta(ge=1, le=2592000)]


@dataclass(frozen=True)
class KeyRule:
    """How a key is read: beside msgspec's Meta in an annotation, it holds for each single value under the key."""

    check: Check | None = None
    name: Check | None = None  # the names in a table
    read: Callable[[str], Any] | None = None  # a string, where the type is something else
    expand: bool = False  # environment references
    single: bool = False  # one value stands for a list of it
    place: Callable[[str, Path], str] | None = None  # `~` and relative paths
    shown: Callable[[Sequence[str]], list[str]] = mask_all  # how Secrets print


def peel(kind: Any) -> tuple[Any, KeyRule | None]:
    """The type inside Annotated and Optional, and the rule that stands beside it."""
    rule = None
    while True:
        if get_origin(kind) is Annotated:
            rule = rule or next((part for part in kind.__metadata__ if isinstance(part, KeyRule)), None)
            kind = get_args(kind)[0]
        elif get_origin(kind) in {Union, types.UnionType}:
            kind = next(part for part in get_args(kind) if part is not type(None))
        else:
            return kind, rule


class Address(NamedTuple):
    """A host and a port to listen on; the port 0 lets the system choose."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads `host:port` or `[::1]:port`; ValueError says what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > 65535:
        raise ValueError('expected "host:port" with a port from 0 to 65535, such as "127.0.0.1:8420"')
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if _ip_version(host) != 6:
            raise ValueError('expected an IPv6 address inside the brackets, such as "[::1]:8420"')
    elif ":" in host:
        raise ValueError('an IPv6 address is written in brackets, such as "[::1]:8420"')
    elif not _is_host(host):
        raise ValueError('expected a host before the port; "0.0.0.0:8420" listens on every IPv4 address')
    return Address(host, int(port))


def address(text: str) -> str | None:
    try:
        parse_address(text)
    except ValueError as error:
        return str(error)
    return None


def allowed_host(text: str) -> str | None:
    if "*" in text:
        return "wildcards would switch off the guard against DNS rebinding; name each host"
    host = text
    if not (text.startswith("[") and text.endswith("]")) and ":" in text:
        if (wrong := address(text)) is not None:
            return f'expected a host as in a Host header, such as "gate.example" or "gate.example:8420"; {wrong}'
        host = parse_address(text).host
    elif text.startswith("["):
        host = text[1:-1]
    if not _is_host(host) and _ip_version(host) is None:
        return 'expected a host as in a Host header, such as "gate.example" or "gate.example:8420"'
    return None


def allowed_origin(text: str) -> str | None:
    wrong = 'expected an origin, such as "https://app.example" or "http://localhost:6274": scheme, host and port only'
    parts = _split(text)
    if parts is None or not re.fullmatch(r"[a-z][a-z0-9+.-]*", parts.scheme) or not parts.hostname:
        return wrong
    if "*" in text:
        return "wildcards are not taken; name each origin"
    return wrong if f"{parts.scheme}://{parts.netloc}" != text or "@" in parts.netloc else None


def http_url(text: str) -> str | None:
    """The message never repeats the URL: it may hold a secret."""
    parts = _split(text)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        return 'expected an http or https URL with a host, such as "https://tools.example/mcp"'
    if not text.isascii() or re.search(r"[\x00-\x20\x7f]", text):
        return "a URL holds no spaces, control characters or letters beyond ASCII; percent-encode them"
    if "#" in text:
        return "a fragment (#...) is never sent to a server; leave it out"
    return None


def store_url(text: str) -> str | None:
    scheme, colon, rest = text.partition("://")
    if not colon or scheme not in _STORES:
        return 'expected "sqlite:///FILE" or "postgresql://USER@HOST/DATABASE"'
    if scheme == "sqlite" and (not rest.startswith("/") or rest.partition("?")[0] in {"/", "/:memory:"}):
        return 'SQLite needs a file that outlives the process: "sqlite:///FILE"'
    return None


def header_name(text: str) -> str | None:
    if not FIELD_NAME.fullmatch(text):
        return "this is no name of an HTTP header"
    return "the gateway sets this header itself" if fixed_header(text) else None


def header_value(text: str) -> str | None:
    if text and not FIELD_VALUE.fullmatch(text):
        return "a header value is one line without control characters, and no space at its ends"
    return None


def env_name(text: str) -> str | None:
    return None if text and "=" not in text and "\0" not in text else "this is no name of an environment variable"


def no_nul(text: str) -> str | None:
    return "a NUL character cannot be passed to a process" if "\0" in text else None


def word(text: str) -> str | None:
    return no_nul(text) if text else "expected a word, found an empty string"


def matching(pattern: str, wrong: str) -> Check:
    """The check of a text that has to be of one form."""
    form = re.compile(pattern)
    return lambda text: None if form.fullmatch(text) else wrong


# As approval/people.py takes it
user_name: Final = matching(
    r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}",
    "a user's name has 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit",
)
aaguid: Final = matching(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    'expected an AAGUID in small letters, such as "cb69481e-8ff7-4039-93ec-0a2729a154a8"',
)
server_name: Final = matching(
    _NAME, "a server's name has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or digit"
)
witness_name: Final = matching(
    _NAME, "a witness's name has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or digit"
)
group_name: Final = matching(
    _NAME, "a group's name has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or digit"
)


def read_size(text: str) -> int:
    """Reads `32 MiB`; ValueError if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError('expected a number of bytes or a size such as "32 MiB"')
    return int(match["number"]) * _UNITS[match["unit"] or "B"]


def read_switch(text: str) -> bool:
    """Reads a yes or no from the environment; ValueError if it is neither."""
    lowered = text.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off"}:
        return False
    raise ValueError('expected "true" or "false"')


def place_path(text: str, base: Path) -> str:
    return str(base / Path(text).expanduser())


def place_store(text: str, base: Path) -> str:
    """Makes the file of a SQLite URL absolute, so that every working directory means the same store."""
    head, slashes, rest = text.partition("sqlite:///")
    if head or not slashes or rest.startswith((":", "?")) or not rest:
        return text
    path, question, query = rest.partition("?")
    placed = (base / Path(path).expanduser()).as_posix()
    return f"sqlite:///{placed}{question}{query}"


def _is_host(text: str) -> bool:
    return _HOST.fullmatch(text) is not None


def _ip_version(text: str) -> int | None:
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return None


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    return parts


class Clash(NamedTuple):
    """Keys that do not go together; not told while one of the `between` has a problem of its own.

    `key` is one of this table, or the way to one in a table inside it.
    """

    key: str | tuple[str | int, ...]
    text: str
    between: tuple[str, ...]


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of callgate.toml."""

    def clashes(self) -> Iterator[Clash]:
        """What is wrong between keys that are each right."""
        return iter(())
