"""What a command or an SQL statement does, where that is known.

A tool that runs whatever it is given counts as the worst that it can do. A command that is understood to its end counts
as what it does: `git status` reads, and so does `SELECT`. What is not understood runs code.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from callgate.trust.model import UNTRUSTED
from callgate.trust.proposing import grave_things, spoken

_LONGEST: Final = 4_000
_TOKENS: Final = 1_000
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Arguments that hold a command, its operands, or a statement.
_COMMANDS: Final = frozenset(("command", "cmd", "commandline", "argv"))
_OPERANDS: Final = frozenset(("args", "arguments"))
_STATEMENTS: Final = frozenset(("sql", "query", "statement"))
# What stands beside them and says nothing of what is run.
_BESIDE: Final = frozenset(
    """
    cwd dir directory folder workdir working path timeout ms seconds sec description title reason explanation mode
    limit max rows output lines purpose summary database db background
    """.split()  # noqa: SIM905
)


class Known(msgspec.Struct, frozen=True):
    """What a command does: effects as a label has them, and whose words come back.

    `needs` are conditions on the user's words, which have to hold one word of each group. They matter only once the
    agent has read what somebody else may have written.
    """

    effects: frozenset[str]
    source: str = "user"
    needs: tuple[frozenset[str], ...] = ()
    text: str = ""

    def and_then(self, other: Known) -> Known:
        source = max(self.source, other.source, key=_SOURCES.index)
        return Known(self.effects | other.effects, source, (*self.needs, *other.needs))


_SOURCES: Final = ("user", "internal", UNTRUSTED)
_READS: Final = Known(frozenset({"reads_own"}))
_OTHERS: Final = Known(frozenset({"reads_others"}), UNTRUSTED)
_CHANGES: Final = Known(frozenset({"changes"}))


def known(arguments: Mapping[str, Any]) -> Known | None:
    """What a call with these arguments does; None where that is not known."""
    command: list[str] = []
    operands: list[str] = []
    statement = ""
    for name, value in arguments.items():
        words = frozenset(part.lower() for part in _WORDS.findall(name))
        if value is None or value == "" or isinstance(value, bool):
            continue
        if words & _COMMANDS:
            command += _strings(value) or [""]
        elif words <= _OPERANDS:
            operands += _strings(value) or [""]
        elif words <= _STATEMENTS and isinstance(value, str) and not statement:
            statement = value
        elif not words <= _BESIDE or not isinstance(value, str | int | float):
            return None
    if bool(command) == bool(statement) or (operands and len(command) != 1) or "" in command or "" in operands:
        return None
    if statement:
        return _told(statement, of_statement)
    if operands or len(command) > 1 or isinstance(arguments.get("argv"), list):
        # No shell reads these: each is one word.
        words_given = (*command, *operands)
        found = None if sum(map(len, words_given)) > _LONGEST else _of_words(words_given)
        return None if found is None else msgspec.structs.replace(found, text=" ".join(words_given))
    return _told(command[0], of_command)


def _told(text: str, reader: Callable[[str], Known | None]) -> Known | None:
    found = reader(text) if len(text) <= _LONGEST else None
    return None if found is None else msgspec.structs.replace(found, text=text)


def _strings(value: object) -> list[str]:
    """A command as its words; nothing where it is anything else."""
    several = value if isinstance(value, list | tuple) else [value]
    return [*several] if several and all(isinstance(one, str) and one for one in several) else []


# ---- commands of a shell ----

# A shell puts something else in the place of these.
_LIVE: Final = re.compile(r"[$`{\x00]|[<>]\(")
_SEPARATORS: Final = frozenset((";", "&&", "||", "|"))
_PUNCTUATION: Final = frozenset("();<>|&")
# A hidden file or folder, or one of the system's or above the home folder's own.
_FAR: Final = re.compile(
    r"(?:^|[\\/])\.[^\\/.]|^~|^/(?:etc|usr|bin|sbin|boot|lib|opt|var|root|Library|System)\b|^[A-Za-z]:\\(?:Windows|Program)"
)
_LINES: Final = re.compile(r"\d+(?:,\d+)?p")
_VERSIONS: Final = frozenset(("--version", "-V", "-v", "version"))


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(files("callgate.trust").joinpath("commands.toml").read_text("utf-8"))


@cache
def _list(*names: str) -> frozenset[str]:
    """A list of the tables, by its path."""
    found: Any = _tables()
    for name in names:
        found = found.get(name, {})
    return frozenset(found.split()) if isinstance(found, str) else frozenset()


@lru_cache(1024)
def of_command(text: str) -> Known | None:
    """What a line for a shell does, with all commands in it."""
    if _LIVE.search(text) is not None:
        return None
    whole: Known | None = None
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            commands = list(_split(line))
        except ValueError:
            return None
        for words in commands:
            found = _of_words(words)
            if found is None:
                return None
            whole = found if whole is None else whole.and_then(found)
    return whole


def _split(line: str) -> Iterator[tuple[str, ...]]:
    """The single commands of a line; ValueError where it does more than put them one after the other."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    tokens = list(reader)
    if len(tokens) > _TOKENS:
        raise ValueError
    words: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token in _SEPARATORS:
            yield tuple(words)
            words = []
        elif token and _PUNCTUATION.issuperset(token):
            # Output that is thrown away or put together.
            after = tokens[at] if at < len(tokens) else ""
            if (token, after) not in ((">", "/dev/null"), (">&", "1"), (">&", "2")):
                raise ValueError
            at += 1
            if words and words[-1] in ("1", "2"):
                words.pop()
        else:
            words.append(token)
    if words or not tokens:
        yield tuple(words)


