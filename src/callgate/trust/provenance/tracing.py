"""Where each value among a call's arguments was met before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from callgate.trust.critical import (
    covers,
    is_address,
    is_carried,
    is_field,
    is_obeyed,
    is_paging,
    is_said,
    is_setting,
    is_somewhere,
    is_whom,
    looks_critical,
    named_critical,
    names_somebody,
    without_places,
)
from callgate.trust.model import Provenance, ToolLabel, Traced, ValueKind
from callgate.trust.proposing import is_named, is_named_for_adding, is_named_for_replacing
from callgate.trust.provenance import guarded, normalise, packing
from callgate.trust.provenance.asking import AGREED, WANTS, names_a_field
from callgate.trust.provenance.harvest import NESTED, PROSE_WORDS, is_written_as_account, keys, leaves
from callgate.trust.provenance.joining import Budget
from callgate.trust.provenance.memory import Memory
from callgate.trust.provenance.names import (
    accounts,
    begins_as_link,
    has_new_link,
    is_account,
    is_reached_at,
    leads_to_somebody,
    link_mark,
    role_of,
    strangers,
    vouches_for_host,
)
from callgate.trust.provenance.packing import SPAN
from callgate.trust.provenance.records import is_id, nouns, spoken_of
from callgate.trust.provenance.values import TEXT_CHARS, USERS, Value, shown

_VALUES: Final = 1_000
_LINKS: Final = 100
# A value is the user's when it was met there.
OWN_WORDS: Final = frozenset(("endorsed", "prompt", "clean", "trusted", "linked"))
# A value that the user named.
_NAMED: Final = frozenset(("endorsed", "prompt", "clean", "linked"))


def trace(
    memory: Memory, label: ToolLabel, arguments: Mapping[str, Any], critical: Sequence[str] | None = None
) -> Provenance:
    """What a call's arguments are made of. `critical` are paths, those of the label where none are given."""
    paths = label.critical if critical is None else critical
    stays = "public" in label.destinations and _stays(memory, label, paths, arguments)
    noted = stays and _only_adds(label, arguments)
    benign = label.outcome == "benign"
    values: list[Traced] = []
    links: list[Traced] = []
    new: list[str] = []
    strange_texts: list[str] = []
    own = False
    budget = Budget()
    # Whether a stranger can have said anything at all.
    doubtful = bool(memory.strange) or memory.overflowed
    # The paths of what decides although nothing says so: they tell of no other value whether it can be traced.
    unexpected: set[str] = set()
    presumes = doubtful and not stays and _does_harm(label) and not label.critical_declared
    for path, key, value in leaves(arguments):
        if len(values) >= _VALUES or budget.chars < 0:
            # Nobody looks at what comes after so many; it must not be where an order hides.
            values.append(_unseen(path))
            break
        if label.fixed and str(value) in label.fixed.get(without_places(path), ()):
            values.append(Traced(path, "text", "schema", covers(paths, path), shown(str(value))))
            continue
        matters = not stays and (
            (bool(paths) and covers(paths, path)) or (not label.critical_declared and looks_critical(label, key, value))
        )
        matters = matters and (
            label.critical_declared
            or label.may_be_irreversible
            or not isinstance(value, str)
            or _can_decide(key, value)
        )
        presumed = presumes and not matters and _may_decide(label, key, value)
        unexpected.update([path] if presumed else ())
        if (
            type(value) is str
            and normalise.OPENING_CHARS < len(value) <= TEXT_CHARS
            and not memory.overflowed
            and _is_new(memory, value)
        ):
            traced, text, cut = Traced(path, "text", "nowhere", matters or presumed, shown(value)), value, False
        else:
            one = Value(memory, label, path, key, value, critical=matters or presumed, budget=budget)
            if one.empty:
                continue
            traced, text, cut = _traced(one, value, presumed=presumed), one.text, one.cut
            # Put together from the user's words, it may say something else than they did.
            own = own or (
                traced.found in OWN_WORDS and traced.kind not in ("time", "quantity") and not one.made_of_words
            )
        budget.chars -= len(text)
        found = traced.found
        if doubtful and found not in OWN_WORDS and traced.kind not in ("time", "quantity"):
            traced = _looked_into(memory, label, traced, text, budget)
            if not traced.critical:
                links += _foreign(memory, label, path, text, budget)
                if cut:
                    # What comes after is not looked at, so it may be anything.
                    links.append(Traced(path, "link", "untrusted", False, "a longer text than is traced"))  # noqa: FBT003
            found = traced.found
        values.append(traced)
        follows = benign or traced.critical or traced.kind == "link"
        if found not in OWN_WORDS and (
            (follows and _leads_on(memory, traced, key, text, benign=benign))
            or (presumes and _shows_new_link(memory, traced, text))
        ):
            new.append(path)
        # A new entry that goes to nobody is a note of the user's, unless it leads to somebody.
        if (
            found == "untrusted"
            and traced.kind == "text"
            and (not noted or leads_to_somebody(text))
            and not _decides_nothing(label, paths)
        ):
            strange_texts.append(path)
    if doubtful and [item for item in arguments.values() if isinstance(item, NESTED)]:
        values += _keys(memory, label, paths, arguments, budget)
    new += _carried(memory, values) if benign else ()
    return Provenance(
        tuple(values),
        tuple(links[:_LINKS]) if links and not stays else (),
        own,
        memory.prompt_known,
        tuple(sorted(_guarded(memory, label, arguments, values, doubtful=doubtful))),
        tuple(new[:_LINKS]) if new else (),
        not stays and _is_untraceable(memory, label, paths, values, unexpected),
        () if benign or label.read_only else _far_reaching(memory, label, arguments, values, links),
        tuple(strange_texts[:_LINKS]) if strange_texts else (),
        doubtful,
        doubtful and not stays and _is_unasked(memory, label, values),
        tuple(_others_than_named(memory, arguments, values)) if doubtful and not benign else (),
    )


