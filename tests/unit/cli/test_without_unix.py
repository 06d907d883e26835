"""Windows has neither descriptors to hand over nor the modules for it: what runs there must load without them."""

import subprocess
import sys

from support.table import rows

_MISSING = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")


@rows("module", ["callgate.cli.wrap", "callgate.app.wrap", "callgate.app.serve", "callgate.prompts.hook"])
def test_it_loads_without_what_only_unix_has(module):
    code = f"import sys; sys.modules.update(dict.fromkeys({_MISSING!r})); import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
