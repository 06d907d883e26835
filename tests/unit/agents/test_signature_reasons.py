"""Every reason why a signature is refused, with its status; and each option with its default."""

import base64
import logging

import pytest

from callgate.agents.keys import RSA_PSS_256, PublicKey
from callgate.agents.verifying import Verifier, VerifySettings, content_digest
from callgate.errors import ConfigError, Reason
from callgate.store.memory import MemoryAgents
from support.registry import requirement
from support.signed_requests import (
    AGENT,
    BODY,
    NOW,
    Found,
    adding,
    change,
    private,
    public,
    refusal,
    replacing,
    request,
    sign,
    verify,
)
from support.table import rows

DIGESTED = '"@authority" "content-digest"'


def digested(**changed):
    return adding(request(**changed), {"content-digest": content_digest(changed.get("body", BODY))})


@requirement("WB-001", "WB-013", "WB-056", "WB-094")
async def test_a_good_signature_says_who_sent_the_request():
    got = await verify(sign(request()))
    assert (got.label, got.keyid, got.algorithm, got.directory) == ("sig1", public().thumbprint, "ed25519", AGENT)
    assert (got.created, got.expires, got.nonce) == (NOW, NOW + 60, "n-1")
    assert got.covered == ('"@method"', '"@authority"', '"@path"')
    assert got.digest_verified is False
    assert got.others == {}


@rows("missing", ["signature", "signature-input", None])
@requirement("WB-057")
async def test_missing_signature_headers(missing):
    signed = sign(request())
    kept = tuple(pair for pair in signed.headers if missing is not None and pair[0] != missing.encode())
    assert await refusal(change(signed, headers=kept)) == (401, "missing_signature_headers")


@rows(
    "text",
    [
        "",
        "garbage(",
        "sig1",
        "sig1=1",
        "sig1=?1;tag=web",
        'sig1="@authority"',
        'sig1=("@authority"',
        'sig1=(@authority);tag="web-bot-auth"',
        'sig1=("@authority" 1);tag="web-bot-auth"',
        'sig1=("@authority" "@authority");tag="web-bot-auth"',
        'sig1=("x";key="a";sf "x";sf;key="a");tag="web-bot-auth"',
        'sig1=("X-Upper");tag="web-bot-auth"',
        'sig1=("");tag="web-bot-auth"',
        'sig1=("a b");tag="web-bot-auth"',
        'sig1=("@authority");tag="web-bot-auth";tag="web-bot-auth"',
        'SIG1=("@authority");tag="web-bot-auth"',
        'sig1=("@authority");tag=web-bot-auth',
        'sig1=("@authority");tag="web-bot-auth",',
        ", ".join(f'sig{at}=("@authority");tag="web-bot-auth"' for at in range(9)),
        "sig1=(" + " ".join(f'"x-{at}"' for at in range(49)) + ');tag="web-bot-auth"',
        "sig1=(" + '"@authority"' * 2 + ")",
        'sig1=("@authority");tag="web-bot-auth";x="' + "y" * 17_000 + '"',
    ],
)
@requirement("WB-058")
async def test_signature_input_malformed(text):
    signed = replacing(sign(request()), "signature-input", lambda _: text.encode())
    assert await refusal(signed) == (400, "signature_input_malformed")


@rows("value", ["=1", "=token", "=:AAAA:", '=""', f'="{"k" * 513}"', ""])
@rows("name", ["keyid", "nonce", "alg"])
async def test_a_parameter_of_another_type_is_malformed(name, value):
    signed = sign(request(), **{name: value or "=?0"})
    assert await refusal(signed) == (400, "signature_input_malformed")


@rows("name", ["keyid", "created", "expires", "tag", "nonce"])
@requirement("WB-059")
async def test_missing_required_param(name):
    assert await refusal(sign(request(), **{name: None})) == (400, "missing_required_param")


@requirement("WB-059")
async def test_a_nonce_is_needed_only_where_nonces_are_remembered():
    signed = sign(request(), nonce=None)
    assert (await verify(signed, nonce="optional")).nonce is None
    without = Verifier(VerifySettings(), Found(public()), None, lambda: NOW)
    assert (await without.verify(signed)).nonce is None


@requirement("WB-060")
async def test_wrong_tag():
    assert await refusal(sign(request(), tag="other")) == (401, "wrong_tag")
    assert await refusal(sign(request(), tag="Web-Bot-Auth")) == (401, "wrong_tag")


