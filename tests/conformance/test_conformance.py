"""The official conformance suite passes through the gateway as shipped what it passes directly, but for known differences."""

import pytest

from conformance.compare import COMBINATIONS, DIRECT, compare, known
from conformance.run import EXPECTED_PASSES

QUICK = ("http-http",)


def assert_as_known(combinations):
    compared = compare(combinations)
    for version, passes in EXPECTED_PASSES.items():
        direct = compared.totals[DIRECT, version]
        assert direct.problems == ()
        assert direct.passed == passes
    expected = {one for one in known() if one.combination in combinations}
    assert sorted(compared.differences - expected) == [], "not in differences.toml"
    assert sorted(expected - compared.differences) == [], "no longer true"


@pytest.mark.timeout(900)
def test_from_http_to_http():
    assert_as_known(QUICK)


@pytest.mark.verify
@pytest.mark.timeout(1200)
def test_every_other_combination_of_transports():
    assert_as_known([one for one in COMBINATIONS if one not in QUICK])


def test_every_difference_is_of_a_run_that_is_made():
    assert {one.combination for one in known()} <= COMBINATIONS.keys()
    assert {one.version for one in known()} <= EXPECTED_PASSES.keys()
    assert all(known().values())
