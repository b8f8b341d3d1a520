"""Sums of products on matrix units: what they are in a field, how they are cut in tiles, and their launches."""
