"""The same hostile headers, chosen by what they reach in the code (atheris, where it can be installed)."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from support import signed_requests
from support.registry import requirement

SCRIPT = Path(__file__).with_name("fuzz_headers.py")
# Enough to get past the first characters of every grammar; a search for longer is `python fuzz_headers.py`.
RUNS = 50_000


@pytest.mark.verify
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@requirement("WB-058", "WB-070", "WB-071")
def test_no_reader_breaks_and_no_changed_message_is_accepted(tmp_path):
    """The messages that lead it are those that agents send."""
    (corpus := tmp_path / "corpus").mkdir()
    headers = dict(signed_requests.sign(signed_requests.request()).headers)
    for at, name in enumerate((b"signature-input", b"signature")):
        (corpus / str(at)).write_bytes(headers[name] + bytes([at]))
    options = [f"-runs={RUNS}", "-seed=1", "-max_len=600", "-timeout=60"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options, str(corpus)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
