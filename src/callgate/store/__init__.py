"""One schema, two databases, one writer thread."""

from callgate.audit.rows import ADMIN, DECISION, OUTCOME, AuditRow
from callgate.store.agent_tables import SqlAgents
from callgate.store.approval_tables import SqlShelf
from callgate.store.control import Block, KillSwitch, read_block, set_block, turn_block
from callgate.store.front import Store
from callgate.store.memory import MemoryStore
from callgate.store.pin_tables import SqlPins
from callgate.store.trust_tables import SqlTrust

__all__ = [
    "ADMIN",
    "DECISION",
    "OUTCOME",
    "AuditRow",
    "Block",
    "KillSwitch",
    "MemoryStore",
    "SqlAgents",
    "SqlPins",
    "SqlShelf",
    "SqlTrust",
    "Store",
    "read_block",
    "set_block",
    "turn_block",
]
