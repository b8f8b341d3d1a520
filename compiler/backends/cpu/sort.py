"""Stable sorting of the lines of a memory."""

from compiler.backends.cpu.bundle import unsupported
from compiler.backends.cpu.frame import Frame
from compiler.hir.library import Sort


def emit_sort(frame: Frame, op: Sort) -> None:
    raise unsupported("sort", "sort on the host")
