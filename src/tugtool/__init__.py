"""Tugtool: the shared record between coding agents that carry out one plan together."""

__version__ = "0.1.0"
