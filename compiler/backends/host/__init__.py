"""Tier 0: programs run as Python code objects, at once and everywhere."""
