"""What a command or an SQL statement does, where that is known.

A tool that runs whatever it is given counts as the worst that it can do. A command that is understood to its end counts
as what it does: `git status` reads, and so does `SELECT`. What is not understood runs code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Final

import msgspec

from callgate.trust.model import UNTRUSTED
from callgate.trust.proposing import grave_things
from callgate.trust.word_lists import word_lists

_LISTS: Final = word_lists("commands")
_NONE: Final = frozenset[str]()
_LONGEST: Final = 4_000
_TOKENS: Final = 1_000
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Which database it is.
_ID: Final = re.compile(r"[a-z]+_id|[a-z]+I[dD]")


class CommandEffect(msgspec.Struct, frozen=True):
    """What a command does: effects as a label has them, and whose words come back.

    `needs` are conditions on the user's words, which have to hold one word of each group. They matter only once the
    agent has read what somebody else may have written.
    """

    effects: frozenset[str]
    source: str = "user"
    needs: tuple[frozenset[str], ...] = ()
    # What the user's words have to ask for: `changes`, `destroys`, `runs` or `any` of these.
    asks: frozenset[str] = frozenset()
    # Programs that are run: a stranger must not have named them.
    programs: tuple[str, ...] = ()
    # What the user must have named some of, and asked for a change, where a stranger's address is in it.
    named: frozenset[str] = frozenset()
    # The values of a statement: where the user named all of them, it is the user's.
    values: tuple[str, ...] = ()
    text: str = ""

    def and_then(self, other: CommandEffect) -> CommandEffect:
        source = max(self.source, other.source, key=_SOURCES.index)
        needs = (*self.needs, *other.needs)
        programs = (*self.programs, *other.programs)
        return CommandEffect(
            self.effects | other.effects,
            source,
            needs,
            self.asks | other.asks,
            programs,
            self.named | other.named,
            self.values + other.values if self.values and other.values else (),
        )


_SOURCES: Final = ("user", "internal", UNTRUSTED)
_READS: Final = CommandEffect(frozenset({"reads_own"}))
_OTHERS: Final = CommandEffect(frozenset({"reads_others"}), UNTRUSTED)
_CHANGES: Final = CommandEffect(frozenset({"changes"}))


def known(arguments: Mapping[str, Any]) -> CommandEffect | None:
    """What a call with these arguments does; None where that is not known."""
    command: list[str] = []
    operands: list[str] = []
    statement = ""
    fed = False
    for name, value in arguments.items():
        words = frozenset(part.lower() for part in _WORDS.findall(name))
        if value is None or value == "" or isinstance(value, bool):
            continue
        if words & _LISTS["arguments.commands"]:
            command += _strings(value) or [""]
        elif words <= _LISTS["arguments.operands"]:
            operands += _strings(value) or [""]
        elif words <= _LISTS["arguments.statements"] and isinstance(value, str) and not statement:
            statement = value
        elif words == {"stdin"} and isinstance(value, str):
            fed = True
        elif not isinstance(value, str | int | float) or not (
            words <= _LISTS["arguments.beside"] or _ID.fullmatch(name)
        ):
            return None
    if bool(command) == bool(statement) or (operands and len(command) != 1) or "" in command or "" in operands:
        return None
    if command and any(map(_ID.fullmatch, arguments)):
        return None
    if statement:
        return _told(statement, of_statement)
    if operands or len(command) > 1 or isinstance(arguments.get("argv"), list):
        # No shell reads these: each is one word.
        words_given = (*command, *operands)
        found = None if sum(map(len, words_given)) > _LONGEST else _of_words(words_given)
        return None if found is None else msgspec.structs.replace(found, text=" ".join(words_given))
    found = _told(command[0], of_command)
    # What runs something may run what it is fed.
    return None if fed and found is not None and found.source != "user" else found


def _told(text: str, reader: Callable[[str], CommandEffect | None]) -> CommandEffect | None:
    found = reader(text) if len(text) <= _LONGEST else None
    return None if found is None else msgspec.structs.replace(found, text=text)


def _strings(value: object) -> list[str]:
    """A command as its words; nothing where it is anything else."""
    several = value if isinstance(value, list | tuple) else [value]
    return [*several] if several and all(isinstance(one, str) and one for one in several) else []


# ---- commands of a shell ----

# A shell puts something else in the place of these. A dollar before what is no name means itself, and some names are
# what everybody has.
_LIVE: Final = re.compile(r"[`{\x00]|[<>]\(|\$(?![\s/|\\.]|(?:HOME|PWD|USER|PATH|PYTHONPATH|TMPDIR)\b)")
_SEPARATORS: Final = frozenset((";", "&&", "||", "|", ""))
_PUNCTUATION: Final = frozenset("();<>|&\n")
# A hidden file or folder, or one of the system's or above the home folder's own.
_FAR: Final = re.compile(
    r"(?:^|[\\/])\.(?!\.?(?:[\\/]|$))|^[~$]|^/(?:etc|usr|bin|sbin|boot|lib|opt|var|root|Library|System)\b"
    r"|^[A-Za-z]:\\(?:Windows|Program)"
)
# Options of programs for files that name no further place.
_PLAIN_OPTION: Final = re.compile(r"-[aifnprRv]+")
_VERSIONS: Final = frozenset(("--version", "-V", "-v", "version"))
# What `sed` may be given: lines to print, to delete, or to replace something in.
_PRINTS: Final = re.compile(r"\d+(?:,\d+)?p")
_EDITS: Final = re.compile(r"\d+(?:,\d+)?d|(?:\d+(?:,\d+)?)?s([/|,#@])(?:(?!\1).)*\1(?:(?!\1).)*\1[gI0-9]*", re.DOTALL)
_ASSIGNED: Final = re.compile(r"([A-Z_]+)=[\w./:$-]*")


@lru_cache(1024)
def of_command(text: str) -> CommandEffect | None:
    """What a line for a shell does, with all commands in it."""
    if _LIVE.search(text) is not None:
        return None
    whole: CommandEffect | None = None
    try:
        for words, target in _split(text):
            found = _of_words(words)
            if found is None or (target and _FAR.search(target)):
                return None
            found = found.and_then(_CHANGES) if target else found
            whole = found if whole is None else whole.and_then(found)
    except ValueError:
        return None
    return whole


def _split(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The single commands of a text, each with the file that its output goes to; ValueError where it does more than put
    them one after the other."""
    reader = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    tokens = list(islice(reader, _TOKENS + 1))
    if len(tokens) > _TOKENS:
        raise ValueError
    words: list[str] = []
    target = ""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if not token or not _PUNCTUATION.issuperset(token):
            words.append(token)
            continue
        sign = token.replace("\n", "")
        if sign in _SEPARATORS:
            if words or sign:
                yield tuple(words), target
            words, target = [], ""
            continue
        # Output that is put together, thrown away or kept.
        after = tokens[at] if at < len(tokens) else ""
        at += 1
        if sign == ">&" and after in ("1", "2"):
            words = words[:-1] if words[-1:] in (["1"], ["2"]) else words
        elif sign in (">", ">>") and after and not _PUNCTUATION.issuperset(after):
            words = words[:-1] if words[-1:] in (["1"], ["2"]) else words
            target = target if after == "/dev/null" else after
        else:
            raise ValueError
    if words or not tokens:
        yield tuple(words), target


