"""One schema, two databases, one writer thread."""

from callgate.audit.records import ADMIN, DECISION, OUTCOME, AuditRow
from callgate.store.agents import SqlAgents
from callgate.store.approval import SqlApprovals
from callgate.store.control import Block, KillSwitch, read_block, set_block, turn_block
from callgate.store.front import Store
from callgate.store.memory import MemoryStore
from callgate.store.pins import SqlPins
from callgate.store.trust import SqlTrust

__all__ = [
    "ADMIN",
    "DECISION",
    "OUTCOME",
    "AuditRow",
    "Block",
    "KillSwitch",
    "MemoryStore",
    "SqlAgents",
    "SqlApprovals",
    "SqlPins",
    "SqlTrust",
    "Store",
    "read_block",
    "set_block",
    "turn_block",
]
