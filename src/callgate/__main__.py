"""`python -m callgate`."""

from callgate.cli import main

main()
