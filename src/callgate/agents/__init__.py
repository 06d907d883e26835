"""Agents: who is calling, and what they may call. Web Bot Auth signatures, tokens and keys; directories; limits."""
