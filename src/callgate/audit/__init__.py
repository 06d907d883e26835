"""The log: what was decided, what happened, and the proof of both."""

from callgate.audit.log import AuditLog
from callgate.audit.records import (
    AdminRecord,
    Arguments,
    ArgumentsPolicy,
    CheckNote,
    DecisionRecord,
    OutcomeRecord,
    Record,
    Repeated,
)

__all__ = [
    "AdminRecord",
    "Arguments",
    "ArgumentsPolicy",
    "AuditLog",
    "CheckNote",
    "DecisionRecord",
    "OutcomeRecord",
    "Record",
    "Repeated",
]