def _others_than_named(memory: Memory, arguments: Mapping[str, Any], values: Sequence[Traced]) -> Iterator[str]:
    """The paths of ids where the user's latest words name another one. An amount may be worked out from theirs."""
    decide = {one.path for one in values if one.critical and one.kind == "identity"}
    decide -= {one.path for one in values if one.found in (*_NAMED, "schema")}
    for path, _, value in leaves(arguments):
        if path in decide and memory.named_another(str(value)[:_TOKEN_CHARS]):
            yield path


_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{12,}")
_TOKEN_CHARS: Final = 256


def _is_opaque(token: str) -> bool:
    """Whether a word is one that nobody says and a machine made: letters of both cases, or with marks, and digits."""
    letters = any(map(str.isalpha, token)) and any(char.isupper() or char == "_" for char in token)
    return letters and any(map(str.isdigit, token)) and len(token) <= _TOKEN_CHARS


def _guarded(
    memory: Memory, label: ToolLabel, arguments: Mapping[str, Any], values: Sequence[Traced], *, doubtful: bool
) -> frozenset[str]:
    found = carries(memory, arguments, {one.path for one in values if one.critical}) if memory.details else frozenset()
    looks_up = label.outcome == "benign" and doubtful and "public" in label.destinations
    return found | {"credentials"} if looks_up and _gives_away(memory, arguments, values) else found


def _gives_away(memory: Memory, arguments: Mapping[str, Any], values: Sequence[Traced]) -> bool:
    """Whether a call that only looks something up has in a text what looks like a key, and a result of the user's had
    it."""
    given = {one.path for one in values if one.found != "schema"}
    for path, key, value in leaves(arguments):
        if path in given and isinstance(value, str) and not is_id(key):
            for one in filter(_is_opaque, islice(_TOKEN.findall(value[:TEXT_CHARS]), _VALUES)):
                words = memory.words(one)
                if memory.vouching.says(words) and not memory.users(packing.windows(words)):
                    return True
    return False


# A hidden file or folder, or one of the system's; not those that only say what to leave out or how to write.
_STARTS: Final = re.compile(
    r"(?:^|[\\/~])\.(?!(?:git|docker|npm|prettier|eslint)ignore$|gitattributes$|editorconfig$|prettierrc$|nvmrc$)[^\\/.]|^(?:/(?:etc|usr|bin|sbin|boot|lib|opt|Library|System)/|[A-Za-z]:\\Windows\\)"
)


