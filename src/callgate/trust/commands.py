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
from itertools import islice, pairwise
from typing import Any, Final

import msgspec

from callgate.trust.model import UNTRUSTED
from callgate.trust.proposing import grave_things

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
    # What the user's words have to ask for: `changes`, `destroys`, `runs` or `any` of these.
    asks: frozenset[str] = frozenset()
    # Programs that are run: a stranger must not have named them.
    programs: tuple[str, ...] = ()
    # What the user must have named some of, and asked for a change, where a stranger's address is in it.
    named: frozenset[str] = frozenset()
    text: str = ""

    def and_then(self, other: Known) -> Known:
        source = max(self.source, other.source, key=_SOURCES.index)
        needs = (*self.needs, *other.needs)
        programs = (*self.programs, *other.programs)
        return Known(
            self.effects | other.effects, source, needs, self.asks | other.asks, programs, self.named | other.named
        )


_SOURCES: Final = ("user", "internal", UNTRUSTED)
_READS: Final = Known(frozenset({"reads_own"}))
_OTHERS: Final = Known(frozenset({"reads_others"}), UNTRUSTED)
_CHANGES: Final = Known(frozenset({"changes"}))


def known(arguments: Mapping[str, Any]) -> Known | None:
    """What a call with these arguments does; None where that is not known."""
    command: list[str] = []
    operands: list[str] = []
    statement = ""
    fed = False
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
        elif words == {"stdin"} and isinstance(value, str):
            fed = True
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
    found = _told(command[0], of_command)
    # What runs something may run what it is fed.
    return None if fed and found is not None and found.source != "user" else found


def _told(text: str, reader: Callable[[str], Known | None]) -> Known | None:
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


def _of_words(words: Sequence[str]) -> Known | None:
    """What one command does."""
    given = list(words)
    assigned = 0
    while given and (match := _ASSIGNED.fullmatch(given[0])) is not None and match[1] in _list("own", "variables"):
        given, assigned = given[1:], assigned + 1
    if given[:2] in (["uv", "run"], ["poetry", "run"]):
        given = given[2:]
    elif given[:1] == ["npx"] and given[1:2] and given[1] in _list("own", "programs"):
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


def _of_looking(program: str, given: list[str]) -> Known | None:
    if program in _list("reads", "programs"):
        return _READS
    if program in _tables()["reads"]["but"] and not _has(given, _list("reads", "but", program)):
        return _READS
    if program == "uniq" and sum(not one.startswith("-") for one in given) <= 1:
        return _READS
    if program == "sed" and given[:1] == ["-n"] and given[1:] and _PRINTS.fullmatch(given[1]):
        return _READS
    is_version = len(given) == 1 and given[0] in _VERSIONS
    return _READS if is_version and program in _list("given", "programs") | _list("own", "managers") else None


def _of_editing(program: str, given: list[str]) -> Known | None:
    """A change as a server for files makes it, or a file that the user wants to be gone."""
    if any(map(_FAR.search, given)):
        return None
    if program in _list("changes", "programs"):
        plain = all(_PLAIN_OPTION.fullmatch(one) for one in given if one.startswith("-"))
        return _CHANGES if plain else None
    if program == "sed" and given[:1] == ["-i"] and given[2:] and _EDITS.fullmatch(given[1]):
        return _CHANGES
    gone = [one for one in given if one != "-f"]
    if program not in ("rm", "del", "unlink") or not gone or any(one.startswith("-") or "*" in one for one in gone):
        return None
    named = tuple(frozenset((one, *_called(one))) for one in gone)
    return Known(frozenset({"changes"}), needs=named, asks=frozenset({"destroys"}))


def _called(path: str) -> Iterator[str]:
    """What people call a file: its name, with and without the ending."""
    name = re.split(r"[\\/]", path.rstrip("\\/"))[-1]
    yield name
    stem = name.rpartition(".")[0]
    if stem:
        yield stem


def _of_git(program: str, given: list[str]) -> Known | None:
    if program != "git":
        return None
    while given and given[0] in ("-C", "-c", "--no-pager", "-P"):
        if given[0] == "-c" and (not given[1:] or given[1].partition("=")[0] not in _list("git", "settings")):
            return None
        given = given[2:] if given[0] in ("-C", "-c") else given[1:]
    if not given or _has(given, _list("git", "but")):
        return None
    verb, rest = given[0], given[1:]
    if verb in _list("git", "reads"):
        return _READS
    if verb in _list("git", "changes") or (verb in ("branch", "tag") and rest and not rest[0].startswith("-")):
        return _CHANGES if verb != "branch" or not any(one.startswith("-") for one in rest) else None
    with_it = _tables()["git"]["with"].get(verb)
    if with_it is None:
        return None
    reads, changes = _list("git", "with", verb, "reads"), _list("git", "with", verb, "changes")
    if rest and rest[0] in changes:
        return _CHANGES
    alone = not rest and verb != "stash"
    return _READS if reads and (alone or (rest and rest[0] in reads)) and _is_plain(rest, reads) else None


def _is_plain(rest: Sequence[str], reads: frozenset[str]) -> bool:
    """Whether no other option follows."""
    return all(one in reads or not one.startswith("-") for one in rest) and (not rest or rest[0] in reads)


