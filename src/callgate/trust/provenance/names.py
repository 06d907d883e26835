"""What names somebody or some place by itself, wherever it stands: addresses, links, hosts, account numbers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

from callgate.trust.critical import without_places
from callgate.trust.provenance import normalise
from callgate.trust.provenance.fingerprints import CACHED_LENGTH
from callgate.trust.word_lists import word_lists

if TYPE_CHECKING:
    from callgate.trust.model import ToolLabel
    from callgate.trust.provenance.memory import Memory

# Server, tool, and the path of an argument without the places in its lists.
Role: TypeAlias = tuple[str, str, str]

# Where a host without a scheme may be: few words have a full stop before a letter.
_DOTTED: Final = re.compile(r"\.[^\W\d_][^\W_]")
_BLANK: Final = re.compile(r"\s")
_BARE_HOST: Final = re.compile(
    r"(?<![\w@.:/%-])(?:[^\W_](?:[\w-]{0,62}[^\W_])?+\.)+([^\W\d_]{2,24})(?![\w@-])(?::\d+)?(/[^\s<>\"'`()\[\]{}|\\^]*)?"
)
# How links begin for browsers, which take one slash, none or a backslash as well; and the numbers of hosts.
_LINK_BEGINS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://|(?:https?|wss?|ftp):|[/\\]{2}(?=[\w-]+\.)|www\."
    r"|(?:(?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-f:.]+\])(?=[:/\\?#])",
    re.IGNORECASE,
)
_BETWEEN_LINKS: Final = re.compile(r"[\s,]+")
_ENDINGS: Final = word_lists("argument_words")["file_endings"]
# Below these nobody in particular is registered.
_SHARED: Final = frozenset(("co", "com", "org", "net", "ac", "gov", "edu", "ne", "or", "go", "gob", "gouv"))
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:/*|^//", re.IGNORECASE)
_HOST_ENDS: Final = re.compile(r"[/?#\\]")
# Shorter ones are numbers of all kinds.
_ACCOUNT_LENGTH: Final = 8
_ACCOUNT_DIGITS: Final = 4
_LONGEST: Final = 64
# A name with a year behind it.
_YEARLY: Final = re.compile(r"[a-z]{3,}(?:19|20)\d\d")
# Digits, blanks and the rest: what a folded text looks like to a search for numbers.
_SHAPE: Final = bytes(48 if 48 <= code <= 57 else 32 if chr(code).isspace() else 97 for code in range(256))


def _outlined(char: str) -> str:
    return "a" if char.isalpha() else "0" if char.isdigit() else " " if normalise.fold(char).isspace() else "-"


# What a plain text looks like before it is folded: letters, digits, blanks, and the rest.
_OUTLINE: Final = "".join(map(_outlined, map(chr, range(128)))).encode() + bytes(128)
# Searches for a rare sign that then look back are several times as fast as those for a common one.
_GROUP: Final = re.compile(rb"00(?<=aa00)")
_DOT: Final = re.compile(r"\.(?=[A-Za-z])")
_WWW: Final = re.compile(r"\.(?<=[wW]{3}\.)")
# So many digits in one word.
_DIGITS: Final = re.compile(rb"0(?:[^ 0]*+0){3}")
_SEPARATORS: Final = str.maketrans("", "", "-/.")
# A list of names in one text.
_LISTED: Final = re.compile(r"[,;\n|]")
_LISTED_WORDS: Final = 4
_MOST: Final = 1_000
# What no address of a page has unless somebody put something into it: a run without a word's end, and a part.
_OPAQUE: Final = re.compile(r"[A-Za-z0-9%=]{24,}")
_LONG_PART: Final = 100


def names(text: str) -> dict[str, None]:
    """The addresses, links, hosts and account numbers in a text, in their order."""
    if text.isascii():
        return _plain_names(text)
    plain = normalise.fold(text)
    found = dict.fromkeys(normalise.links(plain))
    if _DOTTED.search(plain) is not None:
        found |= dict.fromkeys(_hosts(plain))
    return found | dict.fromkeys(accounts(text))


def _plain_names(text: str) -> dict[str, None]:
    """The same of ASCII, whose outline tells in a moment what it cannot have."""
    outline = text.encode("ascii").translate(_OUTLINE)
    found: dict[str, None] = {}
    marks = ["@"] if "@" in text else []
    if "/" in text and "//" in text:
        marks.append("//")
    dotted = "." in text
    hosts = dotted and _DOT.search(text) is not None
    # A link without those two needs one of these at least.
    if dotted and (marks or hosts or b"0" in outline) and _WWW.search(text) is not None:
        marks.append("www.")
    if marks:
        found = dict.fromkeys(normalise.links(text, marks))
    if hosts and _DOTTED.search(text) is not None:
        found |= dict.fromkeys(_hosts(text))
    if outline.count(b"0") >= _ACCOUNT_DIGITS:
        found |= dict.fromkeys(_plain_accounts(text, outline))
    return found


def is_account(word: str) -> bool:
    """Whether a folded word looks like the number of an account, a card or a telephone."""
    bare = word.translate(_SEPARATORS)
    if _YEARLY.fullmatch(bare):
        return False
    return (
        _ACCOUNT_LENGTH <= len(bare) <= _LONGEST
        and bare.isalnum()
        and sum(map(str.isdigit, bare)) >= _ACCOUNT_DIGITS
        and all(atom[0] not in (normalise.DATE, normalise.TIME) for atom in normalise.atoms(word))
    )


def accounts(text: str) -> Iterator[str]:
    """The words of a text that look like such a number."""
    for word in _numbered(text):
        yield from _accounts(word)


def _accounts(word: str) -> Sequence[str]:
    return _known_accounts(word) if len(word) <= _LONGEST else _accounts_in(word)


def _accounts_in(word: str) -> Sequence[str]:
    cores = [part.strip("'.,:;!?-_/~#@&+=\\$€£%") for part in _LISTED.split(normalise.fold(word))]
    return tuple([core for core in cores if is_account(core)])


# Dates and prices come again and again.
_known_accounts: Final = lru_cache(4096)(_accounts_in)


def _plain_accounts(text: str, outline: bytes) -> Iterator[str]:
    """The same for ASCII. Folded, it has the same outline, and each word stands where it stood."""
    if _GROUP.search(outline) is not None and normalise.may_be_grouped(normalise.fold(text)):
        yield from accounts(text)
        return
    number = _DIGITS.search(outline)
    while number is not None:
        start, end = outline.rfind(b" ", 0, number.start()) + 1, outline.find(b" ", number.end())
        if end < 0:
            end = len(outline)
        if end - start >= _ACCOUNT_LENGTH:
            yield from _accounts(text[start:end])
        number = _DIGITS.search(outline, end)


def _numbered(text: str) -> Iterable[str]:
    """The words that have enough signs and digits in them to be one."""
    folded = normalise.fold(text)
    if normalise.may_be_grouped(folded):
        # The groups of a number that stand apart are one word.
        return [word for word in normalise.sequence(text) if len(word) >= _ACCOUNT_LENGTH and not word.isalpha()]
    shape = folded.encode("ascii").translate(_SHAPE)
    found: list[str] = []
    at = shape.find(b"0") if shape.count(b"0") >= _ACCOUNT_DIGITS else -1
    while at >= 0:
        start, end = shape.rfind(b" ", 0, at) + 1, shape.find(b" ", at)
        if end < 0:
            end = len(shape)
        if end - start >= _ACCOUNT_LENGTH and shape.count(b"0", at, end) >= _ACCOUNT_DIGITS:
            found.append(folded[start:end])
        at = shape.find(b"0", end)
    return found


def _hosts(text: str) -> Iterator[str]:
    end = 0
    for dot in _DOTTED.finditer(text):
        start = dot.start()
        if start < end:
            continue
        while start > end and not text[start - 1].isspace():
            start -= 1
        blank = _BLANK.search(text, dot.start())
        end = len(text) if blank is None else blank.start()
        for match in _BARE_HOST.finditer(text, start, end):
            ending = match[1].lower()
            # `logger.info(` is code, whatever the domains are.
            if (
                ending in _domains()
                and (match[2] or ending not in _ENDINGS)
                and text[match.end() : match.end() + 1] != "("
            ):
                yield match[0].rstrip(".,:;!?/")


@cache
def _domains() -> frozenset[str]:
    """The endings that names of hosts have."""
    text = files("callgate.trust.provenance").joinpath("tlds.txt").read_text("utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def host(link: str) -> str:
    """Where a link leads: its host alone, without what can be chosen freely."""
    rest = unquote(_SCHEME.sub("", link.strip(), count=1))
    authority = _HOST_ENDS.split(rest, maxsplit=1)[0].rpartition("@")[2]
    return authority.partition(":")[0].strip(".").lower().removeprefix("www.")


def domains(name: str) -> Iterator[str]:
    """A host and the domains that it belongs to, the closest first."""
    labels = name.split(".")
    for at in range(min(len(labels) - 1, 8)):
        if at == 0 or len(labels) - at > 2 or labels[-2] not in _SHARED:
            yield ".".join(labels[at:])


def listed(text: str) -> list[str]:
    """The single names of a list; none where it is a sentence."""
    if len(text) > 4096 or _LISTED.search(text) is None:
        return []
    parts = _LISTED.split(text)
    parts = [part for part in map(str.strip, parts) if part]
    return parts[:_MOST] if len(parts) > 1 and all(len(part.split()) <= _LISTED_WORDS for part in parts) else []


def strangers(
    memory: Memory, text: str, *, critical: bool, most: int = _MOST, role: Role | None = None
) -> tuple[list[str], int]:
    """What in a text only a stranger's texts had, each on its own, save what a person endorsed in this role; and how
    many were looked at. Of what decides whom a call affects, every name of a list counts. After `most`, the next one
    may be anybody's."""
    found = named(text)
    if critical and (more := listed(text)):
        found = tuple(dict.fromkeys((*found, *more)))
    if not found:
        return [], 0
    looked = found[: max(most, 0)]
    strange = [name for name in looked if is_strangers(memory, name) and not _endorsed(memory, name, role)]
    return [*strange, *found[len(looked) : len(looked) + 1]], len(looked)


