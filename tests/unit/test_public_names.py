"""What a library user may rely on: a name that comes or goes is a decision, not an accident."""

import subprocess
import sys

import pytest

import callgate
import callgate.sdk


def test_public_names():
    assert sorted(callgate.__all__) == [
        "Approve",
        "Ask",
        "AuditError",
        "Call",
        "CallgateError",
        "Check",
        "ConfigError",
        "Context",
        "Decision",
        "Gate",
        "KeyringError",
        "MessageError",
        "Pass",
        "Reason",
        "Refuse",
        "Refused",
        "StoreError",
        "Tampered",
        "UpstreamError",
        "Verdict",
        "VerifiedApproval",
        "__version__",
        "sign",
    ]
    for name in callgate.__all__:
        assert getattr(callgate, name) is not None


def test_public_names_of_the_sdk():
    assert sorted(callgate.sdk.__all__) == [
        "AgentKey",
        "Alert",
        "ApprovalClient",
        "BrowserAuthenticator",
        "Cancelled",
        "Done",
        "Enrolled",
        "Failed",
        "Flagged",
        "NotCalled",
        "Outcome",
        "PinnedClient",
        "Question",
        "RefusedByServer",
        "SecurityKey",
        "TimedOut",
        "TrackedClient",
        "TrustLabels",
        "TrustTracker",
        "WebBotAuthMiddleware",
        "library_identity",
        "open_world_to_public",
    ]
    for name in callgate.sdk.__all__:
        assert getattr(callgate.sdk, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = callgate.Nonsense


def test_without_the_sdk_everything_else_works_and_the_rest_says_what_to_install():
    script = """
import sys
sys.modules["mcp"] = sys.modules["mcp_types"] = None
import callgate
assert callgate.Gate is not None
try:
    callgate.VerifiedApproval
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "callgate.VerifiedApproval needs the `mcp` SDK: pip install 'callgate[sdk]'\n"
