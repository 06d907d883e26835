"""The web console that the gateway serves: people read a call here, sign it or refuse it, and mind their passkeys."""

from callgate.console.app import Console, console_app

__all__ = ["Console", "console_app"]
