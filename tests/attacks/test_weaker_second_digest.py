"""Give two digests and hope that only the weaker, the easier or the uncovered one is checked."""

import base64
import hashlib

from callgate.agents.verifying import content_digest
from support.registry import requirement
from support.signed_requests import BODY, adding, change, refusal, request, sign, verify
from support.table import rows

EVIL = BODY.replace(b"search", b"delete_everything")
REQUIRED = {"content_digest": "required"}
WHOLE = '"@authority" "content-digest"'


def weak(body, name="md5"):
    made = {"md5": hashlib.md5, "sha": hashlib.sha1}[name]
    return f"{name}=:{base64.b64encode(made(body).digest()).decode()}:"


def both(first, second):
    return adding(request(), {"content-digest": f"{first}, {second}"})


@rows("covered", [WHOLE, '"@authority" "content-digest";key="sha-256"'])
@requirement("WB-018", "WB-075")
async def test_each_digest_that_we_know_has_to_fit(covered):
    for first, second in (("sha-256", "sha-512"), ("sha-512", "sha-256")):
        good = sign(both(content_digest(BODY, first), content_digest(BODY, second)), covered)
        assert (await verify(good, **REQUIRED)).digest_verified is True
        assert await refusal(change(good, body=EVIL), **REQUIRED) == (401, "content_digest_mismatch")
        # One for the body that was sent, one for another.
        for pair in (
            (content_digest(EVIL, first), content_digest(BODY, second)),
            (content_digest(BODY, first), content_digest(EVIL, second)),
        ):
            split = sign(both(*pair), covered)
            for body in (BODY, EVIL):
                assert await refusal(change(split, body=body), **REQUIRED) == (401, "content_digest_mismatch")


@rows("name", ["md5", "sha"])
@requirement("WB-074", "WB-075")
async def test_a_weak_digest_that_fits_does_not_help(name):
    signed = sign(both(weak(EVIL, name), content_digest(BODY)), WHOLE)
    assert await refusal(change(signed, body=EVIL), **REQUIRED) == (401, "content_digest_mismatch")
    # Nor does one that does not fit hurt: nobody here computes it.
    assert (await verify(signed, **REQUIRED)).digest_verified is True
    alone = sign(adding(request(), {"content-digest": weak(BODY, name)}), WHOLE)
    assert await refusal(alone, **REQUIRED) == (401, "content_digest_invalid")


@requirement("WB-073", "WB-088")
async def test_only_the_weak_one_is_covered():
    header = {"content-digest": f"{weak(BODY)}, {content_digest(BODY)}"}
    signed = sign(adding(request(), header), '"@authority" "content-digest";key="md5"')
    assert await refusal(signed, **REQUIRED) == (401, "content_digest_required")
    assert (await verify(signed)).digest_verified is False


@requirement("WB-075")
async def test_a_member_added_where_only_the_other_is_covered():
    signed = sign(
        adding(request(), {"content-digest": content_digest(BODY)}), '"@authority" "content-digest";key="sha-256"'
    )
    more = adding(signed, {"content-digest": content_digest(EVIL, "sha-512")})
    assert await refusal(more) == (401, "content_digest_mismatch")
    assert await refusal(change(more, body=EVIL)) == (401, "content_digest_mismatch")


@rows("value", ["1", '"text"', "?1", "token", "(a b)", ":" + "A" * 42 + "==:"])
@requirement("WB-074", "WB-075")
async def test_a_second_digest_that_is_none(value):
    signed = sign(both(content_digest(BODY), f"sha-512={value}"), WHOLE)
    status, reason = await refusal(signed, **REQUIRED)
    assert (status, reason.removeprefix("content_digest_")) in {(401, "invalid"), (401, "mismatch")}
