"""Scans and sorts, whose launches are written by hand: no loop nest is lifted to them."""
