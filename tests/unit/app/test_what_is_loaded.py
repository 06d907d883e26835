"""What a gateway that asks nobody who they are need not load: it costs memory, and time at the start."""

import subprocess
import sys


def test_a_gateway_loads_what_fetches_and_verifies_only_where_somebody_has_to_prove_who_they_are():
    code = (
        "import sys, callgate.app.serve, callgate.app.local, callgate.app.trust, callgate.app.pinning;"
        "print(*[name for name in ('aiohttp', 'joserfc', 'alembic', 'psycopg') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
