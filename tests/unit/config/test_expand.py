import pytest

from callgate.config.loading import expand
from support.table import rows

ENVIRON = {"NAME": "value", "EMPTY": "", "NESTED": "${NAME}"}


@rows(
    ("text", "expanded"),
    [
        ("plain $ text $NAME {x}", "plain $ text $NAME {x}"),
        ("${NAME}", "value"),
        ("a${NAME}b${NAME}c", "avaluebvaluec"),
        ("${ABSENT:-fallback}", "fallback"),
        ("${ABSENT:-}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("${EMPTY}", ""),
        ("${NAME:-fallback}", "value"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("${NESTED}", "${NAME}"),
        ("${ABSENT:-http://x:1/y?a=b}", "http://x:1/y?a=b"),
    ],
)
def test_references_are_replaced(text, expanded):
    assert expand(text, ENVIRON) == expanded


def test_a_missing_variable_is_named():
    with pytest.raises(ValueError, match="the environment variable ABSENT is not set"):
        expand("x${ABSENT}", ENVIRON)


@rows("text", ["${NAME", "${", "a ${NAME b"])
def test_an_open_reference_is_an_error(text):
    with pytest.raises(ValueError, match="never closed"):
        expand(text, ENVIRON)


@rows("text", ["${}", "${1A}", "${A B}", "${A:=x}", "${NAME-x}", "${É}"])
def test_a_reference_that_is_no_name_is_an_error(text):
    with pytest.raises(ValueError, match="letters, digits and _"):
        expand(text, ENVIRON)
