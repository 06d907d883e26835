"""Did a person approve exactly this call? SEP-2672: a passkey signs over the hash of the call's arguments."""

from callgate.approval.annotation import UnreadableAnnotation, annotation, check_class, read_annotation
from callgate.approval.display import Describe, display_text, escape
from callgate.approval.evidence import VerifiedCall
from callgate.approval.model import (
    ApprovalBounds,
    ApprovalPolicy,
    ApprovalSettings,
    Attestation,
    ChallengeUse,
    ConsoleSession,
    Credential,
    Gated,
    GrantUse,
    RelyingParty,
    Request,
    Ticket,
    User,
)
from callgate.approval.people import EnrolledPasskey
from callgate.approval.service import Approvals, IssuedChallenge
from callgate.approval.storage import ApprovalRepository

# The names that server authors know from `VerifiedApproval`.
Bounds, Policy, Settings = ApprovalBounds, ApprovalPolicy, ApprovalSettings

__all__ = [
    "ApprovalBounds",
    "ApprovalPolicy",
    "ApprovalRepository",
    "ApprovalSettings",
    "Approvals",
    "Attestation",
    "Bounds",
    "ChallengeUse",
    "ConsoleSession",
    "Credential",
    "Describe",
    "EnrolledPasskey",
    "Gated",
    "GrantUse",
    "IssuedChallenge",
    "Policy",
    "RelyingParty",
    "Request",
    "Settings",
    "Ticket",
    "UnreadableAnnotation",
    "User",
    "VerifiedCall",
    "annotation",
    "check_class",
    "display_text",
    "escape",
    "read_annotation",
]
