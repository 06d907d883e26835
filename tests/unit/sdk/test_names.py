"""`import callgate.sdk` needs none of the optional packages."""

import subprocess
import sys

import pytest

import callgate.sdk
from support.table import rows

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import callgate.sdk
from callgate.errors import ConfigError
callgate.sdk.BrowserAuthenticator
try:
    getattr(callgate.sdk, {name!r}){call}
except ConfigError as error:
    print(error.advice)
"""


@rows(
    ("name", "call", "advice"),
    [
        ("ApprovalClient", "", "pip install 'callgate[sdk]'"),
        ("PinnedClient", "", "pip install 'callgate[sdk]'"),
        ("SecurityKey", "()", "pip install 'callgate[usb]'"),
    ],
)
def test_what_is_missing_is_told_when_it_is_used(name, call, advice):
    program = BLOCKED.format(blocked=("mcp", "mcp_types", "fido2"), name=name, call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == advice


def test_every_name_is_there():
    for name in callgate.sdk.__all__:
        assert getattr(callgate.sdk, name) is not None
    with pytest.raises(AttributeError):
        _ = callgate.sdk.Nothing