def _of_subcommand(program: str, given: list[str]) -> Known | None:
    if given and given[0] in _list("subcommands", program):
        return _READS
    if given[1:] and given[0] in _list("others", program) and given[1] in _list("others", "verbs"):
        return _OTHERS
    return None


def _of_own(program: str, given: list[str]) -> Known | None:
    """A check or a build of the project, or a program of it."""
    static, script = False, ""
    if program in ("python", "python3") and given[:1] == ["-m"] and given[1:2]:
        is_own, rest, static = given[1] in _list("own", "modules"), given[2:], given[1] in _list("static", "modules")
    elif program in _list("own", "managers") and given[:1] != ["-m"]:
        rest = given[1:] if given[:1] == ["run"] else given
        is_own = bool(rest) and rest[0].partition(":")[0] in _list("own", "subcommands")
    elif program in _list("own", "interpreters"):
        script, rest = given[0] if given else "", given
        is_own = _SCRIPT.fullmatch(script) is not None and _FAR.search(script) is None
    else:
        is_own, rest, static = program in _list("own", "programs"), given, program in _list("static", "programs")
    if not is_own or _has(rest, _list("own", "but")):
        return None
    if static:
        return Known(frozenset({"changes"}), "internal")
    if not script:
        # Who wants something done to a project wants to know whether it still works.
        return Known(frozenset({"changes"}), "internal", asks=frozenset({"any"}))
    return Known(frozenset({"changes"}), "internal", asks=frozenset({"runs"}), programs=(script, *_called(script)))


# A file here, and no link.
_SCRIPT: Final = re.compile(r"(?:[\w.-]+[\\/]|[\\/])*[\w.-]+\.(?:py|js|mjs|ts|rb|php|pl|sh)")


def _of_given(program: str, given: list[str]) -> Known | None:
    """A program that runs something: the user's, where the user named each part of it."""
    named = [one for one in given if one not in _list("given", "verbs")]
    if program not in _list("given", "programs") or not named or any(one.startswith("-") for one in named):
        return None
    asked = tuple(frozenset({one}) for one in named)
    return Known(frozenset({"changes"}), "internal", asked, frozenset({"runs"}))


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
# What may stand before a bracket where something is only looked up.
_FUNCTIONS: Final = frozenset(
    """
    count sum avg min max total round abs ceil ceiling floor coalesce nullif ifnull iif lower upper trim ltrim rtrim
    length substr substring instr date time datetime julianday strftime unixepoch now extract date_trunc to_char
    group_concat string_agg array_agg row_number rank dense_rank lag lead first_value last_value ntile cast concat
    read_csv read_csv_auto read_json read_json_auto read_parquet printf format
    json_extract json_each json_array_length median stddev variance greatest least year month day
    in values as and or not on over exists using any all distinct by when then else from join where between like filter
    select union except intersect having limit
    """.split()  # noqa: SIM905
)
# Words with which a statement does more than its first word says.
_MORE: Final = frozenset(
    """
    outfile dumpfile program attach detach copy load exec execute call do grant revoke drop truncate delete update
    insert merge replace alter create vacuum trigger function procedure extension database pragma set returning into
    """.split()  # noqa: SIM905
)
# Those that belong to it.
_ALONG: Final = {"alter": frozenset({"alter"}), "insert": frozenset({"into"}), "update": frozenset({"set"})}
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
    """What one or several statements do; nothing is said of any with a comment in it."""
    whole: Known | None = None
    for tokens in _statements(text):
        found = _of_tokens(tokens)
        if found is None:
            return None
        whole = found if whole is None else whole.and_then(found)
    return whole


def _of_tokens(tokens: Sequence[tuple[str, str]]) -> Known | None:
    words = [word.lower() for kind, word in tokens if kind == "word"]
    verb, rest = (words[0] if words else ""), frozenset(words[1:])
    if verb in _LOOKS:
        return _READS if rest.isdisjoint(_MORE) and _only_looks(tokens) else None
    table = _table(tokens) if words else ""
    names = [word for kind, word in tokens if kind not in ("sign", "number")]
    if not table or _is_about(names, _GRAVE) or _is_about([table], grave_things()):
        return None
    only = rest.isdisjoint(_MORE - _ALONG.get(verb, frozenset()))
    texts = [word.strip("'") for kind, word in tokens if kind == "text" and len(word) > 4]
    numbers = [word for kind, word in tokens if kind == "number" and len(word) >= 3]
    # Whoever named the table or one of the values means this.
    named = frozenset((table, *_parts(table), *texts, *numbers))
    if not only:
        return None
    if verb in ("insert", "create") or (verb == "alter" and words[1:2] == ["table"] and "add" in rest):
        return msgspec.structs.replace(_CHANGES, named=named) if _only_looks(tokens, table) else None
    if verb == "update" and ("where" in rest or texts) and not _is_about(names, grave_things()):
        return Known(frozenset({"changes"}), needs=(named,), asks=frozenset({"changes"}))
    if verb == "drop" or (verb == "delete" and "where" in rest):
        return Known(frozenset({"changes"}), needs=(named,), asks=frozenset({"destroys"}))
    return None


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