def named(text: str) -> tuple[str, ...]:
    """The same as `names`. What a call has in its arguments is looked at again in its result."""
    return _known_names(text) if len(text) <= CACHED_LENGTH else tuple(names(text))


@lru_cache(4096)
def _known_names(text: str) -> tuple[str, ...]:
    return tuple(names(text))


def leads_to_somebody(text: str) -> bool:
    """Whether a text has a link, an address, an account or a telephone number in it."""
    return bool(named(text)) or _TELEPHONE.search(text) is not None


def is_reached_at(text: str) -> bool:
    """Whether a value is one of these and nothing else."""
    text = text.strip()
    return (len(text.split()) == 1 and (normalise.ADDRESS.fullmatch(text) is not None or begins_as_link(text))) or (
        _TELEPHONE.fullmatch(text) is not None
    )


def role_of(label: ToolLabel, path: str) -> Role:
    """What a person who approves a call endorses a value for: this argument of this tool, and nothing else."""
    return label.server, label.tool, without_places(path)


def link_mark(memory: Memory, name: str, role: Role) -> str:
    """The digest that an endorsement of a link or address within a text has."""
    return memory.fingerprints.named("link", *role, normalise.fold(name))


def _endorsed(memory: Memory, name: str, role: Role | None) -> bool:
    return role is not None and bool(memory.endorsed) and link_mark(memory, name, role) in memory.endorsed


