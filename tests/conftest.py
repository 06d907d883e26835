"""What every test shares: directories of its own, in memory, no clock in property tests, and how long a run took, by folder."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("callgate", deadline=None)
settings.load_profile("callgate")

# A run leaves about 800 MB; a small machine keeps that on its disk.
IN_MEMORY, ROOM = Path("/dev/shm"), 4 << 30


def pytest_configure():
    _heed_signals()
    _files_in_memory()
    # What is collected stays until the end: nothing of it is garbage, and no test has to look through it.
    gc.disable()
    # A test that runs out of stack on purpose may be what the collector interrupts: what it finds then cannot clean up.
    report = sys.unraisablehook
    sys.unraisablehook = lambda met: None if met.exc_type is RecursionError else report(met)


def pytest_collection_finish():
    gc.enable()
    gc.freeze()


def _heed_signals():
    """Started in the background or by nohup, a shell has some ignored, and every process of a test would be the same."""
    for name in ("SIGHUP", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _files_in_memory():
    """A store waits for the disk at every write, and no test is about a power cut."""
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(IN_MEMORY).free >= ROOM and not os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC:
        # In the environment for the workers and for every process that a test starts.
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None


def pytest_collection_modifyitems(config, items):
    """Of a table of ways that is in `make verify` as a whole, going one way proves nothing more."""
    twice = [item for item in items if _goes_one_way(item) and item.get_closest_marker("verify")]
    config.hook.pytest_deselected(items=twice)
    dropped = set(twice)
    items[:] = [item for item in items if item not in dropped]


def _goes_one_way(item):
    return hasattr(item, "callspec") and item.callspec.params.get("which_ways") == "one"


@pytest.fixture(scope="session", autouse=True)
def _own_directories(tmp_path_factory):
    """No test reads the user's configuration, writes the user's state or feels the user's environment."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("CALLGATE_", "OTEL_"))]:
            patch.delenv(name)
        # No page opens before whoever runs the tests.
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
            patch.delenv(name, raising=False)
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        yield


def pytest_terminal_summary(terminalreporter):
    """The seconds of each folder: set-up, test and end together, of all workers."""
    seconds, tests = Counter(), Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                parts = Path(report.nodeid.partition("::")[0]).parts
                folder = "/".join(parts[1 : 3 if parts[1] == "unit" else 2][: len(parts) - 2]) or "."
                seconds[folder] += report.duration
                tests[folder] += report.when == "call"
    if not seconds:
        return
    terminalreporter.section("seconds by folder")
    for folder, spent in seconds.most_common():
        terminalreporter.line(f"{spent:8.1f} s {tests[folder]:6} tests  {folder}")
    terminalreporter.line(f"{sum(seconds.values()):8.1f} s {sum(tests.values()):6} tests  in all")