@rows("named", ["hmac-sha256", "rsa-v1_5-sha256", "ecdsa-p384-sha384", "none", "ED25519"])
@requirement("WB-061")
async def test_unsupported_alg(named):
    found = Found(public())
    assert await refusal(sign(request(), alg=named), lookup=found) == (400, "unsupported_alg")
    assert found.asked == []


@rows("value", ["=1.5", '="1790000000"', "=@1790000000", "=?1", "=now", "=:AAAA:", ""])
@rows("name", ["created", "expires"])
@requirement("WB-062")
async def test_timestamp_not_integer(name, value):
    signed = sign(request(), **{name: value or "=1790000000.0"})
    assert await refusal(signed) == (400, "timestamp_not_integer")


@requirement("WB-016", "WB-051", "WB-063")
async def test_window_too_large():
    signed = sign(request(), expires=NOW + 481)
    assert await refusal(signed) == (401, "window_too_large")
    assert (await verify(signed, max_window=600)).expires == NOW + 481
    for at in (NOW, NOW + 480):
        assert await verify(sign(request(), expires=NOW + 480), now=at)
    assert VerifySettings().max_window == 480


@rows("expires", [NOW, NOW - 1, 0, -1])
@requirement("WB-063")
async def test_a_signature_that_expires_before_it_was_made_is_expired(expires):
    assert await refusal(sign(request(), expires=expires)) == (401, "signature_expired")


@requirement("WB-016", "WB-064")
async def test_created_in_future():
    signed = sign(request())
    assert await refusal(signed, now=NOW - 60) == (401, "created_in_future")
    assert await refusal(signed, now=NOW - 6) == (401, "created_in_future")
    assert await refusal(signed, now=NOW - 1, skew=0) == (401, "created_in_future")
    assert await verify(signed, now=NOW - 5)
    assert await verify(signed, now=NOW, skew=0)


@requirement("WB-016", "WB-054", "WB-065")
async def test_signature_expired():
    signed = sign(request())
    assert await verify(signed, now=NOW + 60)
    assert await refusal(signed, now=NOW + 60.001) == (401, "signature_expired")
    assert await refusal(signed, now=NOW + 61) == (401, "signature_expired")


@requirement("WB-066", "WB-087")
async def test_nonce_replay():
    shelf = MemoryAgents()
    signed = sign(request(), expires=NOW + 480)
    assert await verify(signed, nonces=shelf)
    for later in (0, 1, 240, 479, 480):
        assert await refusal(signed, nonces=shelf, now=NOW + later) == (401, "nonce_replay")
    # Another key's nonce is another nonce.
    assert await verify(sign(request(), which=1), keys=[public(which=1)], nonces=shelf)


@requirement("WB-087")
async def test_a_nonce_is_remembered_for_as_long_as_a_longer_window_lasts():
    shelf = MemoryAgents()
    signed = sign(request(), expires=NOW + 7200)
    assert await verify(signed, nonces=shelf, max_window=7200)
    await shelf.prune((NOW + 7199) * 1000)
    assert await refusal(signed, nonces=shelf, now=NOW + 7200, max_window=7200) == (401, "nonce_replay")


@requirement("WB-067")
async def test_unknown_keyid():
    assert await refusal(sign(request(), keyid="A" * 43)) == (401, "unknown_keyid")
    assert await refusal(sign(request(), which=1)) == (401, "unknown_keyid")


@requirement("WB-005")
async def test_a_kid_is_no_keyid_unless_that_is_switched_on():
    named = [public(kid="old-name")]
    signed = sign(request(), keyid="old-name")
    assert await refusal(signed, keys=named) == (401, "unknown_keyid")
    got = await verify(signed, keys=named, kid_fallback=True)
    assert got.keyid == public().thumbprint
    assert await verify(signed, keys=named, profile="legacy")
    assert await refusal(signed, keys=[public()], kid_fallback=True) == (401, "unknown_keyid")


async def test_a_lookup_that_finds_another_key_is_not_believed():
    class Careless(Found):
        async def __call__(self, keyid, directory):
            return self.keys[0]

    signed = sign(request(), keyid=public(which=1).thumbprint)
    assert await refusal(signed, lookup=Careless(public())) == (401, "unknown_keyid")


@rows(("members", "now"), [({"nbf": NOW + 1}, NOW), ({"exp": NOW - 1}, NOW), ({"nbf": NOW, "exp": NOW + 5}, NOW + 6)])
async def test_a_key_outside_of_its_own_life_is_not_known(members, now):
    assert await refusal(sign(request()), keys=[public(**members)], now=now) == (401, "unknown_keyid")


