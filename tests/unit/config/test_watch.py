import asyncio
import logging
import os
from pathlib import Path

import pytest

from callgate import config
from callgate.config import watch as watching
from callgate.config.watch import ConfigWatch


class Taker:
    """Notes each configuration it is given; `next()` waits for one."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def __call__(self, loaded):
        await self.queue.put(loaded)

    async def next(self):
        async with asyncio.timeout(60):
            return await self.queue.get()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "callgate.toml"
    path.write_text("limits.batch = 1")
    return path


def watch(file, taker):
    return ConfigWatch(file, taker, current=config.load(file), interval=0.02)


def replace(file: Path, text: str) -> None:
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


async def looked_at(running, file):
    async with asyncio.timeout(60):
        while running._seen[1] != file.stat().st_ino:
            await asyncio.sleep(0.01)


async def told(caplog, event, count=1):
    async with asyncio.timeout(60):
        while len(found := [record for record in caplog.records if record.getMessage().startswith(event)]) < count:
            await asyncio.sleep(0.01)
    return found


async def test_a_change_in_place_is_taken(file):
    taker = Taker()
    async with watch(file, taker):
        file.write_text("limits.batch = 2")
        assert (await taker.next()).limits.batch == 2
        file.write_text("limits.batch = 3")
        assert (await taker.next()).limits.batch == 3


async def test_a_file_replaced_as_a_whole_is_taken_even_with_the_old_times(file):
    taker = Taker()
    status = file.stat()
    async with watch(file, taker):
        other = file.with_suffix(".new")
        other.write_text("limits.batch = 2")
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(file)
        assert (await taker.next()).limits.batch == 2


async def test_a_link_turned_to_another_file_is_taken(file, tmp_path):
    taker = Taker()
    other, link = tmp_path / "other.toml", tmp_path / "link.toml"
    other.write_text("limits.batch = 7")
    link.symlink_to(file)
    async with watch(link, taker):
        turned = tmp_path / "turned.toml"
        turned.symlink_to(other)
        turned.replace(link)
        assert (await taker.next()).limits.batch == 7


async def test_an_invalid_file_keeps_the_old_one_and_complains_once(file, caplog):
    taker = Taker()
    caplog.set_level(logging.INFO, "callgate")
    async with watch(file, taker) as running:
        replace(file, "limits.bach = 2")
        (record,) = await told(caplog, "configuration not reloaded")
        assert record.fields["problems"] == [f'{file}:1: limits.bach: unknown key; did you mean "batch"?']
        replace(file, "limits.bach = 2")
        await looked_at(running, file)
        replace(file, "limits.batch = 4")
        assert (await taker.next()).limits.batch == 4
        assert len(await told(caplog, "configuration not reloaded")) == 1
        assert taker.queue.empty()


async def test_a_file_that_is_gone_for_a_while_keeps_the_old_one(file, caplog):
    taker = Taker()
    caplog.set_level(logging.INFO, "callgate")
    async with watch(file, taker):
        file.unlink()
        await told(caplog, "configuration not reloaded")
        assert taker.queue.empty()
        file.write_text("limits.batch = 5")
        assert (await taker.next()).limits.batch == 5


async def test_a_file_half_written_is_not_taken(file, monkeypatch):
    taker = Taker()
    parts = [f"[servers.s{number}]\ncommand = ['x']\n" for number in range(6)]

    class Writing:
        """Whenever the watch waits for the file to settle, another part is written."""

        def __getattr__(self, name):
            return getattr(asyncio, name)

        async def sleep(self, _seconds):
            if parts:
                with file.open("a") as half:
                    half.write(parts.pop(0))
            await asyncio.sleep(0)

    monkeypatch.setattr(watching, "asyncio", Writing())
    async with watch(file, taker):
        file.write_text(parts.pop(0))
        assert len((await taker.next()).servers) == 6
        assert taker.queue.empty()


async def test_a_rewrite_that_says_the_same_is_no_change(file):
    taker = Taker()
    async with watch(file, taker) as running:
        replace(file, "limits.batch = 1 # the same")
        await looked_at(running, file)
        replace(file, "limits.batch = 6")
        assert (await taker.next()).limits.batch == 6
        assert taker.queue.empty()


async def test_a_trigger_reads_an_unchanged_file_again(file):
    taker = Taker()
    environ = {}
    file.write_text('telemetry.otlp_endpoint = "${WHERE:-http://a}"')
    running = ConfigWatch(file, taker, current=config.load(file, environ=environ), interval=600, environ=environ)
    async with running:
        environ["WHERE"] = "http://b"
        running.trigger()
        assert (await taker.next()).telemetry.otlp_endpoint == "http://b"


async def test_a_taker_that_fails_does_not_end_the_watch(file, caplog):
    taken = asyncio.Queue()

    def fail_first(loaded):
        taken.put_nowait(loaded.limits.batch)
        if loaded.limits.batch == 2:
            raise RuntimeError("no")

    async with watch(file, fail_first), asyncio.timeout(60):
        replace(file, "limits.batch = 2")
        assert await taken.get() == 2
        await told(caplog, "new configuration not taken")
        replace(file, "limits.batch = 3")
        assert await taken.get() == 3


async def test_leaving_ends_the_task(file):
    before = asyncio.all_tasks()
    async with watch(file, Taker()):
        assert asyncio.all_tasks() != before
    assert asyncio.all_tasks() == before


@pytest.fixture
def rules(file, tmp_path):
    """The rules that the configuration names, in a file of their own."""
    path = tmp_path / "rules.toml"
    path.write_text("# the first")
    file.write_text('trust.policy = "rules.toml"')
    return path


async def test_another_text_of_the_rules_is_taken_though_the_configuration_says_the_same(file, rules):
    taker = Taker()
    async with watch(file, taker):
        replace(rules, "# the second")
        assert (await taker.next()).trust.policy == rules
        rules.write_text("# the third, in place")
        assert (await taker.next()).trust.policy == rules
        # Untouched, it is not read again: the next to come is the next change.
        file.write_text('trust.policy = "rules.toml"\nlimits.batch = 9')
        assert (await taker.next()).limits.batch == 9
        assert taker.queue.empty()


async def test_rules_that_could_not_be_taken_are_looked_at_again_when_they_change(file, rules, caplog):
    taken = Taker()

    async def taker(loaded):
        if "broken" in rules.read_text():
            raise ValueError("not taken")
        await taken(loaded)

    async with watch(file, taker):
        rules.write_text("# broken")
        await told(caplog, "new configuration not taken")
        rules.write_text("# whole again")
        assert (await taken.next()).trust.policy == rules


async def test_rules_that_change_while_the_configuration_is_broken_are_taken_with_it(file, rules, caplog):
    whole, taker = file.read_text(), Taker()
    async with watch(file, taker) as running:
        file.write_text("trust.policy = ")
        await told(caplog, "configuration not reloaded")
        rules.write_text("# the second")
        async with asyncio.timeout(60):
            while running._named != watching._named_files(running._read):
                await asyncio.sleep(0.01)
        assert taker.queue.empty()
        file.write_text(whole)
        assert (await taker.next()).trust.policy == rules
