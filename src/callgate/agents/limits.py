"""What a caller may do: which tools, and how many calls in which time."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from fnmatch import translate
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec

from callgate.agents import storage
from callgate.agents.model import AgentPolicy, ToolPolicy
from callgate.agents.storage import AgentRepository, BucketState, Take
from callgate.canonical import parts_hash
from callgate.errors import ConfigError, Reason, Refused, Spent
from callgate.gate import Caller, Headers, Use

# Of clocks that differ by more than this, one is wrong: what it wrote is not waited for.
FAR_MS: Final = 3_600_000.0
# Sums of many fractions are a little off.
_ROUNDING_MS: Final = 0.5
_SLOWEST: Final = 1e-12
# A time in milliseconds has no finer steps than a few thousandths: less than that would be taken for nothing.
FASTEST: Final = 100.0
_LEAST: Final = 0.1

Asked: TypeAlias = Sequence[tuple[bytes, Take]]


def demand(take: Take) -> None:
    """Refuse what no bucket can be."""
    sane = all(map(math.isfinite, (take.per_ms, take.burst, take.cost)))
    if not sane or not _SLOWEST <= take.per_ms <= FASTEST or take.burst <= 0 or 0 != take.cost < _LEAST:
        raise ConfigError(
            "a rate limit allows nothing, or more than can be counted",
            advice="Give it a rate above 0 and up to 100,000 a second, and a burst of at least 1.",
        )


def asked(takes: Sequence[Take]) -> Asked:
    """The same with short keys: names of buckets have any length."""
    for take in takes:
        demand(take)
    return [(take.key or parts_hash(take.bucket), take) for take in takes]


def weigh(full_at: float, take: Take, now: float) -> tuple[float, BucketState]:
    """When the bucket will be full after this, and how it stands; unchanged where there is not enough."""
    step = 1.0 / take.per_ms
    whole = take.burst * step
    start = max(full_at, now)
    if start > now + whole + FAR_MS:
        start = now + whole
    after = start + take.cost * step
    short = after - (now + whole)
    if short <= min(_ROUNDING_MS, step / 2):
        return after, BucketState(ok=True, left=max(0.0, -short / step))
    left = max(0.0, (now + whole - start) / step)
    return start, BucketState(ok=False, left=left, wait_ms=math.inf if take.cost > take.burst else short)


def spend(buckets: Mapping[bytes, float], wanted: Asked, now: float) -> tuple[dict[bytes, float], list[BucketState]]:
    """What becomes of these buckets, and how each stands: all are taken from, or none is."""
    trial: dict[bytes, float] = {}
    budgets: list[BucketState] = []
    for key, take in wanted:
        trial[key], budget = weigh(trial.get(key, buckets.get(key, 0.0)), take, now)
        budgets.append(budget)
    if all(budget.ok for budget in budgets):
        return trial, budgets
    # Nothing is taken, but a time that a wrong clock wrote does not stay.
    mended: dict[bytes, float] = {}
    for at, (key, take) in enumerate(wanted):
        full_at, before = weigh(buckets.get(key, 0.0), _nothing(take), now)
        if full_at < buckets.get(key, 0.0):
            mended[key] = full_at
        budgets[at] = BucketState(ok=budgets[at].ok, left=before.left, wait_ms=budgets[at].wait_ms)
    return mended, budgets


def _nothing(take: Take) -> Take:
    return Take(take.bucket, take.per_ms, take.burst, 0.0)


class Buckets:
    """Token buckets in the memory of one process; never more than `most`.

    Where there are too many, those go that would be full soonest: who makes up new names cannot empty their own bucket
    out of memory that way.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._full_at: MutableMapping[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def spend(self, wanted: Asked, now: float) -> list[BucketState]:
        changed, budgets = spend(self._full_at, wanted, now)
        self._full_at.update(changed)
        if len(self._full_at) > self._most:
            self.prune(now)
        return budgets

    def prune(self, now: float) -> int:
        """Forget the full ones, and some more where that is not enough, so that this is not done at every turn."""
        before = len(self._full_at)
        kept = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        if len(kept) > self._most:
            latest = sorted(kept.items(), key=lambda one: one[1], reverse=True)
            kept = dict(latest[: self._most - self._most // 10])
        self._full_at = kept
        return before - len(kept)


_MINUTE_MS: Final = 60_000.0
_MOST: Final = 1_000_000_000
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class Limit(msgspec.Struct, frozen=True):
    """So many calls a minute, and so many at once; `of` is what it counts beside the agent, such as server and tool."""

    name: str
    per_minute: float
    # Without one, a minute's worth.
    burst: int | None = None
    of: str = ""
    # How many of the calls of one request come under it.
    calls: int = 1

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} cannot name a rate limit", advice="Use lower case letters, digits, `_`, `.` and `-`."
            )
        most = self.burst if self.burst is not None else 1
        if not (0 < self.per_minute <= FASTEST * _MINUTE_MS and 1 <= most <= _MOST):
            raise ConfigError(
                f"the rate limit {self.name!r} allows nothing or more than can be counted",
                advice="Set per_minute above 0, up to 6,000,000, and burst to at least 1; deny what nobody may call.",
            )

    @property
    def most(self) -> int:
        """How many calls at once, after a rest."""
        return self.burst if self.burst is not None else max(1, math.ceil(self.per_minute))

    @property
    def window(self) -> int:
        """After how many seconds an empty bucket is full again."""
        return max(1, math.ceil(self.most * 60 / self.per_minute))

    def take(self, agent: str) -> Take:
        # A limit that was changed starts anew. Lengths keep one name from running into the next.
        bucket = f"{len(agent)}:{agent}{len(self.of)}:{self.of}{self.name}:{self.per_minute}:{self.most}"
        return Take(bucket, self.per_minute / _MINUTE_MS, self.most, float(self.calls))


def limit_of(policy: ToolPolicy, name: str, of: str = "") -> Limit | None:
    """The limit of a policy, if it has one."""
    return None if policy.per_minute is None else Limit(name, policy.per_minute, policy.burst, of)


def account_of(caller: Caller) -> str:
    """What a caller's calls are counted under. Who makes up keys does not get a budget for each of them."""
    return caller.id if caller.listed or not caller.directory else caller.directory


class Allowance(msgspec.Struct, frozen=True):
    """Whether a call may be made now, and what its answer says of that."""

    ok: bool = True
    # Seconds until it may be tried again; 0 where it may be made.
    retry_after: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    # The limits that were used up.
    over: tuple[str, ...] = ()

    @property
    def answering(self) -> Headers:
        return tuple((name.lower().encode(), value.encode()) for name, value in self.headers)

    def refusal(self) -> Refused:
        return Refused(
            Reason.RATE_LIMITED,
            f"this agent has made as many calls as its limit lets it ({', '.join(self.over)})",
            advice=f"Try again in {self.retry_after} s.",
            data={"retryAfter": self.retry_after, "limits": list(self.over)},
        )


class OverBudget(Spent):
    """A call that is one too many; `headers` say when there is room for another."""

    check = "agents"

    def __init__(self, refused: Refused, headers: Headers) -> None:
        super().__init__(refused.reason, refused.message, advice=refused.advice, data=refused.data)
        self.headers = headers


class Limiter(Protocol):
    """Counts calls. Its failure is the caller's to refuse for: nobody is let through uncounted."""

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        """One call by this agent, under all of these limits; where one is used up, none counts it."""


class MemoryLimiter:
    """Counts in this process only. A clock that is set does not move it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = storage.BUDGETS) -> None:
        self._clock = clock
        self._buckets = Buckets(most)

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        if not limits:
            return Allowance()
        takes = [(take.key, take) for take in (_take(limit, agent) for limit in limits)]
        return allowance(limits, self._buckets.spend(takes, self._clock() * 1000))


class StoreLimiter:
    """Counts in the store, for all processes on it."""

    def __init__(self, shelf: AgentRepository, *, clock: Callable[[], float] = time.time) -> None:
        self._repository = shelf
        self._clock = clock

    async def take(self, agent: str, limits: Sequence[Limit]) -> Allowance:
        if not limits:
            return Allowance()
        takes = [_take(limit, agent) for limit in limits]
        return allowance(limits, await self._repository.spend_all(takes, int(self._clock() * 1000)))

    def use(self, agent: str, limits: Sequence[Limit]) -> Use:
        """The same call, for whoever counts it in the transaction of its decision."""
        asked = [(take.key, take) for take in (_take(limit, agent) for limit in limits)]
        item = asked, int(self._clock() * 1000)
        return Use(self._repository.write_budgets, item, _enough, partial(_over, limits), partial(_told, limits))


def _enough(budgets: Sequence[BucketState]) -> bool:
    return all(budget.ok for budget in budgets)


def _told(limits: Sequence[Limit], budgets: Sequence[BucketState]) -> Headers:
    return allowance(limits, budgets).answering


def _over(limits: Sequence[Limit], budgets: Sequence[BucketState]) -> Spent:
    found = allowance(limits, budgets)
    return OverBudget(found.refusal(), found.answering)


@lru_cache(4096)
def _take(limit: Limit, agent: str) -> Take:
    """The take of one agent under a limit, checked, with the key of its bucket. Agents come again and again."""
    ((key, take),) = asked([limit.take(agent)])
    return msgspec.structs.replace(take, key=key)


def allowance(limits: Sequence[Limit], budgets: Sequence[BucketState]) -> Allowance:
    """What the buckets say, as an answer says it."""
    left: list[str] = []
    over: dict[str, float] = {}
    for limit, budget in zip(limits, budgets, strict=True):
        if not budget.ok:
            over[limit.name] = max(budget.wait_ms, over.get(limit.name, 0.0))
        # A hair less than a whole token still buys a call.
        whole = min(_policy(limit)[0], math.floor(budget.left + 0.001)) if budget.ok else 0
        # `t` is the time in which no more than `r` can be used: until the next token is whole.
        next_ms = (whole + 1 - budget.left) * _MINUTE_MS / limit.per_minute
        left.append(f'"{limit.name}";r={whole};t={max(1, math.ceil(next_ms / 1000))}')
    headers = (
        ("RateLimit-Policy", ", ".join([_policy(limit)[1] for limit in limits])),
        ("RateLimit", ", ".join(left)),
    )
    if not over:
        return Allowance(headers=headers)
    retry_after = max(1, math.ceil(max(over.values()) / 1000))
    return Allowance(
        ok=False,
        retry_after=retry_after,
        headers=(("Retry-After", str(retry_after)), *headers),
        over=tuple(over),
    )


@lru_cache(1024)
def _policy(limit: Limit) -> tuple[int, str]:
    """How many calls at once, and what a header says of the limit."""
    return limit.most, f'"{limit.name}";q={limit.most};w={limit.window}'


class LimitRules(Protocol):
    """What one entry of the configuration says of how often."""

    @property
    def per_minute(self) -> float | None: ...

    @property
    def burst(self) -> int | None: ...

    @property
    def per_tool(self) -> Mapping[str, float]: ...


class AgentLimitRules(LimitRules, Protocol):
    """That of an agent, with what is said of single servers."""

    @property
    def servers(self) -> Mapping[str, LimitRules]: ...


class CallLimits:
    """The limits as an operator wrote them. An agent with an entry of its own is counted by that entry.

    Its own limit, that of one server and that of one tool each count by themselves: a call has to be within all.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        known: Mapping[str, AgentLimitRules],
        default: LimitRules | None,
        servers: Mapping[str, LimitRules],
    ) -> None:
        self._limiter = limiter
        self._entries = known
        self._default = default
        self._servers = servers
        rules = [default, *servers.values(), *known.values()]
        rules += [one for entry in known.values() for one in entry.servers.values()]
        self.any = any(one is not None and (one.per_minute is not None or one.per_tool) for one in rules)
        # Whether a call can be counted with its decision: what one process counts by itself cannot.
        self.later = not self.any or isinstance(limiter, StoreLimiter)
        # What calls that were made before come under: agents call the same tools again and again.
        self._met: dict[tuple[str, ...], tuple[Limit, ...]] = {}

    async def take(self, agent: str, server: str, tools: Sequence[str]) -> Allowance:
        """Count these calls, all of them or none."""
        limits = self._met.get((agent, server, *tools)) or self._all(agent, server, tools)
        if not limits:
            return Allowance()
        for limit in limits:
            if limit.calls > 1 and (never := self._never(limits)) is not None:
                return never
        return await self._limiter.take(agent, limits)

    def use(self, agent: str, server: str, tool: str) -> tuple[Use, ...]:
        """The same for one call, counted in the transaction of its decision."""
        assert isinstance(self._limiter, StoreLimiter)
        limits = self._met.get((agent, server, tool)) or self._all(agent, server, (tool,))
        return (self._limiter.use(agent, limits),) if limits else ()

    def _all(self, agent: str, server: str, tools: Sequence[str]) -> tuple[Limit, ...]:
        found = Counter(limit for tool in tools for limit in self._of(agent, server, tool))
        limits = tuple([msgspec.structs.replace(one, calls=calls) for one, calls in found.items()])
        if len(tools) == 1 and len(tools[0]) <= MAX_NAME:
            if len(self._met) >= _POLICIES_MAX:
                self._met.clear()
            self._met[agent, server, *tools] = limits
        return limits

    @staticmethod
    def _never(limits: Sequence[Limit]) -> Allowance | None:
        """However long one waits: so many never pass at once."""
        never = [one for one in limits if one.calls > one.most]
        if not never:
            return None
        wait = max(one.window for one in never)
        over = tuple(dict.fromkeys(one.name for one in never))
        return Allowance(ok=False, retry_after=wait, headers=(("Retry-After", str(wait)),), over=over)

    def _of(self, agent: str, server: str, tool: str) -> Iterator[Limit]:
        entry = self._entries.get(agent)
        if entry is not None:
            yield from _limits(entry, "agent", "", server, tool)
            narrower = entry.servers.get(server)
        else:
            if self._default is not None:
                yield from _limits(self._default, "agent", "", server, tool)
            narrower = self._servers.get(server)
        if narrower is not None:
            yield from _limits(narrower, "server", server, server, tool)


