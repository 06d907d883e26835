"""Bytes in and out, in both protocol eras. No policy."""
