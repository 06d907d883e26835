"""Wiring: configuration, stores, stages, gate and transports become one process."""