@rows(
    "covered",
    [
        '"@foo"',
        '"@status"',
        '"@signature-params"',
        '"@method";req',
        '"@query-param"',
        '"@query-param";name="absent"',
        '"x-absent"',
        '"content-type";tr',
        '"content-type";req',
        '"content-type";key="a"',
        '"content-type";unknown',
        '"content-type";sf;bs',
        '"host";bs=1',
        '"@path";sf',
        '"x-no-known-shape";sf',
    ],
)
@requirement("WB-068")
async def test_unsupported_covered_field(covered):
    signed = adding(
        sign(adding(request(), {"x-no-known-shape": "a"}), '"@authority"'),
        {},
    )
    signed = replacing(
        signed, "signature-input", lambda text: text.replace(b'"@authority"', f'"@authority" {covered}'.encode())
    )
    found = Found(public())
    assert await refusal(signed, lookup=found) == (400, "unsupported_covered_field")
    assert found.asked == []


@rows("covered", ["", '"@path"', '"@method" "@path" "@query"', '"host"', '"@request-target" "@scheme"'])
@requirement("WB-069")
async def test_missing_required_covered_field(covered):
    assert await refusal(sign(request(), covered)) == (400, "missing_required_covered_field")
    assert await verify(sign(request(), '"@target-uri"'))


@requirement("WB-010")
async def test_signature_agent_has_to_be_covered():
    found = Found(public())
    for header in (f'sig1="{AGENT}"', f'"{AGENT}"'):
        signed = sign(adding(request(), {"signature-agent": header}), '"@authority"')
        assert await refusal(signed, lookup=found) == (400, "missing_required_covered_field")
    assert found.asked == []


@rows("value", ["sig1=1", "sig1=token", "sig1", "a=(", "https://a.example", 'sig1="a", sig1="b"', ""])
async def test_signature_agent_that_cannot_be_read(value):
    signed = sign(adding(request(), {"signature-agent": value}), '"@authority" "signature-agent"')
    assert await refusal(signed) == (400, "signature_input_malformed")


async def test_only_directories_are_looked_up():
    header = {"signature-agent": 'sig1="https://a.example/card";type=cimd'}
    signed = sign(adding(request(), header), '"@authority" "signature-agent";key="sig1"')
    found = Found(public())
    assert await refusal(signed, lookup=found) == (401, "unknown_keyid")
    assert found.asked == []


@rows(
    "text",
    ["sig2=:AAAA:", "sig1=1", 'sig1="AAAA"', "sig1=:A*:", "sig1=:A:", "sig1", "sig1=AAAA", "sig1=::", "", "sig1=:AAAA"],
)
@requirement("WB-070")
async def test_signature_malformed(text):
    signed = replacing(sign(request()), "signature", lambda _: text.encode())
    assert await refusal(signed) == (400, "signature_malformed")


