"""The `callgate` script, and `python -m callgate`."""

import sys


def main() -> None:
    if sys.argv[1:] == ["prompt"]:
        # A client waits for this one: nothing else is loaded.
        from callgate.prompts.hook import main as prompt

        prompt()
    if sys.argv[1:2] == ["wrap"]:
        # There are as many of these as servers: nothing else is loaded where the person's gateway does the work.
        from callgate.local.wrap import is_possible, parse
        from callgate.local.wrap import main as wrap

        options = parse(sys.argv[2:])
        if options is not None and not options.alone and is_possible():
            wrap(options)
    from callgate.cli import main as command

    command()


if __name__ == "__main__":
    main()