def _of_words(words: Sequence[str]) -> CommandEffect | None:
    """What one command does."""
    given = list(words)
    assigned = 0
    while given and (match := _ASSIGNED.fullmatch(given[0])) is not None and match[1] in _LISTS["own.variables"]:
        given, assigned = given[1:], assigned + 1
    if given[:2] in (["uv", "run"], ["poetry", "run"]):
        given = given[2:]
    elif given[:1] == ["npx"] and given[1:2] and given[1] in _LISTS["own.programs"]:
        given = given[1:]
    if not given:
        return None
    program, given = given[0].lower(), given[1:]
    if assigned:
        return _of_own(program, given)
    for read in (_of_git, _of_looking, _of_editing, _of_subcommand, _of_own, _of_given):
        if (found := read(program, given)) is not None:
            return found
    return None


def _of_looking(program: str, given: list[str]) -> CommandEffect | None:
    if program in _LISTS["reads.programs"]:
        return _READS
    but = _LISTS.get(f"reads.but.{program}")
    if but is not None and not _has(given, but):
        return _READS
    if program == "uniq" and sum(not one.startswith("-") for one in given) <= 1:
        return _READS
    if program == "sed" and given[:1] == ["-n"] and given[1:] and _PRINTS.fullmatch(given[1]):
        return _READS
    is_version = len(given) == 1 and given[0] in _VERSIONS
    return _READS if is_version and program in _LISTS["given.programs"] | _LISTS["own.managers"] else None


