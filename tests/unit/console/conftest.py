"""A running console for tests of single answers."""

import pytest

from support.console import live_console


@pytest.fixture
async def console():
    async with live_console() as running:
        yield running
