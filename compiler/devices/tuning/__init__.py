"""Candidates for a GPU that are too near each other by estimate are tried out there, once, and the fastest is kept."""