def _of_editing(program: str, given: list[str]) -> CommandEffect | None:
    """A change as a server for files makes it, or a file that the user wants to be gone."""
    if any(map(_FAR.search, given)):
        return None
    if program in _LISTS["changes.programs"]:
        plain = all(_PLAIN_OPTION.fullmatch(one) for one in given if one.startswith("-"))
        return _CHANGES if plain else None
    if program == "sed" and given[:1] == ["-i"] and given[2:] and _EDITS.fullmatch(given[1]):
        return _CHANGES
    gone = [one for one in given if one != "-f"]
    if program not in ("rm", "del", "unlink") or not gone or any(one.startswith("-") or "*" in one for one in gone):
        return None
    named = tuple(frozenset((one, *_called(one))) for one in gone)
    return CommandEffect(frozenset({"changes"}), needs=named, asks=frozenset({"destroys"}))


def _called(path: str) -> Iterator[str]:
    """What people call a file: its name, with and without the ending."""
    name = re.split(r"[\\/]", path.rstrip("\\/"))[-1]
    yield name
    stem = name.rpartition(".")[0]
    if stem:
        yield stem


def _of_git(program: str, given: list[str]) -> CommandEffect | None:
    given = _after_settings(given) if program == "git" else []
    if not given or _has(given, _LISTS["git.but"]):
        return None
    verb, rest = given[0], given[1:]
    if verb in _LISTS["git.reads"]:
        return _READS
    options = [one for one in rest if one.startswith("-")]
    if verb in _LISTS["git.changes"] or (verb in _LISTS["git.makes"] and rest and not rest[0].startswith("-")):
        return _CHANGES if verb != "branch" or not options else None
    if rest[:1] and rest[0] in _LISTS.get(f"git.with.{verb}.changes", _NONE):
        return _CHANGES
    reads = _LISTS.get(f"git.with.{verb}.reads", _NONE)
    looks = (rest[0] in reads and reads.issuperset(options)) if rest else verb in _LISTS["git.alone"]
    return _READS if looks else None


def _after_settings(given: list[str]) -> list[str]:
    """What stands behind the options of `git` itself; nothing where one sets what it runs."""
    while given and given[0] in ("-C", "-c", "--no-pager", "-P"):
        if given[0] == "-c" and (not given[1:] or given[1].partition("=")[0] not in _LISTS["git.settings"]):
            return []
        given = given[2:] if given[0] in ("-C", "-c") else given[1:]
    return given


def _of_subcommand(program: str, given: list[str]) -> CommandEffect | None:
    if given and given[0] in _LISTS.get(f"subcommands.{program}", _NONE):
        return _READS
    if given[1:] and given[0] in _LISTS.get(f"others.{program}", _NONE) and given[1] in _LISTS["others.verbs"]:
        return _OTHERS
    return None


def _of_own(program: str, given: list[str]) -> CommandEffect | None:
    """A check or a build of the project, or a program of it."""
    static, script = False, ""
    if program in ("python", "python3") and given[:1] == ["-m"] and given[1:2]:
        is_own, rest, static = given[1] in _LISTS["own.modules"], given[2:], given[1] in _LISTS["static.modules"]
    elif program in _LISTS["own.managers"] and given[:1] != ["-m"]:
        rest = given[1:] if given[:1] == ["run"] else given
        is_own = bool(rest) and rest[0].partition(":")[0] in _LISTS["own.subcommands"]
    elif program in _LISTS["own.interpreters"]:
        script, rest = given[0] if given else "", given
        is_own = _SCRIPT.fullmatch(script) is not None and _FAR.search(script) is None
    else:
        is_own, rest, static = program in _LISTS["own.programs"], given, program in _LISTS["static.programs"]
    if not is_own or _has(rest, _LISTS["own.but"]):
        return None
    if static:
        return CommandEffect(frozenset({"changes"}), "internal")
    if not script:
        # Who wants something done to a project wants to know whether it still works.
        return CommandEffect(frozenset({"changes"}), "internal", asks=frozenset({"any"}))
    return CommandEffect(
        frozenset({"changes"}), "internal", asks=frozenset({"runs"}), programs=(script, *_called(script))
    )


