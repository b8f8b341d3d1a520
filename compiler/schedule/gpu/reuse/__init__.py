"""Reductions whose terms share elements: tiles of results in the registers of a thread."""
