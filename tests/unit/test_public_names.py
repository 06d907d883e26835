"""What a library user may rely on: a name that comes or goes is a decision, not an accident."""

import callgate


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
        "__version__",
    ]
    for name in callgate.__all__:
        assert getattr(callgate, name) is not None