@rows("kind", ["ed25519", "p256", "rsa"])
@requirement("WB-071")
async def test_signature_invalid(kind):
    def flip(text):
        raw = bytearray(base64.b64decode(text[6:-1]))
        raw[len(raw) // 2] ^= 1
        return b"sig1=:" + base64.b64encode(raw) + b":"

    signed = sign(request(), kind=kind)
    assert await verify(signed, keys=[public(kind)])
    assert await refusal(replacing(signed, "signature", flip), keys=[public(kind)]) == (401, "signature_invalid")


@rows("kind", ["ed25519", "p256", "rsa"])
@requirement("WB-013", "WB-014")
async def test_the_algorithm_need_not_be_named(kind):
    got = await verify(sign(request(), kind=kind, alg=None), keys=[public(kind)])
    assert got.algorithm == {"ed25519": "ed25519", "p256": "ecdsa-p256-sha256", "rsa": "rsa-pss-sha512"}[kind]


@requirement("WB-015")
async def test_rsa_pss_sha256_is_for_compatibility_and_off():
    keys = [public("rsa")]
    signed = sign(request(), kind="rsa", algorithm=RSA_PSS_256, alg=RSA_PSS_256)
    assert VerifySettings().rsa_pss_sha256 is False
    assert await refusal(signed, keys=keys) == (400, "unsupported_alg")
    assert (await verify(signed, keys=keys, rsa_pss_sha256=True)).algorithm == RSA_PSS_256
    assert await refusal(signed, keys=[public("rsa", alg="PS512")], rsa_pss_sha256=True) == (400, "unsupported_alg")


@requirement("WB-018", "WB-094")
async def test_a_covered_digest_binds_the_body():
    for algorithm in ("sha-256", "sha-512"):
        signed = sign(adding(request(), {"content-digest": content_digest(BODY, algorithm)}), DIGESTED)
        assert (await verify(signed)).digest_verified is True
    partly = sign(digested(), '"@authority" "content-digest";key="sha-256"')
    assert (await verify(partly)).digest_verified is True


@requirement("WB-052", "WB-094")
async def test_a_digest_is_optional_and_its_absence_reported():
    assert VerifySettings().content_digest == "optional"
    assert (await verify(sign(request()))).digest_verified is False
    assert (await verify(sign(digested(), '"@authority"'))).digest_verified is False


@requirement("WB-053", "WB-072", "WB-073")
async def test_content_digest_required():
    required = {"content_digest": "required"}
    assert await refusal(sign(request()), **required) == (400, "content_digest_required")
    assert await refusal(sign(digested(), '"@authority"'), **required) == (401, "content_digest_required")
    other = sign(adding(request(), {"content-digest": "md5=:AAAA:"}), '"@authority" "content-digest";key="md5"')
    assert await refusal(other, **required) == (401, "content_digest_required")
    assert (await verify(sign(digested(), DIGESTED), **required)).digest_verified is True


@rows("value", ["md5=:AAAA:", "garbage", "sha-256", "sha-256=1", 'sha-256="x"', "sha-256=:A*:", "", "="])
@requirement("WB-074")
async def test_content_digest_invalid(value):
    signed = sign(adding(request(), {"content-digest": value}), DIGESTED)
    assert await refusal(signed) == (401, "content_digest_invalid")


@requirement("WB-075", "WB-088")
async def test_content_digest_mismatch():
    signed = sign(digested(), DIGESTED)
    swapped = change(signed, body=BODY.replace(b"search", b"delete"))
    assert await refusal(swapped) == (401, "content_digest_mismatch")
    assert await refusal(swapped, content_digest="required") == (401, "content_digest_mismatch")


async def test_a_digest_that_is_sent_has_to_be_right_even_if_nothing_covers_it():
    signed = change(sign(digested(), '"@authority"'), body=b"another")
    assert await refusal(signed) == (401, "content_digest_mismatch")


@requirement("WB-055")
async def test_a_key_for_development():
    own = PublicKey.read({"kty": "OKP", "crv": "Ed25519", "x": public().jwk["x"], "kid": "dev"})
    assert VerifySettings().test_key is None
    for keyid in (own.thumbprint, "dev"):
        got = await verify(sign(request(), keyid=keyid), lookup=Found(public(which=1)), test_key=own)
        assert (got.directory, got.keyid) == ("test", own.thumbprint)
    with pytest.raises(ConfigError, match="production"):
        Verifier(VerifySettings(test_key=own, production=True), Found(), MemoryAgents())
    with pytest.raises(ConfigError, match="Ed25519"):
        Verifier(VerifySettings(test_key=public("p256")), Found(), MemoryAgents())


async def test_keys_printed_in_a_specification_are_refused():
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
    signed = sign(request(), keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U")
    assert await refusal(signed, keys=[PublicKey.read(jwk)]) == (401, "unknown_keyid")
    assert await refusal(signed, keys=[PublicKey.read(jwk)], allow_test_keys=True) == (401, "signature_invalid")
    with pytest.raises(ConfigError, match="production"):
        Verifier(VerifySettings(allow_test_keys=True, production=True), Found(), MemoryAgents())


@requirement("WB-050")
def test_no_store_for_nonces_is_a_warning_and_in_production_an_error(caplog):
    with caplog.at_level(logging.WARNING):
        Verifier(VerifySettings(), Found())
    assert "nonces" in caplog.text
    with pytest.raises(ConfigError, match="nonces"):
        Verifier(VerifySettings(production=True), Found())
    Verifier(VerifySettings(production=True), Found(), MemoryAgents())


@rows("wrong", [{"max_window": 0}, {"max_window": -1}, {"skew": -1}])
def test_settings_that_make_no_sense(wrong):
    with pytest.raises(ConfigError):
        Verifier(VerifySettings(**wrong), Found(), MemoryAgents())


@requirement("WB-054")
async def test_the_clock_is_the_systems_unless_given():
    late = Verifier(VerifySettings(), Found(public()), MemoryAgents())
    with pytest.raises(Exception) as caught:
        await late.verify(sign(request(), created=1, expires=2))
    assert caught.value.reason is Reason.SIGNATURE_EXPIRED


def test_private_keys_of_these_tests_differ():
    assert len({public(which=at).thumbprint for at in range(3)} | {public("p256").thumbprint}) == 4
    assert private() is private()
