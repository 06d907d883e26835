"""Examples of every command for its help, and what exit codes mean. The docs are made from both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import typer

# The words of a command, and what somebody may type after `callgate`.
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "demo": ("demo", "demo --auto", "demo --dir ./demo"),
    "install": ("install --dry-run", "install --client cursor --server files", "install --pin-versions --yes"),
    "uninstall": ("uninstall --dry-run", "uninstall --client cursor", "uninstall --yes"),
    "upgrade": ("upgrade files", "upgrade files --to 1.4.2", "upgrade files --json"),
    "serve": ("serve", "serve -c gate.toml --listen 127.0.0.1:9000"),
    "wrap": (
        "wrap files -- python server.py ~/Documents",
        "wrap mail --url https://mail.example/mcp",
        "wrap files",
    ),
    "status": ("status", "status --json"),
    "stop": ("stop",),
    "restart": ("restart",),
    "logs": ("logs", "logs --follow"),
    "service install": ("service install --dry-run", "service install"),
    "service uninstall": ("service uninstall",),
    "service status": ("service status",),
    "prompt": ("prompt < hook-input.json",),
    "call": (
        "call files read_file path=notes.txt",
        "call https://tools.example/mcp search query='old invoices' --raw",
        "call read_file path=notes.txt -- python server.py",
    ),
    "check": ("check", "check -c gate.toml --json"),
    "doctor": ("doctor", "doctor --server files", "doctor --no-start --json"),
    "completion": ("completion bash", "completion zsh", "completion fish"),
    "review": ("review", "review --check"),
    "enroll": ("enroll alice", "enroll alice --here", "enroll bob --minutes 30"),
    "config show": ("config show",),
    "config schema": ("config schema > callgate.schema.json",),
    "tools list": ("tools list", "tools list --state pending", "tools list --server files --json"),
    "tools show": ("tools show --server files --tool read_file",),
    "tools diff": (
        "tools diff --server files --tool read_file",
        "tools diff --server files --tool read --from 0a1b2c3d4e5f6071",
    ),
    "tools approve": (
        'tools approve --server files --tool read_file --hash "$HASH"',
        "tools approve --from reviewed.json --note 'read by two of us'",
    ),
    "tools block": ("tools block --server files --tool wipe --note 'never needed'",),
    "tools withdraw": ("tools withdraw --server files --tool read_file",),
    "tools together": ('tools together --version "$VERSION"',),
    "tools history": ("tools history --server files --tool read_file",),
    "tools servers": ("tools servers", "tools servers --odd"),
    "tools forget": ("tools forget --server old-files --yes",),
    "tools verify": ("tools verify",),
    "labels show": ("labels show", "labels show files read_file"),
    "labels report": ("labels report", "labels report files --json"),
    "labels starter": ("labels starter files >> callgate.toml",),
    "policy check": ("policy check", "policy check rules.toml --json"),
    "policy facts": ("policy facts",),
    "policy explain": ("policy explain 0192f3a4", "policy explain call.json --policy rules.toml"),
    "policy replay": ("policy replay", "policy replay rules.toml --since 7d"),
    "policy test": ("policy test cases.toml",),
    "agents list": ("agents list", "agents list --all --json"),
    "agents show": ("agents show research-bot", "agents show https://agent.example"),
    "agents add": (
        "agents add ci --api-key --expires 90d",
        "agents add research-bot --directory https://agent.example",
        "agents add nightly --key nightly.pem",
    ),
    "agents remove": ("agents remove ci", "agents remove ci --yes"),
    "agents refresh": ("agents refresh", "agents refresh https://agent.example --flush"),
    "agents why": ("agents why research-bot", "agents why research-bot read_file --server files"),
    "agents keygen": ("agents keygen", "agents keygen agent.json --kind p256"),
    "agents directory": (
        "agents directory agent.pem --origin https://agent.example",
        "agents directory agent.pem --serve 127.0.0.1:8500",
    ),
    "agents sign": ("agents sign https://gate.example/mcp --key agent.pem --curl",),
    "agents verify": ("agents verify request.txt --key agent.pem", "agents verify request.txt --fetch"),
    "block-all on": ("block-all on --note 'mail server acts strangely'",),
    "block-all off": ("block-all off",),
    "block-all status": ("block-all status", "block-all status --json"),
    "users list": ("users list", "users list --json"),
    "users add": ("users add alice", "users add bob --role viewer --display-name 'Bob from sales'"),
    "users role": ("users role bob approver",),
    "users remove": ("users remove bob", "users remove bob --yes"),
    "credentials list": ("credentials list", "credentials list alice --all"),
    "credentials rename": ("credentials rename Kd83jf 'blue security key'",),
    "credentials revoke": ("credentials revoke Kd83jf",),
    "approvals list": ("approvals list", "approvals list --user alice --all"),
    "approvals show": ("approvals show 7hQ2mX",),
    "approvals refuse": ("approvals refuse 7hQ2mX --note 'not to this address'",),
    "watch": ("watch", "watch --approvals-only", "watch --json"),
    "session list": ("session list", "session list --limit 10 --json"),
    "session show": ("session show 4fe1a0", "session show 4fe1a0 --steps 20"),
    "session declassify": ("session declassify 4fe1a0 --note 'read all of it, harmless'",),
    "quarantine list": ("quarantine list",),
    "quarantine show": ("quarantine show q-51ab",),
    "quarantine release": ("quarantine release q-51ab --note 'an ordinary invoice'",),
    "quarantine drop": ("quarantine drop q-51ab --note 'an injection'",),
    "audit list": ("audit list --since 2h", "audit list --verdict refuse --reason rule_blocked", "audit list --json"),
    "audit show": ("audit show 0192f3a4",),
    "audit verify": ("audit verify", "audit verify --receipt receipt.json --key gate.pub"),
    "audit export": ("audit export --since 7d -o calls.jsonl",),
    "audit receipt": ("audit receipt 0192f3a4 -o receipt.json",),
    "audit checkpoint": ("audit checkpoint > checkpoint.txt", "audit checkpoint --since checkpoint.txt"),
    "audit prune": ("audit prune --days 90",),
    "store check": ("store check", "store check --store sqlite:///copy.db"),
    "store upgrade": ("store upgrade",),
    "store backup": ("store backup callgate-copy.db",),
    "keys list": ("keys list",),
    "keys rotate": ("keys rotate", "keys rotate seal"),
    "keys export": ("keys export > gate.pub",),
}
DONE: Final = 0
FAILED: Final = 1
MISTYPED: Final = 2
INTERRUPTED: Final = 130
# What each of these verbs adds to the table.
SPECIAL: Final = {
    "callgate wrap": "Ends as the wrapped command ends: with its exit code, or by the signal that ended it; with 69 if "
    "its gateway ended.",
    "callgate serve": "Ends with 0 when it is asked to stop (Ctrl-C, SIGTERM), after the calls under way.",
    "callgate demo": "Ends with 0 when it is asked to stop; with `--auto`, only if every step happened.",
    "callgate doctor": "Ends with 1 if any finding is a problem; warnings and notes do not count.",
    "callgate check": "Ends with 1 if the configuration has a mistake.",
    "callgate review": "With `--check`, or without a terminal: ends with 1 if anything waits for review.",
    "callgate call": "Ends with 1 if the call was refused or its result is an error, 130 if you cancelled.",
    "callgate policy test": "Ends with 1 if a case comes out otherwise than it says.",
    "callgate audit verify": "Ends with 1 if a record, a checkpoint or a receipt does not hold.",
    "callgate store check": "Ends with 1 if the store cannot be used.",
}


def attach(app: typer.Typer, before: str = "") -> None:
    """Put the examples of each command under its help, where it has none of its own."""
    for command in app.registered_commands:
        words = f"{before}{command.name}"
        if not command.epilog and words in EXAMPLES:
            # \b: the lines stay lines.
            command.epilog = "\n".join(["\b", *_lines(words)])
    for group in app.registered_groups:
        if group.typer_instance is not None:
            attach(group.typer_instance, f"{before}{group.name} ")


def _lines(words: str) -> Iterator[str]:
    yield "[dim]For example:[/dim]"
    for example in EXAMPLES[words]:
        yield f"  [green]$[/green] callgate {example.replace('[', chr(92) + '[')}"


class ExitCode(NamedTuple):
    """A code, what it means, and what to do then."""

    code: int
    meaning: str
    then: str


EXIT_CODES: Final = (
    ExitCode(DONE, "It was done, and nothing is wrong with what was looked at.", "Nothing."),
    ExitCode(
        FAILED,
        "It was not done, or what was looked at does not hold: a call was refused, a check found a problem, a proof "
        "fails, something waits for review.",
        "Read stderr: the first line says what is wrong, the next one what to do.",
    ),
    ExitCode(
        MISTYPED,
        "The command line was not understood: an unknown command or option, a value that does not fit.",
        "Read the line on stderr, and `--help` of the command, which ends with examples.",
    ),
    ExitCode(
        INTERRUPTED,
        "Somebody pressed Ctrl-C, or cancelled an approval; at a yes-or-no question, Ctrl-C is a no and the code 1.",
        "Run it again if it is still wanted.",
    ),
)
