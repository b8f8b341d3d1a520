"""Rows of a large memory that a loop reads beside each other, as stencils do. Processors follow few of them at once, and each only to the
end of a page: the row that goes before the others is fetched ahead, and so is what is stored."""

from collections.abc import Mapping

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.llvm.bundle import is_simd
from compiler.backends.llvm.types import I64
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import bytes_of

SEVERAL = 3
"""Rows of one memory: two are followed well enough."""

AHEAD = 1 << 14
"""Bytes that are fetched ahead: some pages, since a page that is begun is looked up first."""

LARGE = 6 << 20
"""Bytes of a memory from which on its rows are fetched: with what is stored beside them, more than the caches keep from call to call."""


def fetched_beside(frame: CpuFrame, loop: For) -> Mapping[int, LlvmValue]:
    """The accesses of an innermost loop that fetch memory, by identity, and how many bytes ahead of each."""
    accesses = [op for op in loop.body.body if isinstance(op, Load | Store) and any(map(is_simd, op.index[-1].names if op.index else ()))]
    if any(op.regions for op in loop.body.body) or not any(isinstance(op, Store) for op in accesses):
        return {}
    fetched: dict[int, LlvmValue] = {}
    for mem in dict.fromkeys(op.mem for op in accesses if isinstance(op, Load) and op.mem in frame.kernel.function.parameters):
        loads = {op.index[:-1]: op for op in accesses if isinstance(op, Load) and op.mem is mem}
        if len(loads) >= SEVERAL and (first := _first(list(loads))) is not None:
            w = frame.w
            size = constant(I64, bytes_of(mem_of(loads[first].mem).dtype))
            for dim in mem_of(mem).dims:
                size = w.mul(size, frame.affine(dim))
            ahead = w.select(w.compare("sge", size, constant(I64, LARGE)), constant(I64, AHEAD), constant(I64, 0))
            stores = [] if frame.streams else [op for op in accesses if isinstance(op, Store)]
            fetched |= {id(op): ahead for op in (loads[first], *stores)}
    return fetched


def _first(rows: list[tuple[Affine, ...]]) -> tuple[Affine, ...] | None:
    """The row that goes before all others; None where that depends on sizes."""
    known: dict[tuple[int, ...], tuple[Affine, ...]] = {}
    for row in rows:
        steps = [(form - other).value for form, other in zip(row, rows[0], strict=True)]
        known[tuple(step for step in steps if step is not None)] = row
        if None in steps:
            return None
    return known[max(known)]
