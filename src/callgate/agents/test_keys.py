"""Keys whose private half is printed in a specification. Whoever can read may sign with them."""

from __future__ import annotations

from typing import Final

# Thumbprints (RFC 7638) of the keys of RFC 9421 appendix B.1 and of two RFCs about JWK.
PUBLISHED: Final = frozenset(
    {
        "BHj8s0GPnMEQtkaULIM-PLgEhLBbuGUQ1vMxmBWZzEo",  # test-key-rsa
        "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",  # test-key-rsa-pss
        "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",  # test-key-ecc-p256
        "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",  # test-key-ed25519
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",  # RFC 7638 §3.1
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",  # RFC 8037 appendix A
    }
)
