"""`callgate prompt`: what a client's hook runs. `callgate.__main__` comes before this one, and loads less."""

from __future__ import annotations


def prompt() -> None:
    """Tell the wrapped servers of a client what its user wrote. A hook of the client runs this, with the hook's input
    on stdin; `callgate install` sets the hook up.

    It keeps nothing, prints nothing that a model would read, and ends with status 0 whatever happens.
    """
    from callgate.prompts.hook import run

    run()
