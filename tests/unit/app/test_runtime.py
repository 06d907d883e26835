import logging
from pathlib import Path

import pytest

from callgate import config
from callgate.app.runtime import Runtime
from callgate.app.serve import NEEDS_RESTART, CurrentSite
from callgate.errors import ConfigError, Tampered
from support.auditing import outcome
from support.table import rows


@pytest.fixture(autouse=True)
def logs_as_they_were():
    root, own = logging.getLogger(), logging.getLogger("callgate")
    before = root.level, own.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    own.setLevel(before[1])
    root.handlers[:] = before[2]


def parsed(tmp_path, text=""):
    tables = f'[store]\nurl = "sqlite:///{tmp_path / "s.db"}"\nSTORE\n[servers.one]\ncommand = ["true"]\n'
    tables += '[servers.two]\nurl = "http://127.0.0.1:9/mcp"\n'
    store = "\n".join(line.removeprefix("store.") for line in text.splitlines() if line.startswith("store."))
    rest = "\n".join(line for line in text.splitlines() if not line.startswith("store."))
    return config.parse(f"{rest}\n{tables.replace('STORE', store)}")


async def test_a_limit_that_no_upstream_uses_leaves_the_upstreams_alone(tmp_path):
    async with Runtime.open(parsed(tmp_path)) as runtime:
        before = runtime.site(runtime.config)
        after = runtime.site(parsed(tmp_path, "limits.batch = 3\nlimits.in_flight = 9"), before)
        assert after.upstreams == before.upstreams
        assert (after.dispatcher.limits.batch, after.in_flight) == (3, 9)
        fewer = runtime.site(parsed(tmp_path, "limits.processes = 2"), after)
        assert fewer.upstreams["one"] is not after.upstreams["one"]
        assert fewer.upstreams["two"] is after.upstreams["two"]
        smaller = runtime.site(parsed(tmp_path, 'limits.processes = 2\nlimits.message_bytes = "1 MiB"'), fewer)
        assert not set(smaller.upstreams.values()) & set(fewer.upstreams.values())


async def test_a_configuration_that_cannot_be_taken_changes_nothing(tmp_path):
    async with Runtime.open(parsed(tmp_path, "policy.block_all = true")) as runtime:
        site = runtime.site(runtime.config)
        broken = parsed(tmp_path, 'audit.redact = ["a..b"]\naudit.retention_days = 3')
        with pytest.raises(ConfigError):
            runtime.site(broken, site)
        assert runtime.switch.engaged
        assert runtime.audit.retention_days == 180


async def test_retention_and_logging_follow_a_reload(tmp_path):
    async with Runtime.open(parsed(tmp_path)) as runtime:
        current = CurrentSite(runtime)
        current.reload(parsed(tmp_path, 'audit.retention_days = 3\nlogging.level = "debug"'))
        assert runtime.audit.retention_days == 3
        assert logging.getLogger("callgate").level == logging.DEBUG
        await current.close()


CHANGES = {
    "gateway.listen": 'gateway.listen = "127.0.0.1:1"',
    "gateway.shutdown_seconds": "gateway.shutdown_seconds = 1",
    "limits.connections": "limits.connections = 7",
    "limits.header_seconds": "limits.header_seconds = 7",
    "store.busy_seconds": "store.busy_seconds = 7",
    "store.durability": 'store.durability = "normal"',
    "store.keys_dir": 'store.keys_dir = "/k"',
    "store.url": 'store.url = "sqlite:////other.db"',
    "telemetry.otlp_endpoint": 'telemetry.otlp_endpoint = "http://127.0.0.1:4318"',
}


def test_every_key_that_needs_a_restart_is_tried():
    assert set(CHANGES) == set(NEEDS_RESTART)


def test_the_guide_names_every_key_that_needs_a_restart():
    assert {f"store.{name}" for name in config.StoreSection.__struct_fields__} <= set(NEEDS_RESTART)
    guide = (Path(__file__).parents[3] / "docs" / "how-to" / "run-a-gateway.md").read_text()
    told = guide.partition("## While it runs")[2]
    assert [key for key in NEEDS_RESTART if f"`{key}`" not in told and not key.startswith("store.")] == []
    assert "`[store]`" in told


@rows("key", CHANGES)
async def test_what_needs_a_restart_is_said_until_it_is_put_back(tmp_path, caplog, key):
    def told():
        found = [record.fields["key"] for record in caplog.records if record.message == "restart needed"]
        caplog.clear()
        return found

    async with Runtime.open(parsed(tmp_path)) as runtime:
        current = CurrentSite(runtime)
        changed = parsed(tmp_path, CHANGES[key]) if key != "store.url" else config.parse(CHANGES[key])
        with caplog.at_level(logging.INFO):
            current.reload(changed)
            assert told() == [key]
            current.reload(parsed(tmp_path, "limits.batch = 3"))
            assert told() == []
        await current.close()


async def test_tampering_shows(tmp_path):
    async with Runtime.open(parsed(tmp_path)) as runtime:
        assert runtime.ready() is None
        assert b"callgate_audit_tampered 0.0" in runtime.render_metrics(0, {})
        runtime.audit.noticed(Tampered("record 3 was changed"))
        assert "audit verify" in runtime.ready()
        assert b"callgate_audit_tampered 1.0" in runtime.render_metrics(0, {})
        assert runtime.switch.refusal() is None


async def test_an_outcome_that_is_lost_is_counted(tmp_path):
    async with Runtime.open(parsed(tmp_path)) as runtime:
        assert b"callgate_audit_lost_total 0.0" in runtime.render_metrics(0, {})
        await runtime.store.close()
        runtime.audit.completed(outcome(1))
        for _ in range(2):
            assert b"callgate_audit_lost_total 1.0" in runtime.render_metrics(0, {})
