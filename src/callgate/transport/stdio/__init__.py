"""The stdio side that clients speak to."""
