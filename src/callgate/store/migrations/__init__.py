"""Alembic migrations, run by `callgate.store.migrate`; no ini file."""
