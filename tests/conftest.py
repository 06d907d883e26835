"""What every test shares: directories of its own, and no clock in property tests."""

import os

import pytest
from hypothesis import settings

settings.register_profile("callgate", deadline=None)
settings.load_profile("callgate")


@pytest.fixture(scope="session", autouse=True)
def _own_directories(tmp_path_factory):
    """No test reads the user's configuration, writes the user's state or feels the user's environment."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("CALLGATE_", "OTEL_"))]:
            patch.delenv(name)
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
        yield