def is_strangers(memory: Memory, name: str) -> bool:
    """Whether a name is a stranger's: a link is where its host is, whatever the rest of it says."""
    if memory.overflowed:
        # Whatever was read and forgotten may have had it.
        return not memory.vouches(memory.words(name))
    if memory.is_strange(name):
        return True
    if "@" in name.partition("/")[0] or not _leads(name):
        return False
    for domain in domains(host(name)):
        if memory.vouches(memory.words(domain)):
            return False
        pieces = memory.pieces(domain)
        if pieces and memory.strange.issuperset(pieces):
            return True
    return False


# A thing in somebody's place, `acme/site` or `acme/site#12`; and a number as people write it.
_WITHIN: Final = re.compile(r"(?<![\w/.:@#-])(\w[\w.-]{0,99})/(\w[\w.-]{0,99})(?:#(\d{1,9}))?(?![\w/])")
_TELEPHONE: Final = re.compile(r"(?<![\w+])\+?\(?\d(?:[ ()./-]{0,3}\d){6,18}(?![\w])")
_RESPELT: Final = 1_000


def respelt(text: str) -> list[str]:
    """What a person's words name as well, in the form that arguments have: the parts of `acme/site#12` and of the path
    of a link, and a number without what sets its groups apart."""
    found: list[str] = []
    for match in islice(_WITHIN.finditer(text), _RESPELT):
        found += [part.rstrip(".") for part in match.groups() if part]
    for link in islice(normalise.links(text, ("://",)), _RESPELT):
        if "://" in link:
            path = _SCHEME.sub("", link, count=1).partition("#")[0].partition("?")[0]
            found += [part for part in map(unquote, path.split("/")[1:]) if part]
    for match in islice(_TELEPHONE.finditer(text), _RESPELT):
        digits = "".join(filter(str.isdigit, match[0]))
        found += [digits, f"+{digits}"] if match[0].startswith("+") else [digits]
    return found


