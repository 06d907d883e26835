"""What tests share. A package, so that its modules have names of their own for mypy."""
