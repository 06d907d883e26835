from pathlib import Path

import pytest

from callgate import config
from callgate.errors import ConfigError
from support.table import rows


def parse(text, **environ):
    return config.parse(
        text, source="callgate.toml", base=Path("/etc/callgate"), environ={"HOME": "/home/u", **environ}
    )


def problems(text, **environ):
    with pytest.raises(ConfigError) as caught:
        parse(text, **environ)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    assert "callgate check" in caught.value.advice
    return [str(problem) for problem in caught.value.problems]


def test_an_empty_file_gives_the_defaults():
    loaded = parse("")
    assert loaded.gateway.address == ("127.0.0.1", 8420)
    assert loaded.store.durability == "full"
    assert loaded.audit.arguments == "redacted"
    assert loaded.audit.retention_days == 180
    assert loaded.policy.block_all is False
    assert loaded.limits.message_bytes == 32 * 2**20
    assert loaded.telemetry.metrics is True
    assert loaded.servers == {}
    assert loaded == config.Config()


def test_the_default_store_is_in_the_state_directory(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert parse("").store.url.reveal() == "sqlite:////state/callgate/callgate.db"


def test_a_full_file():
    loaded = parse(
        """
        [gateway]
        listen = "[::1]:0"
        allowed_origins = ["http://localhost:6274"]
        [limits]
        message_bytes = "1 MiB"
        [servers.web]
        url = "https://${HOST}/mcp"
        headers.Authorization = "Bearer ${TOKEN:-none}"
        sessions = 5
        [servers.files]
        command = ["server", "${HOME}/data"]
        inherit_env = ["AWS_*"]
        env = { A = "1" }
        cwd = "work"
        """,
        HOST="tools.example",
    )
    assert loaded.gateway.address == ("::1", 0)
    assert loaded.limits.message_bytes == 2**20
    web, files = loaded.servers["web"], loaded.servers["files"]
    assert (web.kind, files.kind) == ("http", "stdio")
    assert web.url.reveal() == "https://tools.example/mcp"
    assert web.headers["Authorization"].reveal() == "Bearer none"
    assert files.argv == ["server", "/home/u/data"]
    assert files.cwd == Path("/etc/callgate/work")
    assert loaded.server_limits("web") == (5, 64, 1800.0)
    assert loaded.server_limits("files").sessions == 10000


def test_a_command_gets_only_what_every_program_needs_and_what_was_named():
    server = parse('[servers.a]\ncommand = ["x"]\ninherit_env = ["AWS_*", "ONE"]\nenv = { PATH = "/mine" }').servers[
        "a"
    ]
    environ = {"PATH": "/bin", "HOME": "/h", "AWS_KEY": "k", "ONE": "1", "CALLGATE_STORE_URL": "s", "OTHER": "o"}
    assert server.environment(environ) == {"PATH": "/mine", "HOME": "/h", "AWS_KEY": "k", "ONE": "1"}


@rows(
    ("written", "url"),
    [
        ("sqlite:///gate.db", "sqlite:////etc/callgate/gate.db"),
        ("sqlite:////var/gate.db", "sqlite:////var/gate.db"),
        ("sqlite:///~/gate.db", "sqlite:////home/real/gate.db"),
        ("sqlite:///${HOME}/gate.db", "sqlite:////home/u/gate.db"),
        ("sqlite:///gate.db?mode=rw", "sqlite:////etc/callgate/gate.db?mode=rw"),
        ("postgresql://u:p@db:5432/callgate", "postgresql://u:p@db:5432/callgate"),
    ],
)
def test_the_store_is_the_same_from_every_working_directory(written, url, monkeypatch):
    monkeypatch.setenv("HOME", "/home/real")
    assert parse(f'[store]\nurl = "{written}"').store.url.reveal() == url


@rows(
    ("text", "path"),
    [
        ('url = "sqlite:////var/gate.db"', "/var/keys"),
        ('url = "sqlite:////var/gate.db?a=/b/c"', "/var/keys"),
        ('url = "postgresql://db/x"', "/state/callgate/keys"),
        ('url = "postgresql://db/x"\nkeys_dir = "mine"', "/etc/callgate/mine"),
    ],
)
def test_the_keys_are_where_the_file_says_or_beside_the_store(text, path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert parse(f"[store]\n{text}").store.keys_path == Path(path)


def test_every_problem_of_a_file_is_told_with_line_key_and_nearest_name():
    assert problems(
        """[gateway]
listen = "0.0.0.0:80"
shutdown_seconds = "ten"
[gatway]
[limits]
message_bytes = "32 MiBs"
depth = 3
level = "x"
[logging]
level = "inf"
[servers.files]
comand = ["a"]
[servers.Bad]
url = "ftp://x"
[servers.c]
command = ["a", 3, "${"]
processes = "a"
"""
    ) == [
        (
            "callgate.toml:2: gateway.listen: 0.0.0.0:80 can be reached from other machines, and no allowed_hosts says "
            'by which names; add allowed_hosts = ["HOST"] to [gateway], or listen on 127.0.0.1'
        ),
        "callgate.toml:3: gateway.shutdown_seconds: expected a number from 0 to 3600, found a string",
        'callgate.toml:4: gatway: unknown key; did you mean "gateway"?',
        'callgate.toml:6: limits.message_bytes: expected a number of bytes or a size such as "32 MiB"',
        "callgate.toml:7: limits.depth: expected an integer from 4 to 1000, found the integer 3",
        'callgate.toml:8: limits.level: unknown key here; did you mean "logging.level", in the table [logging]?',
        (
            'callgate.toml:10: logging.level: expected one of "debug", "info", "warning", "error", found "inf"; '
            'did you mean "info"?'
        ),
        'callgate.toml:12: servers.files.comand: unknown key; did you mean "command"?',
        "callgate.toml:13: servers.Bad: a server's name has 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or digit",
        'callgate.toml:14: servers.Bad.url: expected an http or https URL with a host, such as "https://tools.example/mcp"',
        "callgate.toml:16: servers.c.command[1]: expected a string, found the integer 3",
        'callgate.toml:16: servers.c.command[2]: "${" is never closed by "}"; write "$${" for a plain "${"',
        "callgate.toml:17: servers.c.processes: expected an integer from 1 to 100000, found a string",
    ]


@rows(
    ("text", "wanted"),
    [
        ("zzz = 1", "zzz: unknown key; the keys here are gateway, store,"),
        ("gateway = 3", "gateway: expected a table, found the integer 3"),
        ("servers = 3", "servers: expected a table, found the integer 3"),
        ("servers.a = []", "servers.a: expected a table, found a list"),
        ("[[servers]]\na = 1", "servers: expected a table, found a list"),
        ("policy.block_all = 1", "policy.block_all: expected true or false, found the integer 1"),
        ('policy.block_all = "yes"', "policy.block_all: expected true or false, found a string"),
        ("limits.batch = true", "limits.batch: expected an integer from 1 to 10000, found the boolean true"),
        ("limits.batch = 1.5", "limits.batch: expected an integer from 1 to 10000, found the number 1.5"),
        (
            "limits.depth = 99999999999999999999",
            "limits.depth: expected an integer from 4 to 1000, found a huge integer",
        ),
        ("limits.check_seconds = nan", "limits.check_seconds: expected a number from 0.01 to 600, found nan"),
        ("limits.check_seconds = inf", "limits.check_seconds: expected a number from 0.01 to 600, found inf"),
        ("limits.check_seconds = 1979-05-27", "limits.check_seconds: expected a number from 0.01 to 600, found a date"),
        ('limits.message_bytes = "9 GiB"', "expected an integer from 1024 to 1073741824, or a size"),
        ("limits.message_bytes = -1", "expected an integer from 1024 to 1073741824, or a size"),
        ('gateway.allowed_hosts = "x"', "gateway.allowed_hosts: expected a list of strings, found a string"),
        ('gateway.allowed_hosts = ["*"]', "gateway.allowed_hosts[0]: wildcards would switch off the guard"),
        ('gateway.allowed_hosts = ["http://x"]', "gateway.allowed_hosts[0]: expected a host as in a Host header"),
        ('gateway.allowed_origins = ["http://x/"]', "gateway.allowed_origins[0]: expected an origin"),
        ('gateway.allowed_origins = ["x"]', "gateway.allowed_origins[0]: expected an origin"),
        ('gateway.listen = "8420"', 'gateway.listen: expected "host:port"'),
        ('gateway.listen = ":8420"', "gateway.listen: expected a host before the port"),
        ('gateway.listen = "::1:8420"', "gateway.listen: an IPv6 address is written in brackets"),
        ('gateway.listen = "[1.2.3.4]:8420"', "gateway.listen: expected an IPv6 address inside the brackets"),
        ('gateway.listen = "127.0.0.1:65536"', 'gateway.listen: expected "host:port"'),
        ('gateway.listen = "127.0.0.1:٣"', 'gateway.listen: expected "host:port"'),
        ('gateway.listen = "gate.example:80"', "can be reached from other machines"),
        ('store.url = "mysql://x"', 'store.url: expected "sqlite:///FILE" or "postgresql://'),
        ('store.url = "sqlite://"', "store.url: SQLite needs a file"),
        ('store.url = "sqlite:///:memory:"', "store.url: SQLite needs a file"),
        ('store.url = "sqlite:///~nobody-of-that-name/x"', 'store.url: the home directory that "~" stands for'),
        ('store.url = "${NOWHERE}"', "store.url: the environment variable NOWHERE is not set"),
        ("[servers.a]", 'servers.a: a server needs url = "https://..." or command = '),
        ("[servers.a]\ncommand = []", "servers.a: a server needs"),
        ('[servers.a]\ncommand = "x"', "servers.a.command: expected a list of strings, found a string"),
        ('[servers.a]\ncommand = [""]', "servers.a.command[0]: expected a word, found an empty string"),
        ('[servers.a]\nurl = "http://x"\ncommand = ["x"]', "servers.a.url: a server has a url or a command, not both"),
        ('[servers.a]\nurl = "http://x"\ncwd = "/"', "servers.a.cwd: this is for servers started by a command"),
        ('[servers.a]\ncommand = ["x"]\nheaders.a = "b"', "servers.a.headers: this is for servers reached by a url"),
        ('[servers.a]\nurl = "http:///x"', "servers.a.url: expected an http or https URL"),
        ('[servers.a]\nurl = "http://x:99999/"', "servers.a.url: expected an http or https URL"),
        ('[servers.a]\nurl = "http://x/#y"', "servers.a.url: a fragment"),
        ('[servers.a]\nurl = "http://x/a b"', "servers.a.url: a URL holds no spaces"),
        ('[servers.a]\nurl = "http://x/\\n"', "servers.a.url: a URL holds no spaces"),
        ('[servers.a]\nurl = "http://x"\nheaders = { "a b" = "c" }', 'servers.a.headers."a b": this is no name'),
        ('[servers.a]\nurl = "http://x"\nheaders.Host = "c"', "servers.a.headers.Host: the gateway sets this header"),
        ('[servers.a]\nurl = "http://x"\nheaders.A = "c\\r\\nX: y"', "servers.a.headers.A: a header value is one line"),
        ('[servers.a]\nurl = "http://x"\nheaders.A = "${NOPE}"', "servers.a.headers.A: the environment variable NOPE"),
        ('[servers.a]\ncommand = ["x"]\nenv."A=B" = "c"', 'servers.a.env."A=B": this is no name'),
        ('[servers.a]\ncommand = ["x"]\nenv.A = "\\u0000"', "servers.a.env.A: a NUL character"),
        ('[servers.a]\ncommand = ["x"]\nenv.A = 5', "servers.a.env.A: expected a string, found the integer 5"),
        ('[servers."a.b"]\ncommand = ["x"]', 'servers."a.b": a server\'s name has'),
        ('[servers.a]\ncommand = ["x"]\nidle_seconds = 0', "servers.a.idle_seconds: expected a number from 1 to"),
        ('telemetry.otlp_endpoint = "nowhere"', "telemetry.otlp_endpoint: expected an http or https URL"),
    ],
)
def test_a_wrong_value_says_what_was_expected_and_found(text, wanted):
    told = problems(text)
    assert len(told) == 1
    assert wanted in told[0]
    assert told[0].startswith("callgate.toml:")


def test_a_mistake_in_a_secret_does_not_repeat_it():
    told = problems(
        """
        [servers.a]
        url = "ftp://u:hunter2@x"
        headers.A = "hunter2\\n"
        [servers.b]
        command = ["x"]
        env.A = "hunter2${"
        [store]
        url = "hunter2"
        """
    )
    assert len(told) == 4
    assert "hunter2" not in "".join(told)


def test_a_header_value_from_the_environment_cannot_add_a_header():
    told = problems('[servers.a]\nurl = "http://x"\nheaders.A = "${EVIL}"', EVIL="x\r\nAuthorization: y")
    assert "a header value is one line" in told[0]


@rows(
    ("text", "wanted"),
    [
        ("a = 1\nb = \n", "callgate.toml:2: not valid TOML: Invalid value, at column 5"),
        ("[a]\n[a]\n", "callgate.toml:2: not valid TOML: Cannot declare ('a',) twice, at column 3"),
        ("a = 1\nb = [1,", "callgate.toml:2: not valid TOML: "),
    ],
)
def test_a_syntax_error_keeps_its_line_and_column(text, wanted):
    told = problems(text)
    assert len(told) == 1
    assert told[0].startswith(wanted)


def test_a_file_nested_beyond_reason_is_refused():
    told = problems(f"a = {'[' * 100_000}{']' * 100_000}")
    assert "nested too deeply" in told[0]


def test_the_environment_overrides_the_file():
    loaded = parse(
        '[gateway]\nlisten = "127.0.0.1:1"\n[logging]\nlevel = "info"',
        CALLGATE_LISTEN="127.0.0.1:2",
        CALLGATE_STORE_URL="sqlite:////x/gate.db",
        CALLGATE_BLOCK_ALL="on",
        CALLGATE_LOG_LEVEL="DEBUG",
        CALLGATE_LOG_FORMAT="json",
    )
    assert loaded.gateway.listen == "127.0.0.1:2"
    assert loaded.store.url.reveal() == "sqlite:////x/gate.db"
    assert loaded.policy.block_all is True
    assert (loaded.logging.level, loaded.logging.format) == ("debug", "json")


@rows(
    ("text", "variable", "blocked"),
    [
        ("true", "false", True),
        ("true", "0", True),
        ("false", "true", True),
        ("false", "off", False),
        ("true", "1", True),
    ],
)
def test_the_kill_switch_is_on_if_the_file_or_the_environment_says_so(text, variable, blocked):
    assert parse(f"policy.block_all = {text}", CALLGATE_BLOCK_ALL=variable).policy.block_all is blocked


def test_a_variable_does_not_hide_a_mistake_in_the_file():
    assert "policy.block_all: expected true or false" in problems('policy.block_all = "on"', CALLGATE_BLOCK_ALL="no")[0]


def test_an_empty_variable_overrides_nothing():
    assert parse("[policy]\nblock_all = true", CALLGATE_BLOCK_ALL="").policy.block_all is True


@rows(
    ("name", "value", "wanted"),
    [
        ("CALLGATE_LISTEN", "nowhere", 'environment: CALLGATE_LISTEN: expected "host:port"'),
        ("CALLGATE_LISTEN", "0.0.0.0:1", "environment: CALLGATE_LISTEN: 0.0.0.0:1 can be reached"),
        ("CALLGATE_BLOCK_ALL", "maybe", 'environment: CALLGATE_BLOCK_ALL: expected "true" or "false"'),
        ("CALLGATE_STORE_URL", "x", 'environment: CALLGATE_STORE_URL: expected "sqlite:///FILE"'),
        ("CALLGATE_LOG_LEVEL", "loud", 'environment: CALLGATE_LOG_LEVEL: expected one of "debug"'),
    ],
)
def test_a_wrong_variable_is_named(name, value, wanted):
    assert problems("", **{name: value})[0].startswith(wanted)


def test_listening_beyond_loopback_with_allowed_hosts_is_fine():
    loaded = parse(
        '[gateway]\nlisten = "0.0.0.0:80"\nallowed_hosts = ["gate.example", "[::1]:80", "10.0.0.1:80"]\n'
        "[agents.api_keys]\nenabled = true"
    )
    assert not loaded.gateway.address.is_loopback


@rows("listen", ["127.0.0.2:1", "[::1]:1", "localhost:1", "LOCALHOST:1"])
def test_loopback_needs_no_allowed_hosts(listen):
    assert parse(f'[gateway]\nlisten = "{listen}"').gateway.address.is_loopback


@rows(
    ("written", "size"),
    [
        ("2048", 2048),
        ("4 KB", 4000),
        ("4KiB", 4096),
        ("1 MB", 10**6),
        ("1 MiB", 2**20),
        ("1 GiB", 2**30),
        ("2000B", 2000),
    ],
)
def test_sizes(written, size):
    assert parse(f'limits.message_bytes = "{written}"').limits.message_bytes == size


class TestWhichFile:
    @pytest.fixture(autouse=True)
    def _places(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        monkeypatch.delenv("CALLGATE_CONFIG", raising=False)
        self.home = tmp_path / "xdg" / "callgate" / "callgate.toml"

    def test_none_gives_the_defaults(self):
        assert config.find() is None
        assert config.load() == config.Config()

    def test_the_users_file(self):
        self.home.parent.mkdir(parents=True)
        self.home.write_text("limits.batch = 7")
        assert config.find() == self.home
        assert config.load().limits.batch == 7

    def test_the_working_directory_comes_before_the_user(self):
        self.home.parent.mkdir(parents=True)
        self.home.write_text("limits.batch = 7")
        Path("callgate.toml").write_text("limits.batch = 8")
        assert config.load().limits.batch == 8

    def test_the_variable_comes_before_the_working_directory(self, monkeypatch):
        Path("callgate.toml").write_text("limits.batch = 8")
        Path("other.toml").write_text("limits.batch = 9")
        monkeypatch.setenv("CALLGATE_CONFIG", "other.toml")
        assert config.load().limits.batch == 9

    def test_the_argument_comes_first(self, monkeypatch):
        Path("mine.toml").write_text("limits.batch = 10")
        monkeypatch.setenv("CALLGATE_CONFIG", "absent.toml")
        assert config.load(Path("mine.toml")).limits.batch == 10

    def test_a_named_file_that_is_not_there_is_an_error(self, monkeypatch):
        monkeypatch.setenv("CALLGATE_CONFIG", "absent.toml")
        with pytest.raises(ConfigError, match=r"absent\.toml: there is no such file"):
            config.load()

    def test_a_directory_is_no_file(self):
        with pytest.raises(ConfigError, match="cannot be read"):
            config.load(Path())

    def test_a_file_beyond_the_bound_is_refused(self):
        Path("callgate.toml").write_text("#" * (2**20 + 1))
        with pytest.raises(ConfigError, match="larger than"):
            config.load()

    def test_text_that_is_not_utf8_is_located(self):
        Path("callgate.toml").write_bytes(b"a = 1\nb = '\xff'")
        with pytest.raises(ConfigError, match=r"callgate\.toml:2: this is not UTF-8 text"):
            config.load()

    def test_relative_paths_start_at_the_file(self, tmp_path, monkeypatch):
        folder = tmp_path / "etc"
        folder.mkdir()
        (folder / "callgate.toml").write_text('[store]\nurl = "sqlite:///gate.db"\nkeys_dir = "keys"')
        loaded = config.load(Path("etc/callgate.toml"))
        assert loaded.store.url.reveal() == f"sqlite:///{folder}/gate.db"
        assert loaded.store.keys_dir == folder / "keys"
        monkeypatch.setenv("CALLGATE_STORE_URL", "sqlite:///gate.db")
        assert config.load(Path("etc/callgate.toml")).store.url.reveal() == f"sqlite:///{tmp_path}/gate.db"
