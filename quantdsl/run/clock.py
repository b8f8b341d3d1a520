"""The processor's cycle counter: how long a cycle is, what reading it costs, how fine it is."""

from functools import cache
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from compiler.backends.native import kept
from compiler.backends.native.link import link_modules
from compiler.hir.native_expressions import minimum
from runtime.cache.store import store
from runtime.records import frozen

if TYPE_CHECKING:
    from compiler.hir.module import HirModule

READS = 512
_WINDOW = 4_000_000
"""Ns over which a cycle is measured."""


@frozen
class CycleClock:
    """`cycle`: ns; `cost`: cycles that two reads one after the other are apart, at best; `step`: the smallest difference above 0 of two
    reads, in cycles."""

    cycle: float
    cost: int
    step: int

    def nanoseconds(self, cycles: Any) -> Any:
        """Of an array of differences, without what the reads themselves cost."""
        return (cycles - self.cost).clip(0) * self.cycle


@cache
def clock() -> CycleClock:
    """Measured once a process, in some milliseconds."""
    code = link_modules([_code()])
    read, least = code["read"], code["least"]
    least.run([])
    begin, first = perf_counter_ns(), int(read.run([]).results[0])
    while perf_counter_ns() - begin < _WINDOW:
        pass
    last, end = int(read.run([]).results[0]), perf_counter_ns()
    cost, step = (int(value) for value in least.run([]).results)
    return CycleClock((end - begin) / max(last - first, 1), cost, step)


def _code() -> kept.StoredModule:
    """From the cache, so that what compiles isn't even loaded."""
    cache, key = store(), kept.key("clock")
    found = kept.found(cache, key)
    if found is None:
        from compiler.backends.native.compile import compile_module

        found = kept.keep(cache, key, compile_module(_program()))
    return found


def _program() -> "HirModule":
    from compiler.hir.native_build import ModuleBuilder
    from compiler.hir.native_types import U64

    program = ModuleBuilder("clock")
    with program.function("read", {}, [U64]) as b:
        b.ret(b.cycles())
    with program.function("least", {}, [U64, U64]) as b:
        cost, step = b.variable(2**63, "u64"), b.variable(2**63, "u64")
        with b.loop(0, READS):
            first = b.cycles()
            apart = b.cycles().wrapping_sub(first)
            cost.value = minimum(cost.value, apart)
            with b.when(apart > 0):
                step.value = minimum(step.value, apart)
        b.ret(cost.value, step.value)
    return program.module
