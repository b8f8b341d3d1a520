"""Loops that stay loops, on the threads of a block."""