# A file here, and no link.
_SCRIPT: Final = re.compile(r"(?:[\w.-]+[\\/]|[\\/])*[\w.-]+\.(?:py|js|mjs|ts|rb|php|pl|sh)")


def _of_given(program: str, given: list[str]) -> CommandEffect | None:
    """A program that runs something: the user's, where the user named each part of it."""
    named = [one for one in given if one not in _LISTS["given.verbs"]]
    if program not in _LISTS["given.programs"] or not named or any(one.startswith("-") for one in named):
        return None
    asked = tuple(frozenset({one}) for one in named)
    return CommandEffect(frozenset({"changes"}), "internal", asked, frozenset({"runs"}))


def _has(given: Sequence[str], options: frozenset[str]) -> bool:
    """Whether one of these options is given, cut short, with its value, or together with other letters."""
    for one in given:
        name = one.partition("=")[0]
        if not name.startswith("-") or name in ("-", "--"):
            continue
        if name in options:
            return True
        if name.startswith("--"):
            if any(option.startswith(name) for option in options):
                return True
        elif any(len(option) == 2 and option[1] in name[1:] for option in options if option[1] != "-"):
            return True
    return False


# ---- statements of SQL ----

_SQL: Final = re.compile(
    r"""\s+|(?P<text>'(?:[^'\\]|'')*')|(?P<name>"[^"]+"|`[^`]+`|\[[^\]'"]+\])|(?P<number>\d+(?:\.\d+)?)"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<sign>\|\||<>|[<>!]=|::|[-+*/%=<>(),.;?:@{}])"""
)
_NAME: Final = re.compile(r"[a-z_]\w*")


@lru_cache(1024)
def of_statement(text: str) -> CommandEffect | None:
    """What one or several statements do; nothing is said of any with a comment in it."""
    whole: CommandEffect | None = None
    for tokens in _statements(text):
        found = _of_tokens(tokens)
        if found is None:
            return None
        whole = found if whole is None else whole.and_then(found)
    return whole


def _of_tokens(tokens: Sequence[tuple[str, str]]) -> CommandEffect | None:
    words = [word.lower() for kind, word in tokens if kind == "word"]
    verb, rest = (words[0] if words else ""), frozenset(words[1:])
    if verb in _LISTS["sql.looks"]:
        return _READS if rest.isdisjoint(_LISTS["sql.more"]) and _only_looks(tokens) else None
    table = _table(tokens) if words else ""
    names = [word for kind, word in tokens if kind not in ("sign", "number")]
    if (
        not table
        or _compares_with_itself(tokens)
        or not rest.isdisjoint(_LISTS["sql.more"] - _LISTS.get(f"sql.along.{verb}", _NONE))
    ):
        return None
    found = _of_change(tokens, verb, table, words)
    if _is_about(names, _LISTS["sql.grave"]) or _is_about([table], grave_things()):
        found = None
    if verb not in ("insert", "update", "delete") or (verb != "insert" and not _narrows(tokens)):
        return found
    values = tuple(word.strip("'") for kind, word in tokens if kind in ("text", "number"))
    if found is None:
        # About who may do what, or what something costs: it takes all of the values in the user's words.
        asks = frozenset({"destroys" if verb == "delete" else "changes"})
        found = CommandEffect(frozenset({"changes"}), needs=tuple(frozenset({one}) for one in values), asks=asks)
        return found if any(len(one) > 2 for one in values) and _only_looks(tokens, table) else None
    return msgspec.structs.replace(found, values=values)


def _of_change(tokens: Sequence[tuple[str, str]], verb: str, table: str, words: Sequence[str]) -> CommandEffect | None:
    rest = frozenset(words[1:])
    names = [word for kind, word in tokens if kind not in ("sign", "number")]
    texts = [word.strip("'") for kind, word in tokens if kind == "text" and len(word) > 4]
    numbers = [word for kind, word in tokens if kind == "number" and len(word) >= 3]
    # Whoever named the table or one of the values means this.
    named = frozenset((table, *_parts(table), *texts, *numbers))
    if verb in ("insert", "create") or (verb == "alter" and words[1:2] == ["table"] and "add" in rest):
        return msgspec.structs.replace(_CHANGES, named=named) if _only_looks(tokens, table) else None
    if verb == "update" and ("where" in rest or texts) and not _is_about(names, grave_things()):
        return CommandEffect(frozenset({"changes"}), needs=(named,), asks=frozenset({"changes"}))
    if verb == "drop" or (verb == "delete" and "where" in rest):
        return CommandEffect(frozenset({"changes"}), needs=(named,), asks=frozenset({"destroys"}))
    return None


