"""Did a person approve exactly this call? SEP-2672: a passkey signs over the hash of the call's arguments."""

from callgate.approval.annotation import Unreadable, annotation, check_class, read_annotation
from callgate.approval.ceremony import Issued
from callgate.approval.display import Describe, display_text, escape
from callgate.approval.evidence import Verified
from callgate.approval.model import ChallengeUse, Credential, Gated, GrantUse, Policy, Request, Session, Ticket, User
from callgate.approval.people import Enrolled
from callgate.approval.service import Approvals
from callgate.approval.settings import Attestation, RelyingParty, Settings
from callgate.approval.storage import Bounds, Shelf

__all__ = [
    "Approvals",
    "Attestation",
    "Bounds",
    "ChallengeUse",
    "Credential",
    "Describe",
    "Enrolled",
    "Gated",
    "GrantUse",
    "Issued",
    "Policy",
    "RelyingParty",
    "Request",
    "Session",
    "Settings",
    "Shelf",
    "Ticket",
    "Unreadable",
    "User",
    "Verified",
    "annotation",
    "check_class",
    "display_text",
    "escape",
    "read_annotation",
]
