"""Imports every family, so that `INSTRUCTIONS` is complete. Holds nothing of its own."""

from compiler.hir import async_copy, control, core, gpu, hopper, host, library, memory, ring, tensor_core, words
from compiler.hir.instruction import INSTRUCTIONS

FAMILIES = (core, memory, control, library, host, gpu, tensor_core, async_copy, hopper, ring, words)
"""The modules that declare instructions."""

__all__ = ["FAMILIES", "INSTRUCTIONS"]
