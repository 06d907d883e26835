"""The user's own words: a client's hook runs `callgate prompt`, and the gateways of that client's servers hear it.

Only the standard library is imported in this package: a client waits for its hook.
"""
