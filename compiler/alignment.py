"""Where the widest accesses may begin."""

ALIGNMENT = 16
"""Bytes of the widest access of a thread."""
