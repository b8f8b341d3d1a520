"""Rows whose bounds come from data."""
