"""Names of MCP, SEP-2672 and our own extensions as they stand on the wire, and what HTTP says of headers."""

from __future__ import annotations

import re
from typing import Final

CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"


HANDSHAKE_VERSIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})

VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"

CAPABILITIES_META: Final = "io.modelcontextprotocol/clientCapabilities"

CLIENT_INFO_META: Final = "io.modelcontextprotocol/clientInfo"


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
# §4.5: the ways to answer, as evidence names them; the second is ours: an answer that a registered device has signed.
WEBAUTHN: Final = "webauthn"
DEVICE: Final = "device"

# §4.6: ids that other servers have too; with one of these, an approval for one server would hold on another.
COMMON_SERVER_IDS: Final = frozenset({"mcp-default", "default", "server", "callgate", "mcp"})

# What the protocol itself reads in a call's `_meta`; all else there is between a client and a server.
PROTOCOL_META: Final = frozenset(
    {
        VERSION_META,
        CAPABILITIES_META,
        CLIENT_INFO_META,
        "io.modelcontextprotocol/logLevel",
        "progressToken",
        META,
    }
)

# Ours: the session that a client names for a call.
SESSION_META: Final = "dev.callgate/session"
# Ours: where `approval/enroll/begin` carries the ticket that allows it.
TICKET: Final = "dev.callgate/enrolment-ticket"

# RFC 9110 §5.6.2, a field's name, and §5.5, its value: visible ASCII, spaces and tabs inside, and obs-text.
FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
FIELD_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
# RFC 9110 §7.6.1: what is for one connection ends with it.
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
# What the connection to a server itself decides; a fixed value would break or split the request.
OF_THE_CONNECTION: Final = frozenset(
    ["connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"]
)


def fixed_header(name: str) -> bool:
    """Whether the gateway sets a header itself."""
    return name.lower() in OF_THE_CONNECTION or name.lower().startswith("callgate")
