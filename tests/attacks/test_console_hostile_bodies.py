"""Bodies that are too large, no JSON, or of another shape than any page of ours sends."""

import asyncio

from support.table import rows

PATHS = [
    "/sign-in",
    "/sign-in/options",
    "/sign-out",
    "/enrol/look",
    "/enrol/begin",
    "/enrol/finish",
    "/recover",
    "/device",
    "/device/options",
    "/approve/{id}/options",
    "/approve/{id}/approve",
    "/approve/{id}/refuse",
    "/passkeys/{key}/rename",
    "/passkeys/{key}/revoke/options",
    "/passkeys/{key}/revoke",
]

NOT_JSON = [b"", b"{", b"\xff\xfe{}", b"\x00", b"{}{}", b"{'a':1}", b"[" * 60_000, b'{"a":' * 12_000, b"NaN"]
WRONG = [
    b"null",
    b"[]",
    b"1",
    b'"x"',
    b'{"unknown":1}',
    b'{"response":[]}',
    b'{"ticket":1}',
    b'{"note":{}}',
    b'{"name":null}',
]


def fill(path, asked, person):
    return path.format(id=asked.id, key=person.credential.id)


@rows("path", PATHS)
async def test_what_is_no_json_is_refused(console, path):
    person = await console.sign_in()
    asked = await console.ask()
    for body in NOT_JSON:
        answer = await console.post(fill(path, asked, person), body, person)
        assert (answer.status, answer.reason in ("parse_error", "invalid_params")) == (400, True), body[:20]
    for body in WRONG:
        answer = await console.post(fill(path, asked, person), body, person)
        assert (answer.status, answer.reason) == (400, "invalid_params"), body
    assert (await console.stored(asked)).state == "waiting"
    assert (await console.get("/waiting", person)).status == 200


@rows("path", PATHS)
async def test_a_body_is_at_most_64_kib(console, path):
    person = await console.sign_in()
    asked = await console.ask()
    answer = await console.post(fill(path, asked, person), b" " * 65_537, person)
    assert (answer.status, answer.reason) == (413, "message_too_large")


async def test_a_body_that_does_not_say_how_long_it_is(console):
    person = await console.sign_in()

    async def endless():
        for _ in range(200):
            yield b" " * 1024

    headers = {"origin": console.origin, "content-type": "application/json", "x-callgate-csrf": person.csrf}
    async with console.http.post(
        f"{console.origin}/sign-in/options", data=endless(), headers=headers, cookies=person.cookie
    ) as answer:
        assert answer.status == 413


@rows("length", ["-1", "1e3", "x", "+2", "99999999999999999999999"])
async def test_a_length_that_is_none(console, length):
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    lines = ["POST /sign-in/options HTTP/1.1", f"host: localhost:{console.port}", f"origin: {console.origin}"]
    lines += ["content-type: application/json", f"content-length: {length}", "connection: close", "", "{}"]
    writer.write("\r\n".join(lines).encode())
    writer.write_eof()
    async with asyncio.timeout(10):
        got = await reader.read()
    writer.close()
    assert got.split(b" ", 2)[1] in (b"400", b"413")


@rows(
    "response",
    [
        {},
        {"id": 1},
        {"id": "x", "rawId": "x", "type": "public-key", "response": None},
        {
            "id": "\x00",
            "rawId": "\ud83d\ude00",
            "type": "public-key",
            "response": {"clientDataJSON": "!!", "signature": ""},
        },
        {"id": "A" * 60_000},
        {
            "id": "AAAA",
            "rawId": "AAAA",
            "type": "public-key",
            "response": {"clientDataJSON": "e30", "authenticatorData": "AA", "signature": "AA"},
        },
    ],
    ids=range(6),
)
async def test_answers_of_an_authenticator_of_no_known_shape(console, response):
    person = await console.sign_in()
    asked = await console.ask()
    issued = (await console.post(f"/approve/{asked.id}/options", {}, person)).json
    for path, name in (
        ("/sign-in", "challengeId"),
        ("/device", "challengeId"),
        (f"/approve/{asked.id}/approve", "challengeId"),
    ):
        answer = await console.post(path, {name: issued["challengeId"], "response": response}, person)
        assert answer.status in (401, 403), answer.text
    answer = await console.post("/enrol/finish", {"response": response}, person)
    assert answer.status == 403
    assert answer.reason in ("verification_failed", "no_pending_enrollment")
    assert (await console.stored(asked)).state == "waiting"


@rows("note", ["x" * 501, "\ud800"])
async def test_a_note_is_bounded_text(console, note):
    person = await console.sign_in()
    asked = await console.ask()
    answer = await console.post(f"/approve/{asked.id}/refuse", {"note": note}, person)
    assert answer.status == 400
    assert (await console.stored(asked)).state == "waiting"


IDENTS = ["%00", "%F0%9F%98%80", "x" * 5000, "%2e%2e%2f", "a%0d%0ab", "%ff", "%ED%A0%80"]
NAMES = ["\x00", "a\x00b", "\ud83d\ude00", "x" * 256, "'; drop table approval_user; --", "\u202e"]


async def test_strange_names_in_the_path(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    for ident in IDENTS:
        for path in (f"/approve/{ident}", f"/approve/{ident}/state"):
            assert (await console.get(path, person)).status == 404, ident
        for path in (f"/approve/{ident}/refuse", f"/passkeys/{ident}/revoke/options"):
            assert (await console.post(path, {}, person)).status == 404, ident
        body = {"challengeId": "x", "response": {}}
        assert (await console.post(f"/passkeys/{ident}/revoke", body, person)).status == 404, ident


async def test_strange_names_in_the_body(console_of_each_store):
    console = console_of_each_store
    person = await console.sign_in()
    asked = await console.ask()
    signed = await console.signed(asked, person)
    for name in NAMES:
        for path in (f"/approve/{asked.id}/approve", "/device", "/sign-in"):
            answer = await console.post(path, signed | {"challengeId": name}, person)
            assert answer.status in (401, 403), (path, name, answer.text)
        response = signed["response"] | {"id": name, "rawId": name}
        answer = await console.post(f"/approve/{asked.id}/approve", signed | {"response": response}, person)
        assert answer.status == 403, (name, answer.text)
        assert (await console.post("/sign-in/options", {"user": name})).status == 200, name
        assert (await console.post("/enrol/look", {"ticket": name})).reason == "enrolment_not_authorised", name
        assert (await console.post("/recover", {"user": name, "code": name})).reason == "enrolment_not_authorised", name
    answer = await console.post(f"/approve/{asked.id}/refuse", {"note": "a\x00b"}, person)
    assert answer.status == 200
    assert "\x00" not in (await console.stored(asked)).note
    answer = await console.post(f"/passkeys/{person.credential.id}/rename", {"name": "a\x00b"}, person)
    assert answer.status == 200


@rows("cookie", ["", "x", "x" * 600, "x" * 3000, "\u00e9", '"', "a b", "%00"])
async def test_cookies_that_are_none(console, cookie):
    headers = {"cookie": f"{console.cookie}={cookie}", "accept": "text/html"}
    async with console.http.get(f"{console.origin}/", headers=headers) as answer:
        assert answer.status == 200
        assert "Sign in with passkey" in await answer.text()
