"""Whole messages, a page for each code."""