# A file that is made for machines: not a text or a document for people.
_PROGRAM: Final = re.compile(
    r"[\\/](?:[^\\/.\s]+|[^\\/\s]+\.(?!(?:md|mdx|txt|rst|adoc|html?|csv|tsv|docx?|odt|rtf|pdf|eml|ics|json|log|tex)$)[^\\/.\s]+)$",
    re.IGNORECASE,
)
# One that holds commands.
_COMMANDS: Final = re.compile(
    r"[\\/](?:[^\\/.\s]+|[^\\/\s]+\.(?:sh|bash|zsh|fish|ps1|bat|cmd|mk|ya?ml|service|toml|cfg|ini))$", re.IGNORECASE
)


def _has_new_account(memory: Memory, text: str) -> bool:
    """Whether a text has the number of an account or a card that neither the user nor a trusted result has."""
    found = [number for number in accounts(text) if is_written_as_account(number)] + list(guarded.numbers(text))
    return any(not memory.vouches(memory.words(number)) for number in found)


def _far_reaching(
    memory: Memory,
    label: ToolLabel,
    arguments: Mapping[str, Any],
    values: Sequence[Traced],
    links: Sequence[Traced],
) -> tuple[str, ...]:
    """The arguments with which a change does more than a change: it leaves something empty, writes where programs
    start from or a stranger's address into a program or its settings, or puts another account in the place of what is
    there. Not where the user named the place. And whoever is to be reached or paid at a stranger's address, whatever
    the user named."""
    reached = [
        one.path
        for one in values
        if one.found in _DECIDING
        and one.kind not in ("quantity", "time")
        and is_whom(one.path)
        # A plain word that no stranger has and that decides nothing reaches nobody: `attendees[0].type: required`.
        and (one.critical or one.found == "untrusted" or not _is_plain(one.shown))
    ]
    if is_named_for_replacing(label.tool):
        reached += [
            path for path, _, text in leaves(arguments) if isinstance(text, str) and _has_new_account(memory, text)
        ]
    if is_setting(label.tool):
        reached += [one.path for one in links if "://" in one.shown or "." in one.shown]
    if [one for one in values if one.critical and one.found in _NAMED and one.kind != "quantity"]:
        return tuple(reached[:_LINKS])
    found = reached + [one.path for one in values if one.critical and _STARTS.search(one.shown)]
    if links and [one for one in values if one.critical and _PROGRAM.search(one.shown)]:
        # `jobs.run` is code more often than a host.
        written = {path for path, _, text in leaves(arguments) if isinstance(text, str) and "://" in text}
        found += [one.path for one in links if one.path in written]
    if [one for one in values if one.critical and _COMMANDS.search(one.shown)]:
        found += [
            path
            for path, _, text in leaves(arguments)
            if isinstance(text, str) and has_new_link(memory, text, address=False)
        ]
    found += [name for name, value in arguments.items() if isinstance(value, str) and not value.strip() and values]
    return tuple(found[:_LINKS])


# What people do not write to each other, and machines do.
_CODE: Final = re.compile(r"[|;{}$`\\]|[<>]\S|\S[<>]|&&|--|/\*|\w\(|://|^\s*#", re.MULTILINE)
_DECIDING: Final = ("untrusted", "nowhere")


def _does_harm(label: ToolLabel) -> bool:
    """Whether a call does more than read, and it leaves or may be impossible to undo."""
    return label.outcome != "benign" and (label.may_be_irreversible or not label.destinations <= USERS)


_SENTENCE_WORDS: Final = 5
_SPOKEN: Final = re.compile(r"[(\"'“„«]*[^\W\d_]+(?:['’-][^\W\d_]+)*[.,:;!?)\"'”“»]*")


def _can_decide(key: str, text: str) -> bool:
    """Whether a text may be whom or what its name says: no sentences are, and a single word is no domain."""
    return (
        any(map(str.isalnum, text))
        and not _is_prose(key, text)
        and not (text.isalpha() and key.casefold() in ("domain", "domains"))
    )


def _is_prose(key: str, text: str) -> bool:
    """Whether a value is a text for people, which decides nothing by itself: sentences, in an argument that is neither
    run nor obeyed."""
    words = text.split()
    if len(words) < _SENTENCE_WORDS or is_obeyed(key) or names_somebody(key) or _CODE.search(text) is not None:
        return False
    spoken = [word for word in words if _SPOKEN.fullmatch(word)]
    return 5 * len(spoken) >= 3 * len(words)


