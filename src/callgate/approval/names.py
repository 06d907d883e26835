"""The words of SEP-2672 as they stand on the wire, and the few of our own beside them."""

from __future__ import annotations

from typing import Final

# §4.2 and §4.5: the key of the annotation in a tool's `_meta` and of the evidence in a call's.
META: Final = "io.modelcontextprotocol/verified-approval"
# §4.3: the capability under `capabilities.extensions`; both spellings are advertised.
CAPABILITY: Final = "verifiedApproval"
CAPABILITIES: Final = (CAPABILITY, META)

# §4.4: the three methods.
ENROLL_BEGIN: Final = "approval/enroll/begin"
ENROLL_FINISH: Final = "approval/enroll/finish"
CHALLENGE_CREATE: Final = "approval/challenge/create"
METHODS: Final = frozenset({ENROLL_BEGIN, ENROLL_FINISH, CHALLENGE_CREATE})

REQUIRED: Final = "verified"
WEBAUTHN: Final = "webauthn"

# Ours: where `approval/enroll/begin` carries the ticket that allows it.
TICKET: Final = "dev.callgate/enrolment-ticket"