def _of_words(words: Sequence[str]) -> Known | None:
    """What one command does."""
    if not words:
        return None
    program, given = words[0].lower(), list(words[1:])
    if program in ("uv", "poetry") and given[:1] == ["run"] and given[1:2]:
        program, given = given[1].lower(), given[2:]
    elif program == "npx" and given and given[0].lower() in _list("own", "programs"):
        program, given = given[0].lower(), given[1:]
    if program == "git":
        return _of_git(given)
    if program in _list("reads", "programs"):
        return _READS
    if program in _tables()["reads"]["but"]:
        return None if _has(given, _list("reads", "but", program)) else _READS
    if program == "sed":
        return _READS if given[:1] == ["-n"] and len(given) > 1 and _LINES.fullmatch(given[1]) else None
    if program == "uniq":
        return _READS if sum(not one.startswith("-") for one in given) <= 1 else None
    if program in _list("changes", "programs"):
        return None if any(map(_FAR.search, given)) else _CHANGES
    if len(given) == 1 and given[0] in _VERSIONS and program in _list("given", "programs") | _list("own", "managers"):
        return _READS
    if given and given[0] in _list("subcommands", program):
        return _READS
    if given[1:] and given[0] in _list("others", program) and given[1] in _list("others", "verbs"):
        return _OTHERS
    return _of_own(program, given) or _of_given(program, given)


def _of_git(given: list[str]) -> Known | None:
    while given and given[0] in ("-C", "--no-pager", "-P"):
        given = given[2:] if given[0] == "-C" else given[1:]
    if not given or _has(given, _list("git", "but")):
        return None
    verb, rest = given[0], given[1:]
    if verb in _list("git", "reads"):
        return _READS
    if verb in _list("git", "changes"):
        return _CHANGES
    if verb == "branch" and rest and not any(one.startswith("-") for one in rest):
        return _CHANGES
    first = rest[0] if rest else ""
    if verb in _tables()["git"]["with"]:
        reads, changes = _list("git", "with", verb, "reads"), _list("git", "with", verb, "changes")
        if reads and (not rest or first in reads) and not (verb == "stash" and not rest):
            options = all(one in reads for one in rest) or not first.startswith("-") or verb == "tag"
            return _READS if options else None
        if first in changes:
            return _CHANGES
    return None


def _of_own(program: str, given: list[str]) -> Known | None:
    """A check or a build of the project."""
    if program in ("python", "python3") and given[:1] == ["-m"] and given[1:2]:
        is_own, rest = given[1] in _list("own", "modules"), given[2:]
    elif program in _list("own", "managers"):
        rest = given[1:] if given[:1] == ["run"] else given
        is_own = bool(rest) and rest[0].partition(":")[0] in _list("own", "subcommands")
    else:
        is_own, rest = program in _list("own", "programs"), given
    if not is_own or _has(rest, _list("own", "but")):
        return None
    if program in _list("static", "programs") or (given[:1] == ["-m"] and given[1] in _list("static", "modules")):
        return Known(frozenset({"changes"}), "internal")
    return Known(frozenset({"changes"}), "internal", (_list("own", "words"),))


