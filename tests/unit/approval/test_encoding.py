import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.approval.action import from_base64url, to_base64url, to_iso
from support.registry import requirement
from support.table import rows


@given(st.binary(max_size=200))
def test_base64url_is_that_of_the_standard_library_without_padding(data):
    padded = base64.urlsafe_b64encode(data).decode()
    assert to_base64url(data) == padded.rstrip("=")
    assert from_base64url(to_base64url(data)) == from_base64url(padded) == data


@rows(
    "text",
    ["A", "AAAAA", "A+AA", "A/AA", "A A", "A\n", "AA=A", "=", "====", "AAA==", "AAAA=", "AAAA====", "ä", "\ud800"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not base64url"):
        from_base64url(text)


@given(st.text(alphabet="AZaz09-_+/= \n", max_size=12))
def test_what_is_taken_comes_back_as_it_was(text):
    try:
        data = from_base64url(text)
    except ValueError:
        return
    bare = text.rstrip("=")
    # The last letter may carry bits that no byte needs.
    assert to_base64url(data)[:-1] == bare[:-1]
    assert len(to_base64url(data)) == len(bare)


@given(st.integers(0, 253_402_300_799_999))
@requirement("VA-051")
def test_times_are_iso_8601_in_utc_to_the_millisecond(at):
    read = datetime.fromisoformat(to_iso(at))
    assert read.utcoffset() == timedelta(0)
    assert read == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
