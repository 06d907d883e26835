"""One schema, two databases, one writer thread."""

from callgate.store.control import Block, KillSwitch, read_block, set_block
from callgate.store.front import Store
from callgate.store.rows import ADMIN, DECISION, OUTCOME, AuditRow

__all__ = ["ADMIN", "DECISION", "OUTCOME", "AuditRow", "Block", "KillSwitch", "Store", "read_block", "set_block"]