def _may_decide(label: ToolLabel, key: str, value: Any) -> bool:
    """Whether a value that nobody expects to decide anything may do so: it is short or no prose, and its name does not
    say that it is only a text. A number does where the call may be impossible to undo."""
    if isinstance(value, str):
        short = len(value.split()) <= PROSE_WORDS and "\n" not in value and _can_decide(key, value)
        said = is_said(key) and not (label.may_be_irreversible and _picks_out(value) and " " not in value)
        return not said and (short or bool(_CODE.search(value)))
    return label.may_be_irreversible and not is_paging(key)


def _traced(one: Value, value: Any, *, presumed: bool) -> Traced:
    """Where a value was met. One that is only presumed to decide does so where it is a stranger's or was met nowhere;
    whatever else it is says nothing about the rest of the call."""
    traced = one.traced()
    if traced.found == "linked" and (presumed or not traced.critical) and not one.made_of_words:
        # The user speaks of it, so it says what is meant.
        return replace(traced, critical=True, kind="identity")
    decides = traced.kind != "time" and (traced.found in _DECIDING or (one.number and traced.found == "own"))
    if traced.found == "nowhere" and isinstance(value, str) and _is_plain(value):
        # Words that no stranger has name nothing of theirs.
        decides = False
        if not presumed and not one.label.may_be_irreversible and not _leads_elsewhere(one):
            return replace(traced, critical=False)
    if decides or not presumed:
        return traced
    return Value(one.memory, one.label, one.path, one.key, value, critical=False, budget=one.budget).traced()


def _leads_elsewhere(one: Value) -> bool:
    """Whether a value says whom or where something goes to that leaves."""
    return names_somebody(one.key) or (is_somewhere(one.key) and not one.label.destinations <= USERS)


_PLAIN_CHARS: Final = 80
_PLAIN: Final = re.compile(r"#?[^\W\d_]+(?:[ _/-][^\W\d_]+)*")


def _is_plain(text: str) -> bool:
    """Whether a value is a few words and nothing else: no number, link or address."""
    return len(text) <= _PLAIN_CHARS and _PLAIN.fullmatch(text) is not None


def _picks_out(value: Any) -> bool:
    """Whether a value is more than a single word, which may be in any sentence."""
    return isinstance(value, str) and bool(value.strip()) and not value.strip().isalpha()


def _is_below_a_strangers(memory: Memory, text: str) -> bool:
    """Whether something is put before or behind a host of a stranger's."""
    labels = text.partition("?")[0].split(".")
    above = [".".join(labels[at:]) for at in range(0 if "?" in text else 1, len(labels) - 1)]
    return " " not in text and any(memory.is_strange(one) for one in above)


def _leads_on(memory: Memory, traced: Traced, key: str, text: str, *, benign: bool) -> bool:
    """Whether a value is a link, or may be taken for one, that has more in it than any that was read."""
    address = is_address(key)
    looked_up = benign and not address and "/" not in text and not text.startswith("www.")
    if looked_up and not _is_below_a_strangers(memory, text):
        # `name: shop.example`: what is looked up is not opened.
        return False
    follows = traced.kind == "link" or traced.critical
    return (follows or begins_as_link(text, address=address)) and has_new_link(memory, text, address=address)


def _shows_new_link(memory: Memory, traced: Traced, text: str) -> bool:
    """Whether a text has a link that neither the user nor anything that was read has: whoever gets it follows that, and
    a program may before."""
    return memory.prompt_known and not traced.critical and has_new_link(memory, text, address=False)


def _carried(memory: Memory, values: Sequence[Traced]) -> list[str]:
    """What goes along with a request to a host that is not the user's, where a tool only reads: a link that was read
    carries nothing out, and this may."""
    along = [one.path for one in values if is_carried(one.path) and _is_others(one)]
    if not along or not [
        one
        for one in values
        if _is_others(one)
        and begins_as_link(one.shown, address=is_address(one.path))
        and not vouches_for_host(memory, one.shown)
    ]:
        return []
    return along


def _is_others(traced: Traced) -> bool:
    """Whether a value is neither the user's nor the tool's own."""
    return traced.found not in OWN_WORDS and traced.found != "schema"


