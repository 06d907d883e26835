"""Verified approval as the gateway, the console, the command line and the server library use it."""

from __future__ import annotations

from callgate.approval.asking import Asking
from callgate.approval.signing_in import SigningIn


class Approvals(SigningIn, Asking):
    """People and passkeys, challenges and their verification, requests on the page, sessions of the console."""
