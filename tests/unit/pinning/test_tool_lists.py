"""What a gateway remembers of lines is bounded, and callers are told apart by what the server can tell them apart by."""

from callgate.pinning.listing import ToolListing
from callgate.pinning.toolsets import ToolList, ToolLists, caller, is_shared


def holding(size):
    line = ToolList()
    line.listing = ToolListing(())
    line.listing.arrays = (b"x" * size,)
    return line


def test_the_line_that_was_used_longest_ago_goes_first():
    lines = ToolLists(most=2)
    for name in ("a", "b"):
        lines.put(("web", name), ToolList())
    lines.at(("web", "a"))
    lines.put(("web", "c"), ToolList())
    assert [key[1] for key, _ in lines.items()] == ["a", "c"]


def test_lists_are_forgotten_when_they_are_too_large_together():
    lines = ToolLists(most_bytes=1000)
    for number in range(100):
        lines.put(("web", str(number)), holding(100))
        lines.grown(100)
    kept = [key[1] for key, _ in lines.items()]
    assert kept[-1] == "99"
    assert len(kept) <= 10


def test_a_list_that_lines_share_counts_once():
    lines, shared = ToolLists(most_bytes=1000), holding(400)
    for number in range(100):
        line = ToolList()
        line.listing = shared.listing
        lines.put(("web", str(number)), line)
    lines.grown(10_000)
    assert len(lines.items()) == 100


def test_the_line_in_use_stays_however_large_its_list_is():
    lines = ToolLists(most_bytes=10)
    lines.put(("web", "a"), holding(100))
    lines.grown(100)
    assert lines.get(("web", "a")) is not None


def test_callers_differ_by_what_the_server_is_given():
    plain = {b"accept": b"*/*", b"mcp-name": b"a", b"x-request-id": b"1", b"authorization": b"Bearer a"}
    assert caller(plain, credentials=False) == ""
    assert is_shared("")
    known = caller(plain, credentials=True)
    assert is_shared(known)
    assert known != caller({**plain, b"authorization": b"Bearer b"}, credentials=True)
    assert caller({**plain, b"x-mcp-toolsets": b"a"}, credentials=False) != caller(
        {**plain, b"x-mcp-toolsets": b"b"}, credentials=False
    )
    # No two pairs of name and value run into each other.
    assert caller({b"xa": b"b"}, credentials=False) != caller({b"x": b"ab"}, credentials=False)