def _limits(rules: LimitRules, name: str, of: str, server: str, tool: str) -> Iterator[Limit]:
    if rules.per_minute is not None:
        yield Limit(name, rules.per_minute, rules.burst, of)
    for glob, per_minute in rules.per_tool.items():
        if restricts(glob, tool):
            # By tool, not by pattern: `get_*` lets each of these tools be called so often. As a careless server may
            # read the name: nobody is to be counted anew for spelling it otherwise.
            yield Limit("tool", per_minute, None, f"{server}/{folded(tool[:MAX_NAME])}")
            break


# A name longer than this is nobody's tool; matching globs against it would only cost time.
MAX_NAME: Final = 1024
_FREE: Final = ToolPolicy()


_POLICIES_MAX: Final = 4096


class ToolLimit(msgspec.Struct, frozen=True):
    """How often each agent may call the tools of a glob, all of them together; `agent` where it is for one only."""

    tool: str
    per_minute: float
    burst: int | None = None
    agent: str = ""


class Acl:
    """The rules as an operator wrote them. With none at all, every verified agent may call everything (WB-039)."""

    def __init__(
        self,
        agents: Iterable[AgentPolicy] = (),
        *,
        default: ToolPolicy | None = None,
        servers: Mapping[str, ToolPolicy] = MappingProxyType({}),
        tool_limits: Iterable[ToolLimit] = (),
    ) -> None:
        entries = tuple(agents)
        self._tool_limits = tuple(tool_limits)
        self._agents = {entry.agent: entry for entry in entries}
        self._default = default
        self._servers = dict(servers)
        # Rules of agents that were asked about: they hold for as long as these rules do.
        self._known: dict[tuple[str, str], ToolPolicy] = {}
        if len(self._agents) != len(entries):
            raise ConfigError("two entries are for the same agent", advice="Write each agent's rules in one entry.")
        for policy in self._policies():
            _check(policy)
        for one in self._tool_limits:
            _check(ToolPolicy(allow=(one.tool,), per_minute=one.per_minute, burst=one.burst))

    @property
    def entries(self) -> tuple[AgentPolicy, ...]:
        return tuple(self._agents.values())

    @property
    def requires_digest(self) -> bool:
        """Whether any rule looks at a tool: then a body that is not bound to its signature proves nothing (WB-019)."""
        rules = any(policy.allow is not None or policy.deny for policy in self._policies())
        return rules or bool(self._tool_limits)

    @property
    def counts(self) -> bool:
        """Whether any rule limits how often."""
        return bool(self._tool_limits) or any(policy.per_minute is not None for policy in self._policies())

    def policy(self, agent: str, server: str = "") -> ToolPolicy:
        """What holds for an agent on a server, all rules together."""
        known = self._known.get((agent, server))
        if known is None:
            if len(self._known) >= _POLICIES_MAX:
                self._known.clear()
            known = self._known[agent, server] = self._all_rules(agent, server)
        return known

    def permits(self, agent: str, server: str, tools: Iterable[str]) -> bool:
        """Whether an agent may call all of these tools of a server, or come to it at all where there are none."""
        policy = self._known.get((agent, server)) or self.policy(agent, server)
        if policy.denied:
            return False
        # Most rules are names: those need no pattern.
        names = policy.allow if policy.allow is not None and not policy.deny else ()
        return all(tool in names or permits(policy, tool) for tool in tools)

    def shuts_out(self, agent: str, server: str, tool: str) -> bool:
        """Whether an agent may not even call this tool of the gateway's own, which no `allow` has to name."""
        policy = self.policy(agent, server)
        return policy.denied or any(restricts(glob, tool) for glob in policy.deny)

    def _all_rules(self, agent: str, server: str) -> ToolPolicy:
        entry, here = self._agents.get(agent), self._servers.get(server, _FREE)
        if entry is not None:
            own = _joined(entry.policy, entry.servers.get(server, _FREE))
            # The server's deny holds for everybody; its allow and limits are for those without an entry.
            return _joined(ToolPolicy(deny=here.deny, denied=here.denied), own)
        return _joined(self._default or _FREE, here)

    def check(self, agent: str, tools: Iterable[str], server: str = "") -> ToolPolicy:
        """Raises Refused unless the agent may call every one of these tools; answers with what holds for it."""
        policy = self.policy(agent, server)
        if policy.denied:
            raise Refused(Reason.AGENT_DENIED)
        for tool in tools:
            if not permits(policy, tool):
                raise Refused(Reason.TOOL_DENIED, f"this agent may not call {shown(tool)}", data={"tool": shown(tool)})
        return policy

    def limits(self, agent: str, tool: str = "", server: str = "") -> list[Limit]:
        """What one request of an agent counts against, and one call of a tool; "" where it calls none.

        A budget belongs to the rule, not to the spelling of a name: calling `A` and `a` in turn does not double it.
        """
        entry, here = self._agents.get(agent), self._servers.get(server)
        narrow = entry.servers.get(server) if entry is not None else here
        wide = entry.policy if entry is not None else self._default
        found = [limit_of(narrow, "server", server)] if narrow is not None and narrow.per_minute is not None else []
        if not found and wide is not None:
            found.append(limit_of(wide, "agent"))
        found += [
            Limit(f"tool.{at}", one.per_minute, one.burst, one.tool)
            for at, one in enumerate(self._tool_limits)
            if tool and one.agent in ("", agent) and restricts(one.tool, tool)
        ]
        return [limit for limit in found if limit is not None]

    def _policies(self) -> Iterator[ToolPolicy]:
        if self._default is not None:
            yield self._default
        yield from self._servers.values()
        for entry in self._agents.values():
            yield entry.policy
            yield from entry.servers.values()