def _stays(memory: Memory, label: ToolLabel, paths: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Whether a call of a tool that may reach anybody stays with the user: it names nobody to send to."""
    if not label.destinations & USERS or label.may_be_irreversible:
        return False
    given = list(leaves(arguments))
    to = [path for path in paths if names_somebody(path)]
    if not given or not to:
        # Who is not heard may have asked for what needs no arguments.
        return not given and not memory.prompt_known
    return not any(covers(to, path) or (isinstance(one, str) and is_reached_at(one)) for path, _, one in given)


def _only_adds(label: ToolLabel, arguments: Mapping[str, Any]) -> bool:
    """Whether a call makes a new thing, and touches none that is there: its tool is named for that, and no argument is
    the id of such a thing. Whoever has to do with one that is there may hear of a change."""
    if not is_named_for_adding(label.tool):
        return False
    about = nouns(label.tool)
    return not any(is_id(key) and spoken_of(key, label.tool) & about for _, key, _ in leaves(arguments))


def _decides_nothing(label: ToolLabel, paths: Sequence[str]) -> bool:
    """Whether somebody said that no argument of a tool decides anything, and what it does can be undone."""
    return label.critical_declared and not paths and not label.may_be_irreversible


def _is_untraceable(
    memory: Memory, label: ToolLabel, paths: Sequence[str], values: Sequence[Traced], unexpected: Collection[str]
) -> bool:
    """Whether no value tells whom or what a call affects, and the user's words do not ask for it. What only goes to
    those whom it names goes to nobody where it names none."""
    if all(map(names_somebody, paths)) if paths else _decides_nothing(label, paths):
        return False
    named, picked_out, several = True, False, 0
    for one in values:
        # What a person approved here before tells it too, even where nobody expects that.
        expected = one.critical and (one.path not in unexpected or one.found == "linked")
        # How much of something says nothing of what.
        expected = expected and not (one.kind == "quantity" and one.found in ("own", "nowhere"))
        if one.found == "endorsed" or (expected and one.found != "schema"):
            return False
        if one.found != "schema" and one.kind not in ("time", "quantity"):
            named = named and one.found in _NAMED
            picked_out = picked_out or (named and _picks_out(one.shown))
        several += one.found in _NAMED and one.kind != "time"
    if named and (picked_out or (several > 1 and memory.asks(WANTS))):
        # All of it is in the user's words.
        return False
    wanted = memory.prompt_known and memory.wants(label.tool, exactly=label.may_be_irreversible)
    return not (wanted and is_named(label.tool, memory.asks))


def _is_unasked(memory: Memory, label: ToolLabel, values: Sequence[Traced]) -> bool:
    """Whether the user's words are known and do not ask for what a tool does, where harm may follow; of a change that
    can be put right, whether they ask for nothing at all to be done. A person who approved it before, for the same
    thing, asked for it."""
    if not memory.prompt_known or label.outcome == "benign" or [one for one in values if one.found == "endorsed"]:
        return False
    if not _does_harm(label):
        return bool(values) and not memory.asks(WANTS) and not memory.asks(AGREED)
    if memory.wants(label.tool) or memory.asks(AGREED):
        return False
    if _is_meant(memory, label, values):
        return False
    return not any(names_a_field(without_places(one.path), memory.asks) for one in values)


def _is_meant(memory: Memory, label: ToolLabel, values: Sequence[Traced]) -> bool:
    """Whether the user's words want something done, say of each value that decides what is meant by it, and no stranger
    speaks of the act. Where it cannot be undone, they have to say how much."""
    decide = [one for one in values if one.critical and one.found != "schema"]
    if not memory.asks(WANTS) or not decide or not all(one.found in _NAMED for one in decide):
        return False
    if not label.destinations <= USERS and not any(one.found == "prompt" for one in values):
        return False
    said = not label.may_be_irreversible or any(
        one.found == "prompt" and (one.kind == "quantity" or is_obeyed(one.path)) for one in values
    )
    return said and not memory.is_act_spoken_of(label.tool)


def _unseen(path: str) -> Traced:
    return Traced(path, "identity", "untrusted", critical=True, shown="more values than are traced")


def _looked_into(memory: Memory, label: ToolLabel, traced: Traced, text: str, budget: Budget) -> Traced:
    """What decides and is nobody's as a whole may have a stranger's address in it; and what is one decides, even where
    nobody expects that."""
    if traced.found == "untrusted":
        if traced.critical or traced.kind == "text":
            return traced
        # What is only written down for the user is a text like any other there.
        noted = label.critical_declared and label.destinations <= USERS
        if noted:
            return replace(traced, kind="text")
        return replace(traced, critical=True, steps=budget.came_with(memory, memory.pieces(text)))
    if not traced.critical:
        return traced
    found = budget.strangers(memory, text, role_of(label, traced.path), critical=True)
    if not found:
        return traced
    steps = budget.came_with(memory, memory.pieces(found[0]))
    return replace(traced, found="untrusted", shown=shown(found[0]), steps=steps)


def _foreign(memory: Memory, label: ToolLabel, path: str, text: str, budget: Budget) -> list[Traced]:
    """Links, addresses and account numbers in a text that only a stranger's texts had."""
    found: list[Traced] = []
    for name in budget.strangers(memory, text, role_of(label, path), critical=False)[:_LINKS]:
        kind: ValueKind = "link" if "." in name and "@" not in name else "identity"
        steps = budget.came_with(memory, memory.pieces(name))
        found.append(Traced(path, kind, "untrusted", critical=False, shown=shown(name), steps=steps))
    return found


def _keys(
    memory: Memory, label: ToolLabel, paths: Sequence[str], arguments: Mapping[str, Any], budget: Budget
) -> Iterator[Traced]:
    """Names of members that are a stranger's, or were until a person approved them: of an account number anywhere, of
    any name where it decides something."""
    for number, (path, key, name) in enumerate(keys(arguments)):
        if number >= _VALUES:
            yield _unseen(path)
            return
        matters = covers(paths, path) or (not label.critical_declared and named_critical(key))
        if is_account(normalise.fold(name)) or (matters and not is_field(name)):
            traced = Value(memory, label, path, key, name, critical=True, budget=budget).traced()
            if traced.found in ("untrusted", "endorsed"):
                yield traced


def carries(memory: Memory, arguments: Mapping[str, Any], deciding: Collection[str] = ()) -> frozenset[str]:
    """The classes of guarded data (`financial`, `regulated`, `credentials`) of which the arguments hold a detail: an
    account or card number, a code, a key that a result so labelled had, or that is known by its shape, and that is not
    in the user's own words. `deciding` are the paths of what decides who or what is affected."""
    if not memory.details:
        return frozenset()
    texts: list[str] = []
    decide: list[str] = []
    for path, _, value in leaves(arguments):
        text = value if isinstance(value, str) else normalise.number(value)
        texts.append(text)
        if path in deciding:
            decide.append(text)
    return memory.carries(texts, decide)


def to_endorse(
    memory: Memory, label: ToolLabel, arguments: Mapping[str, Any], provenance: Provenance
) -> tuple[str, ...]:
    """What a person who approves a call endorses with it: its critical values and its foreign links, as digests.

    Each for the argument of the tool that it stands in: who agrees to read a page has not agreed to send there.
    """
    found = {value.path for value in provenance.values if value.critical and value.found not in OWN_WORDS}
    texts = {link.path for link in provenance.foreign_links}
    digests: list[str] = []
    for path, key, value in (*leaves(arguments), *keys(arguments)):
        if path in found:
            digests.append(Value(memory, label, path, key, value, critical=True).mark())
        elif path in texts and isinstance(value, str):
            role = role_of(label, path)
            found_there, _ = strangers(memory, value[:TEXT_CHARS], critical=False, role=role)
            digests += [link_mark(memory, name, role) for name in found_there]
    return tuple(dict.fromkeys(digests))


def _is_new(memory: Memory, text: str) -> bool:
    """Whether a long text begins as nothing does that is remembered: then it was met nowhere, whatever follows."""
    opening = normalise.opening(text) if not memory.endorsed else ()
    if not opening:
        return False
    digests = memory.fingerprints
    if memory.strange.issuperset(packing.numbers(b"".join(map(digests.pieces.__getitem__, opening)))):
        return False
    if not (memory.own or memory.prompt or memory.clean or memory.vouching):
        # Nothing has any of these words, if they are words at all.
        return any(map(digests.atoms.__getitem__, opening))
    words = packing.numbers(b"".join(map(digests.atoms.__getitem__, opening)))
    return not (memory.own.issuperset(words) or memory.vouches(words[:SPAN]))