# Where a page or a note has a link that leads on from its own address.
_REFERENCE: Final = re.compile(
    r"""\]\(<?([^\s()<>]{1,2000})|(?:href|src)\s*=\s*["']?([^\s"'<>]{1,2000})""", re.IGNORECASE
)
_REFERENCES: Final = 5_000
# A place within a page, wherever a text names one.
_FRAGMENT: Final = re.compile(r"""#([^\s"'<>()\[\]#]{1,200})""")
_TRAILING: Final = "/.,:;!?"
_STEPS_BACK: Final = re.compile(r"^(?:\.{0,2}/)+")


def written_links(text: str) -> Iterable[str]:
    """The links in a text as `has_new_link` looks for them: whole, and those that lead on from the text's address."""
    if "://" not in text and "&" not in text and "=" not in text and "#" not in text and "](" not in text:
        return ()
    if "&" in text:
        text = f"{text} {html.unescape(text)}" if len(text) < 1_000_000 else text
    # A host that is only spoken of is no link yet.
    found = [link_form(link) for link in islice(normalise.links(text, ("://",)), _REFERENCES) if "://" in link]
    if _may_refer(text):
        for match in islice(_REFERENCE.finditer(text), _REFERENCES):
            one = match[1] or match[2]
            if ":" not in one.partition("/")[0]:
                found.append("/" + _STEPS_BACK.sub("", one.partition("#")[0]).rstrip("/"))
    if "#" in text:
        found += [f"#{one[1].rstrip(_TRAILING)}" for one in islice(_FRAGMENT.finditer(text), _REFERENCES)]
    return dict.fromkeys(found)


def _may_refer(text: str) -> bool:
    """Whether a text may have a reference. To look for the words first is much faster; letters beyond ASCII may pass
    for some of theirs."""
    if "](" in text or "=" not in text:
        return "](" in text
    plain = text.lower()
    return "href" in plain or "src" in plain or not text.isascii()


def link_form(link: str) -> str:
    """A link without what changes nothing about where it leads and what it carries."""
    rest = _SCHEME.sub("", link.strip(), count=1).partition("#")[0].rstrip(_TRAILING)
    authority, slash, path = rest.partition("/")
    return f"{authority.lower().removeprefix('www.')}{slash}{path}"


