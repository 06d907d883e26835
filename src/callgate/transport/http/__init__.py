"""The HTTP side that clients speak to."""
