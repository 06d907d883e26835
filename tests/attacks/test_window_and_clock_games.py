"""Make a signature last: created in the future, a window one second too long, times that are no whole seconds."""

import pytest

from callgate.agents.verifying import Verifier, VerifySettings
from callgate.errors import Reason, Refused
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.signed_requests import NOW, Found, public, refusal, replacing, request, sign, verify
from support.table import rows


@rows(
    ("created", "expires", "reason"),
    [
        (NOW, NOW + 481, "window_too_large"),
        (NOW - 481, NOW, "window_too_large"),
        (NOW + 6, NOW + 60, "created_in_future"),
        (NOW + 60, NOW + 120, "created_in_future"),
        (NOW + 100_000, NOW + 100_060, "created_in_future"),
        (NOW - 60, NOW - 1, "signature_expired"),
        (NOW, NOW, "signature_expired"),
        (NOW + 1, NOW, "signature_expired"),
        (NOW, -NOW, "signature_expired"),
        (-999_999_999_999_999, 999_999_999_999_999, "window_too_large"),
        (0, 999_999_999_999_999, "window_too_large"),
    ],
)
@requirement("WB-016", "WB-063", "WB-064", "WB-065")
async def test_out_of_its_time(created, expires, reason):
    found = Found(public())
    assert await refusal(sign(request(), created=created, expires=expires), lookup=found) == (401, reason)
    assert found.asked == []


@rows("offset", [-480, -240, 0, 5])
@requirement("WB-016")
async def test_at_the_edges_it_is_taken(offset):
    assert await verify(sign(request(), created=NOW + offset, expires=NOW + offset + 480))


@rows("text", ["1.0", "1e9", '"1790000000"', "?1", "@1790000000", "tok", ":AAAA:", "1790000000.5"])
@requirement("WB-062")
async def test_no_whole_seconds(text):
    for name in ("created", "expires"):
        signed = sign(request(), **{name: f"={text}"}) if text != "1e9" else sign(request())
        if text == "1e9":
            old = {"created": NOW, "expires": NOW + 60}[name]
            signed = replacing(signed, "signature-input", lambda raw, old=old: raw.replace(str(old).encode(), b"1e9"))
            assert await refusal(signed) == (400, "signature_input_malformed")
        else:
            assert await refusal(signed) == (400, "timestamp_not_integer")


async def test_more_digits_than_an_integer_has():
    signed = replacing(sign(request()), "signature-input", lambda raw: raw.replace(str(NOW).encode(), b"9" * 16))
    assert await refusal(signed) == (400, "signature_input_malformed")


@requirement("WB-065")
async def test_times_cannot_be_changed_after_signing():
    signed = sign(request())
    later = replacing(
        signed, "signature-input", lambda raw: raw.replace(str(NOW + 60).encode(), str(NOW + 300).encode())
    )
    assert await refusal(later, now=NOW + 100) == (401, "signature_invalid")


@requirement("WB-066", "WB-087")
async def test_a_request_is_not_forgotten_before_it_expires_on_any_clock():
    shelf = MemoryAgents()
    signed = sign(request(), expires=NOW + 480)
    assert await verify(signed, nonces=shelf)
    # One node has swept what is over, by its clock; another, a little behind, gets the request again.
    await shelf.prune((NOW + 485) * 1000)
    assert await refusal(signed, nonces=shelf, now=NOW + 480) == (401, "nonce_replay")


@requirement("WB-066")
async def test_a_directory_that_answers_slowly_buys_no_time():
    now = [float(NOW)]

    class Slow(Found):
        async def __call__(self, keyid, directory):
            now[0] += 600
            return await super().__call__(keyid, directory)

    shelf = MemoryAgents()
    verifier = Verifier(VerifySettings(), Slow(public()), shelf, lambda: now[0])
    with pytest.raises(Refused) as caught:
        await verifier.verify(sign(request()))
    assert caught.value.reason is Reason.SIGNATURE_EXPIRED