def _of_given(program: str, given: list[str]) -> Known | None:
    """A program that runs something: the user's, where the user named each part of it."""
    named = [one for one in given if one not in _list("given", "verbs")]
    if program not in _list("given", "programs") or not named or any(one.startswith("-") for one in named):
        return None
    asked = (_list("given", "words"), *(frozenset({one}) for one in named))
    return Known(frozenset({"changes"}), "internal", asked)


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
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<sign>\|\||<>|[<>!]=|::|[-+*/%=<>(),.;?:@])"""
)
_NAME: Final = re.compile(r"[a-z_]\w*")
# What may stand before a bracket where something is only looked up.
_FUNCTIONS: Final = frozenset(
    """
    count sum avg min max total round abs ceil ceiling floor coalesce nullif ifnull iif lower upper trim ltrim rtrim
    length substr substring instr date time datetime julianday strftime unixepoch now extract date_trunc to_char
    group_concat string_agg array_agg row_number rank dense_rank lag lead first_value last_value ntile cast concat
    printf format json_extract json_each json_array_length median stddev variance greatest least year month day
    in values as and or not on over exists using any all distinct by when then else from join where between like filter
    select union except intersect having limit
    """.split()  # noqa: SIM905
)
# Words with which a statement does more than its first word says.
_MORE: Final = frozenset(
    """
    outfile dumpfile program attach detach copy load exec execute call do grant revoke drop truncate delete update insert
    merge replace alter create vacuum trigger function procedure extension database pragma set returning into
    """.split()  # noqa: SIM905
)
_LOOKS: Final = frozenset(("select", "with", "explain", "show", "describe", "desc"))
# An entry or a value of these says who may do what, or who gets something.
_GRAVE: Final = frozenset(
    """
    admin admins administrator root superuser grant grants role roles permission permissions privilege privileges
    password passwords passwd token tokens apikey secret secrets iban bic recipient payee beneficiary webhook
    """.split()  # noqa: SIM905
)


@lru_cache(1024)
def of_statement(text: str) -> Known | None:
    """What one statement does; nothing is said of several, or of one with a comment in it."""
    tokens = _tokens(text)
    words = [word.lower() for kind, word in tokens if kind == "word"]
    if not words:
        return None
    verb, rest = words[0], frozenset(words[1:])
    if verb in _LOOKS:
        return _READS if rest.isdisjoint(_MORE) and _only_looks(tokens) else None
    table = _table(tokens)
    names = [word for kind, word in tokens if kind != "sign" and kind != "number"]
    if not table or _is_about(names, _GRAVE):
        return None
    if verb == "insert" and rest.isdisjoint(_MORE - {"into"}):
        return None if _is_about([table], grave_things()) or not _only_looks(tokens, table) else _CHANGES
    if verb == "create" and rest.isdisjoint(_MORE):
        return None if _is_about([table], grave_things()) or not _only_looks(tokens, table) else _CHANGES
    if verb == "update" and "where" in rest and rest.isdisjoint(_MORE - {"set"}):
        given = [word.strip("'") for kind, word in tokens if kind == "text"]
        if _is_about([word for kind, word in tokens if kind in ("word", "name")], grave_things()):
            return None
        # Whoever named the table or one of the values wants it changed.
        return Known(frozenset({"changes"}), needs=(spoken("changes"), frozenset(filter(None, (table, *given)))))
    return None


def _tokens(text: str) -> list[tuple[str, str]]:
    """The tokens of one statement; none where there are more, or something else in it."""
    found: list[tuple[str, str]] = []
    at, text = 0, text.strip().removesuffix(";")
    while at < len(text):
        match = _SQL.match(text, at)
        if match is None or text.startswith(("--", "/*"), at):
            return []
        if match.lastgroup is not None:
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return [] if ("sign", ";") in found or len(found) > _TOKENS else found


def _table(tokens: Sequence[tuple[str, str]]) -> str:
    """What is written to: behind `INTO`, `UPDATE`, `CREATE TABLE` and the like."""
    words = [word for kind, word in tokens if kind in ("word", "name")]
    before = ("insert", "into", "update", "create", "table", "index", "view", "temp", "temporary", "unique")
    skipped = (*before, "or", "ignore", "if", "not", "exists")
    if words[0].lower() == "create" and not {"table", "index", "view"} & {word.lower() for word in words[1:4]}:
        return ""
    return next((word.strip('"`[]') for word in words if word.lower() not in skipped), "")


def _only_looks(tokens: Sequence[tuple[str, str]], table: str = "") -> bool:
    """Whether no function is called that is not known to look something up, and nothing is read from elsewhere."""
    if not table and any("://" in word for _, word in tokens):
        return False
    called = [one[1].lower() for one, after in zip(tokens, tokens[1:], strict=False) if after == ("sign", "(")]
    first = tokens[0][1].lower()
    # `WITH sold(sku) AS (…)` and `CREATE TABLE t (price DECIMAL(10, 2))` have names before brackets.
    free = first in ("with", "create") or (first == "insert" and called[:1] == [table.lower()])
    named = [one for one in called if _NAME.fullmatch(one) and one not in _FUNCTIONS]
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