def _compares_with_itself(tokens: Sequence[tuple[str, str]]) -> bool:
    """Whether a condition holds whatever is in the table: `1 = 1`, `id = id`."""
    fixed = ("text", "number")
    return any(
        sign[1] in ("=", "<>", "!=", "<=", ">=")
        and ((left[0] in fixed and right[0] in fixed) or left[1].lower() == right[1].lower())
        for left, sign, right in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _narrows(tokens: Sequence[tuple[str, str]]) -> bool:
    """Whether a condition picks rows out by values alone: columns that are equal to a text or a number, joined by
    AND."""
    start = next((at for at, (kind, word) in enumerate(tokens) if kind == "word" and word.lower() == "where"), None)
    rest = list(tokens[start + 1 :]) if start is not None else []
    for at in range(0, len(rest), 4):
        column, equals, value, *after = rest[at : at + 4] if len(rest) >= at + 3 else [("", "")] * 3
        if column[0] not in ("word", "name") or equals[1] != "=" or value[0] not in ("text", "number"):
            return False
        if after and after[0][1].lower() != "and":
            return False
    return bool(rest) and len(rest) % 4 == 3


def _parts(table: str) -> Iterator[str]:
    """What people call a table: `order_items` holds orders and items."""
    for part in (table, *table.split("_")):
        yield part
        yield part.removesuffix("s")


def _statements(text: str) -> list[list[tuple[str, str]]]:
    """The tokens of each statement; none where there is something else in it."""
    found: list[list[tuple[str, str]]] = [[]]
    at = 0
    while at < len(text):
        match = _SQL.match(text, at)
        if match is None or text.startswith(("--", "/*"), at):
            return []
        if match[0] == ";":
            found.append([])
        elif match.lastgroup is not None:
            found[-1].append((match.lastgroup, match[0]))
        at = match.end()
    return [one for one in found if one] if sum(map(len, found)) <= _TOKENS else []


def _table(tokens: Sequence[tuple[str, str]]) -> str:
    """What is written to: behind `INTO`, `UPDATE`, `CREATE TABLE` and the like."""
    words = [word for kind, word in tokens if kind in ("word", "name")]
    before = ("insert", "into", "update", "create", "alter", "table", "index", "view", "temp", "temporary", "unique")
    skipped = (*before, "or", "ignore", "if", "not", "exists", "drop", "delete", "from")
    if words[0].lower() in ("create", "drop") and not {"table", "index", "view"} & {
        word.lower() for word in words[1:4]
    }:
        return ""
    return next((word.strip('"`[]') for word in words if word.lower() not in skipped), "")


def _only_looks(tokens: Sequence[tuple[str, str]], table: str = "") -> bool:
    """Whether no function is called that is not known to look something up, and nothing is read from elsewhere."""
    if not table and any("://" in word for _, word in tokens):
        return False
    called = [one[1].lower() for one, after in pairwise(tokens) if after == ("sign", "(")]
    first = tokens[0][1].lower()
    # `WITH sold(sku) AS (…)` and `CREATE TABLE t (price DECIMAL(10, 2))` have names before brackets.
    free = first in ("with", "create") or (first == "insert" and called[:1] == [table.lower()])
    named = [one for one in called if _NAME.fullmatch(one) and one not in _LISTS["sql.functions"]]
    if first == "create":
        return True
    return not named or (free and len(named) == 1 and named[0] == called[0])


def _is_about(names: Sequence[str], things: frozenset[str]) -> bool:
    for name in names:
        parts = [part.lower() for part in re.findall(r"[A-Za-z][a-z]*", name)]
        # `user_id` only refers to somebody.
        if not (len(parts) > 1 and parts[-1] == "id") and not things.isdisjoint(parts):
            return True
    return False
