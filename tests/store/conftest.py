import pytest

from support.postgres import database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The same tests on both databases."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state' / 'store.db'}"
    else:
        with database() as fresh:
            yield fresh
