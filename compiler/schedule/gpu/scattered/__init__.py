"""Sums and other updates whose places come from data."""
