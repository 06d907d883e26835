"""The `callgate` script, and `python -m callgate`."""

import sys


def main() -> None:
    if sys.argv[1:] == ["prompt"]:
        # A client waits for this one: nothing else is loaded.
        from callgate.prompts.hook import main as prompt

        prompt()
    from callgate.cli import main as command

    command()


if __name__ == "__main__":
    main()