def has_new_link(memory: Memory, text: str, *, address: bool = True) -> bool:
    """Whether a text has a link that was met nowhere as it stands: then it may carry something out. One whose host is
    the user's leads where the user wants, unless it is laden. `address` says that nothing but an address is expected
    there."""
    text = text.strip()
    if begins_as_link(text, address=address):
        # Whoever follows it sends all of it, blanks and quotes too, unless it is a list.
        several = [part for part in _BETWEEN_LINKS.split(text) if part]
        found = several if all(begins_as_link(part, address=address) for part in several) else [text]
    else:
        found = [link for link in normalise.links(text) if "@" not in link.partition("/")[0]]
    return any(_is_new_link(memory, link) for link in found[:_MOST]) or len(found) > _MOST


def begins_as_link(text: str, *, address: bool = True) -> bool:
    """Whether programs that take an address would follow this one. What may as well be the name of a file is one only
    where an `address` is expected."""
    if "." not in text and ":" not in text and "[" not in text:
        return False
    if _LINK_BEGINS.match(text) is not None:
        return True
    named = _BARE_HOST.match(text)
    if named is None or text[named.end() : named.end() + 1] not in ("", "/", "\\", "?", "#", ":", ",", " "):
        return False
    return address or named[2] is not None or named[1].lower() in _domains() - _ENDINGS


# A page by a name of words, at a host without further parts: nothing else fits into its address.
_PLAIN_PAGE: Final = re.compile(
    r"(?:[a-z][a-z-]{1,30}\.(?:[a-z]{2,3}\.)?[a-z]{2,12}|localhost|127\.0\.0\.1)(?::\d{2,5})?"
    r"(?:(?:/[A-Za-z][A-Za-z-]{0,24}){1,3}(?:\.(?:html?|md|php|aspx?|txt|pdf))?)?/?"
)


def _is_new_link(memory: Memory, link: str) -> bool:
    form = link_form(link)
    fragment = link.partition("#")[2].rstrip(_TRAILING)
    is_met = memory.link(form) in memory.strange
    place, slash, path = form.partition("/")
    if vouches_for_host(memory, link):
        return _carries(memory, fragment) or (not is_met and _carries(memory, path))
    if fragment and memory.link(f"#{fragment}") not in memory.strange:
        # No request has it, and every script of the page can read it.
        return True
    if is_met:
        return False
    plain = link.startswith(("http://", "https://")) and _PLAIN_PAGE.fullmatch(form) is not None
    if plain and not memory.prompt_known and not is_strangers(memory, host(link)):
        # Most likely the user wrote it, who is not heard here. It has room for nothing but a few words.
        return False
    if not slash or not memory.strange.issuperset(memory.pieces(place)):
        return True
    # A page of a known place that leads on from another one there.
    parts = path.split("/")
    return not any(memory.link("/" + "/".join(parts[at:])) in memory.strange for at in range(min(len(parts), 16)))


def _carries(memory: Memory, path: str) -> bool:
    """Whether a link to a place of the user's has so much in it that was met nowhere that it may carry a text out: a
    long run that is no words, or a long part of any kind."""
    parts = re.split(r"[/?&=#]", path)
    if any(len(part) > _LONG_PART and not _is_met(memory, part) for part in parts[:_MOST]):
        return True
    runs = _OPAQUE.findall(path.replace("%20", " "))
    return any(not _is_met(memory, run) for run in runs[:_MOST])


def _is_met(memory: Memory, text: str) -> bool:
    return memory.strange.issuperset(memory.pieces(text)) or memory.vouches(memory.words(text))


def vouches_for_host(memory: Memory, link: str) -> bool:
    """Whether the host of a link, or a domain that it belongs to, is the user's."""
    place = host(link)
    return any(memory.vouches(memory.words(one)) for one in (*domains(place), place))


def _leads(name: str) -> bool:
    return "://" in name or _LINK_BEGINS.match(name) is not None or _BARE_HOST.fullmatch(name) is not None
