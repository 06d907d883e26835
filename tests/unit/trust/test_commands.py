"""What a command or a statement does, as far as that is known."""

import pytest

from callgate.trust.commands import known
from support.table import rows

READS, CHANGES = {"reads_own"}, {"changes"}


def effects(**arguments):
    found = known(arguments)
    return None if found is None else set(found.effects)


@rows(
    ("command", "effects_"),
    [
        ("git status --short", READS),
        ("git -C /srv/app log --oneline | head -5", READS),
        ("cat README.md 2>/dev/null | wc -l", READS),
        ("grep -rn 'a.b' src --include=*.py", READS),
        ("find . -name '*.py'", READS),
        ("sed -n '1,20p' a.py", READS),
        ("ls && pwd", READS),
        ("git branch -a", READS),
        ("kubectl get pods", READS),
        ("gh issue view 12", {"reads_others"}),
        ("git add -A && git commit -m 'Say why\n\nIt was wrong.'", CHANGES),
        ("git checkout -b feature", CHANGES),
        ("git -c user.name=Ada commit -m x", CHANGES),
        ("mkdir -p src/new", CHANGES),
        ("sed -i 's/a/b/g' notes.md", CHANGES),
        ("python3 -m pytest -q", CHANGES),
        ("PYTHONPATH=src pytest", CHANGES),
        ("npm run build", CHANGES),
        ("cat > notes.md", CHANGES | READS),
    ],
)
def test_a_command_that_is_understood_counts_as_what_it_does(command, effects_):
    assert effects(command=command) == effects_


@rows(
    ("query", "effects_"),
    [
        ("SELECT count(*) FROM orders WHERE day > '2026-01-01'", READS),
        ("WITH sold AS (SELECT sku FROM items) SELECT * FROM sold;", READS),
        ("INSERT INTO expenses (day, cents) VALUES ('2026-10-21', 2990)", CHANGES),
        ("CREATE TABLE todo (id INTEGER PRIMARY KEY, price DECIMAL(10, 2))", CHANGES),
        ("ALTER TABLE products ADD COLUMN level INTEGER", CHANGES),
    ],
)
def test_a_statement_that_is_understood_counts_as_what_it_does(query, effects_):
    assert effects(query=query) == effects_


@rows(
    ("query", "asks", "named"),
    [
        ("UPDATE products SET stock = 4 WHERE sku = 'FS-12'", "changes", {"products", "product", "FS-12"}),
        ("DELETE FROM orders WHERE id = 1048", "destroys", {"orders", "order", "1048"}),
        ("DROP TABLE scratch", "destroys", {"scratch"}),
    ],
)
def test_what_overwrites_or_deletes_needs_the_users_words(query, asks, named):
    found = known({"query": query})
    assert found is not None
    assert found.asks == {asks}
    assert found.needs == (frozenset(named),)


def test_a_command_in_words_needs_no_shell():
    assert effects(command="git", args=["status"]) == READS
    assert effects(command=["git", "commit", "-m", "a; rm -rf /"]) == CHANGES


@pytest.mark.parametrize("size", [5_000])
def test_what_is_longer_than_anybody_writes_is_not_read(size):
    assert effects(command="ls " + "a" * size) is None


def test_a_statement_is_known_beside_the_id_of_its_database():
    assert known({"project_id": "shop", "query": "SELECT 1"}) == known({"query": "SELECT 1"})
    assert known({"project_id": "shop", "command": "git status"}) is None
