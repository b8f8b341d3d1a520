"""Kernels of a thread that follow from a field and a table: what a thread computes is numbered, priced, and then written out."""
