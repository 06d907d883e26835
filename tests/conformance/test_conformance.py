"""The official conformance suite passes through the gateway exactly what it passes directly, and that is all of it."""

import pytest

from conformance.compare import compare
from conformance.run import EXPECTED_PASSES
from support.table import rows


@pytest.fixture(scope="module")
def pairs():
    return {pair.version: pair for pair in compare()}


@pytest.mark.verify
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("conformance")
@rows("version", EXPECTED_PASSES)
def test_the_gateway_is_invisible(pairs, version):
    pair = pairs[version]
    assert pair.direct.problems == ()
    assert pair.through.problems == ()
    assert pair.direct.passed == pair.through.passed == EXPECTED_PASSES[version]
    assert pair.direct.failed == pair.through.failed == 0
    assert pair.through.scenarios == pair.direct.scenarios
