"""Accesses to memory."""

ALIGNMENT = 16
"""Bytes of the widest access of a thread, and where it may begin."""
WORD = 4
"""Bytes of a register, and of a bank of shared memory."""
