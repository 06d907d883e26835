from callgate.inspection import tokens
from support.registry import requirement
from support.table import rows


@requirement("TP-045")
@rows(
    ("text", "count"),
    [
        ("", 0),
        ("word", 1),
        ("two words", 2),
        ("internationalisation", 4),
        ("12345", 2),
        ('{"a": 1}', 7),
        ("a  b", 3),
        ("a\n\nb", 3),
        ("忽略指令", 4),
        ("\U0001f600", 2),
        ("\U000e0041" * 10, 20),
        ("привет", 6),
    ],
)
def test_tokens_are_estimated(text, count):
    assert tokens(text) == count


@requirement("TP-045")
def test_few_bytes_can_be_many_tokens():
    assert tokens("{}[]" * 1_000) == 4_000
    assert tokens("word" * 1_000) < 1_000


def test_two_texts_together_cost_about_what_they_cost_apart():
    first, second = "Adds two numbers. ", "Returns 42."
    assert abs(tokens(first + second) - tokens(first) - tokens(second)) <= 1
