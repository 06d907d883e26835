"""Did a person approve exactly this call? SEP-2672: a passkey signs over the hash of the call's arguments."""

from callgate.approval.annotation import UnreadableAnnotation, annotation, check_class, read_annotation
from callgate.approval.display import Describe, display_text, escape
from callgate.approval.evidence import VerifiedCall
from callgate.approval.model import (
    ApprovalPolicy,
    ChallengeUse,
    ConsoleSession,
    Credential,
    Gated,
    GrantUse,
    Request,
    Ticket,
    User,
)
from callgate.approval.people import EnrolledPasskey
from callgate.approval.service import Approvals, IssuedChallenge
from callgate.approval.settings import ApprovalSettings, Attestation, RelyingParty
from callgate.approval.storage import ApprovalBounds, ApprovalRepository

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
