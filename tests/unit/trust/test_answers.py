"""What is remembered of names stays small, however many there are and however long."""

from callgate.trust.answers import remembered


def test_each_name_is_asked_for_once():
    asked = []

    @remembered
    def length(name):
        asked.append(name)
        return len(name)

    assert [length(name) for name in ("id", "path", "id")] == [2, 4, 2]
    assert asked == ["id", "path"]


def test_long_names_are_worked_out_each_time_and_not_kept():
    asked = []

    @remembered
    def length(name):
        asked.append(name)
        return len(name)

    assert length("x" * 1_000_000) == length("x" * 1_000_000) == 1_000_000
    assert len(asked) == 2
    assert not length.__self__


def test_many_names_do_not_fill_the_process():
    @remembered
    def length(name):
        return len(name)

    for number in range(20_000):
        length(f"name{number}")
    assert len(length.__self__) <= 4096
