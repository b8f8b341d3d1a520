"""Kernels on the CPU against what people use there."""
