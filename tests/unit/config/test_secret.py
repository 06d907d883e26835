import copy
import json
import pickle

import msgspec
import pytest

from callgate import config
from callgate.config.secret import Secret, mask_all, mask_command, mask_url
from support.table import rows

VALUE = "hunter2-hunter2"


def test_only_reveal_gives_the_value():
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r}", f"{secret}", repr([secret]), repr({"k": secret})]
    assert not [text for text in shown if VALUE in text]


def test_a_secret_is_compared_by_value_and_does_not_change():
    assert Secret(VALUE) == Secret(VALUE, "shown differently")
    assert Secret(VALUE) != Secret("another")
    assert Secret(VALUE) != VALUE
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    secret = Secret(VALUE)
    assert copy.deepcopy([secret])[0] is secret
    assert copy.copy(secret) is secret
    assert not Secret("")


def test_no_encoder_writes_a_secret():
    for encode in (json.dumps, msgspec.json.encode, pickle.dumps):
        with pytest.raises(TypeError):
            encode(Secret(VALUE))


@rows(
    ("written", "shown"),
    [
        ("literal", "***"),
        ("Bearer ${TOKEN}", "${TOKEN}"),
        ("${USER}:${PASS:-hunter2}", "${USER} ${PASS}"),
        ("$${NOT_A_REFERENCE}", "***"),
    ],
)
def test_a_masked_value_tells_at_most_the_names_of_its_variables(written, shown):
    assert mask_all([written]) == [shown]


@rows(
    ("written", "shown"),
    [
        ("https://tools.example/mcp", "https://tools.example/mcp"),
        ("https://user:hunter2@tools.example/mcp", "https://user:***@tools.example/mcp"),
        ("https://hunter2@tools.example/mcp", "https://***@tools.example/mcp"),
        ("https://tools.example/mcp?key=hunter2&empty=", "https://tools.example/mcp?key=***&empty=***"),
        ("https://tools.example/mcp?hunter2", "https://tools.example/mcp?***"),
        ("postgresql://u:hunter2@db/callgate", "postgresql://u:***@db/callgate"),
        ("https://${HOST:-hunter2}/mcp", "https://${HOST}/mcp"),
        ("https://[bad/hunter2", "***"),
    ],
)
def test_a_url_is_shown_without_password_and_query(written, shown):
    assert mask_url([written]) == [shown]


@rows(
    ("written", "shown"),
    [
        (["npx", "-y", "server", "/data"], ["npx", "-y", "server", "/data"]),
        (["run", "--token", "hunter2", "x"], ["run", "--token", "***", "x"]),
        (["run", "--token", "-hunter2", "x"], ["run", "--token", "***", "x"]),
        (["run", "--api-key=hunter2"], ["run", "--api-key=***"]),
        (["run", "--API_KEY=${K:-hunter2}"], ["run", "--API_KEY=${K}"]),
        (["env", "DB_PASSWORD=hunter2", "run"], ["env", "DB_PASSWORD=***", "run"]),
        (["run", "postgresql://u:hunter2@db/x"], ["run", "postgresql://u:***@db/x"]),
        (["run", "--dir", "${HOME:-hunter2}"], ["run", "--dir", "${HOME}"]),
    ],
)
def test_a_command_is_shown_without_its_secrets(written, shown):
    assert mask_command(written) == shown


TEXT = """
[store]
url = "postgresql://u:hunter2@db/callgate"
[servers.web]
url = "https://u:hunter2@tools.example/mcp?key=hunter2"
headers = { Authorization = "Bearer hunter2", X-Key = "${KEY}" }
[servers.local]
command = ["run", "--password", "hunter2", "${KEY}"]
env = { TOKEN = "hunter2", KEY = "${KEY}" }
"""


def test_no_secret_of_a_configuration_is_shown_anywhere():
    loaded = config.parse(TEXT, environ={"KEY": "hunter2-too"})
    assert loaded.servers["web"].headers["X-Key"].reveal() == "hunter2-too"
    assert loaded.servers["local"].argv == ["run", "--password", "hunter2", "hunter2-too"]
    texts = [repr(loaded), str(loaded), json.dumps(config.show(loaded)), loaded.servers["local"].target]
    assert not [text for text in texts if "hunter2" in text]
    assert "${KEY}" in config.show(loaded)["servers"]["web"]["headers"]["X-Key"]
