"""The way to a person's gateway on this machine: its socket, its messages, how it is started, and the thin `wrap`.

Everything here is loaded by each `callgate wrap`: it takes nothing but the standard library.
"""