def permits(policy: ToolPolicy, tool: str) -> bool:
    """Whether a policy lets a tool be called."""
    if policy.denied:
        return False
    if policy.allow is None and not policy.deny:
        return True
    if not tool or len(tool) > MAX_NAME:
        return False
    if any(restricts(glob, tool) for glob in policy.deny):
        return False
    return policy.allow is None or any(_matches(glob, tool) for glob in policy.allow)


def shown(tool: str) -> str:
    """A tool's name fit for a message: it comes from the peer."""
    text = tool if len(tool) <= 128 else f"{tool[:128]}…"
    return ascii(text) if not text.isprintable() else text


def _joined(wide: ToolPolicy, narrow: ToolPolicy) -> ToolPolicy:
    """The narrower one says what is allowed and how often; what either denies stays denied."""
    return ToolPolicy(
        allow=wide.allow if narrow.allow is None else narrow.allow,
        deny=wide.deny + narrow.deny,
        denied=wide.denied or narrow.denied,
        per_minute=wide.per_minute if narrow.per_minute is None else narrow.per_minute,
        burst=wide.burst if narrow.per_minute is None else narrow.burst,
    )


def _check(policy: ToolPolicy) -> None:
    for glob in (*(policy.allow or ()), *policy.deny):
        if not glob or len(glob) > MAX_NAME:
            raise ConfigError(f"{glob[:40]!r} names no tool", advice="Write a tool's name, or a glob such as `get_*`.")
    if policy.per_minute is not None and not 0 < policy.per_minute < float("inf"):
        raise ConfigError("per_minute has to be above zero", advice="Use `denied` to shut an agent out.")
    if policy.burst is not None and policy.burst < 1:
        raise ConfigError("burst has to be at least 1", advice="Use `denied` to shut an agent out.")


def _matches(glob: str, name: str) -> bool:
    return glob in ("*", name) or _compiled(glob).match(name) is not None


def restricts(glob: str, name: str) -> bool:
    """What restricts is matched widely; a name that is too long for any tool is restricted by everything."""
    return len(name) > MAX_NAME or _matches(glob, name) or _matches(folded(glob), folded(name))


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """What a careless reader may take a name for: cut at a NUL, without what cannot be seen, in one case and width."""
    text = unicodedata.normalize("NFKC", name.partition("\0")[0])
    return "".join(one for one in text if unicodedata.category(one) not in _UNSEEN).casefold()


_UNSEEN: Final = frozenset({"Cc", "Cf", "Cn", "Zs", "Zl", "Zp"})
