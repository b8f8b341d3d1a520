"""Loops in written order, with what their steps read fetched ahead."""
