"""The CPU back end's entry: a HIR function in, a native kernel out."""

import time
from collections.abc import Callable

from compiler.backends.cpu.emit import emit_function, symbol_name
from compiler.backends.cpu.frame import Mode
from compiler.backends.cpu.liberties import has_vectors
from compiler.backends.cpu.native import NativeKernel
from compiler.backends.cpu.paths import KernelPath, instructions_on
from compiler.hir.control import For, While
from compiler.hir.core import Cast, dtype_of
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import bytes_of
from compiler.machines.cpu import CpuMachine
from compiler.machines.units.dots import dot_units
from runtime.cpu import detect, load
from runtime.records import frozen


@frozen
class CpuOptions:
    """`triple`, `cpu` and `features` None: this machine's. `threads`: "auto" (this process's team, libgomp for another
    machine), "gomp", "team" or "serial". `report`: the variant that finds the first fault, in the nest's own order. `ordinary_sizes`: every
    size that is an extent of a memory lies in 0..2^47, which LLVM is told."""

    level: OptimizationLevel = OptimizationLevel.O3
    triple: str | None = None
    cpu: str | None = None
    features: str | None = None
    threads: str = "auto"
    report: bool = False
    ordinary_sizes: bool = True


def compile_function(
    function: HirFunction,
    options: CpuOptions | None = None,
    reference: HirFunction | None = None,
    path: KernelPath | None = None,
    whole: Callable[[], NativeKernel] | None = None,
    quick: bool = False,
) -> NativeKernel:
    """Compile one function. `reference` is the same kernel as written (form A, same parameters by name): after a fault it is
    run to find the first one; without it the function itself is. With a `path` the code is of launches that take it, and `whole` is asked
    for the kernel that others run. `quick`: its first code is made in LLVM's shortest way, until `NativeKernel.improve`."""
    options = options or CpuOptions()
    started = time.perf_counter()
    target = load.target(options.triple, options.cpu, options.features, _code_level(options.level))
    parallel = "serial" if options.report else _team(options)
    mode = Mode.REPORT if options.report else Mode.FAST
    ordinary = options.ordinary_sizes and not options.report
    texts = attributes(target, options.level, function)
    facts = has_half(target), has_fma(target), ordinary, path, has_chosen_extremes(target), "linux" in target.triple
    module, checks = emit_function(function, mode, parallel, texts, *facts, dot_units(target.features))
    text = module.text()
    timings = {"emit": time.perf_counter() - started}
    compiled = load.CompiledModule(text, target, options.level.value, timings, is_explicit(function, path))
    first = None
    if quick:
        first = load.CompiledModule(text, load.target(options.triple, options.cpu, options.features, 0), load.QUICK, dict(timings), True)

    def report() -> NativeKernel:
        chosen = reference or function
        return compile_function(chosen, CpuOptions(OptimizationLevel.O1, options.triple, options.cpu, options.features, "serial", True))

    return NativeKernel(function, symbol_name(function), compiled, tuple(checks), None if options.report else report, whole, first)


def _team(options: CpuOptions) -> str:
    if options.threads != "auto":
        return options.threads
    return "team" if options.triple is None else "gomp"


GATHERING = frozenset({"znver3", "znver4", "znver5"})
"""Processors that gather vectors which are summed faster than LLVM assumes. Vectors that are only stored are put together faster."""


def attributes(target: "load.CodeTarget", level: OptimizationLevel, function: HirFunction | None = None) -> tuple[str, ...]:
    """Function attributes: the machine, whether it should gather, and how wide vectors should be."""
    gathers = function is not None and target.cpu in GATHERING and _sums_wide_at_data(function)
    texts = [f"target-cpu={target.cpu}", f"target-features={target.features}{',+fast-gather' if gathers else ''}"]
    width = detect.vector_bits(target.features)
    if width:
        texts.append(f"prefer-vector-width={width}")
    if level is OptimizationLevel.OS:
        texts.append("optsize")
    return tuple(texts)


def _sums_wide_at_data(function: HirFunction) -> bool:
    """Whether elements at indices that are data, if any are read, are so by loops that carry values, and have 32 bits at least: no machine
    gathers narrower ones."""
    ops = [op for top in function.body.body for op in top.walk()]
    data = {op.result.name for op in ops if isinstance(op, Cast)}
    read = {op for op in ops if isinstance(op, Load) and data.intersection(op.symbols)}
    wide = all(bytes_of(dtype_of(op.result)) >= 4 for op in read)
    summed = any(isinstance(op, For) and op.carried and not read.isdisjoint(op.walk()) for op in ops)
    return wide and (summed or not read)


def is_explicit(function: HirFunction, path: KernelPath | None = None) -> bool:
    """Whether all innermost loops (those on a path) work on values with a vector axis: then LLVM has nothing to vectorise or to unroll."""
    loops = [op for op in instructions_on(function, path or {}) if isinstance(op, For | While)]
    innermost = [loop for loop in loops if not any(isinstance(op, For | While) for op in loop.walk() if op is not loop)]
    return bool(innermost) and all(isinstance(loop, For) and has_vectors(loop) for loop in innermost)


def has_fma(target: "load.CodeTarget") -> bool:
    """Whether the target multiplies and adds in one instruction."""
    return "+fma" in target.features.split(",") or target.triple.startswith(("aarch64", "arm64"))


def has_half(target: "load.CodeTarget") -> bool:
    """Whether the target converts between f16 and f32 by itself."""
    return "+f16c" in target.features.split(",") or target.triple.startswith(("aarch64", "arm64"))


def has_chosen_extremes(target: "load.CodeTarget") -> bool:
    """Whether the target's `min` and `max` of floats compare two and choose one, which knows neither NaN nor signs of zeros."""
    return target.triple.startswith(("x86_64", "i686"))


def code_target(machine: CpuMachine, level: int = 3) -> load.CodeTarget:
    """What code for a CPU is made for."""
    return load.target(machine.triple, machine.cpu, machine.features, level)


def _code_level(level: OptimizationLevel) -> int:
    return {OptimizationLevel.O0: 0, OptimizationLevel.O1: 1, OptimizationLevel.O2: 2, OptimizationLevel.OS: 2}.get(level, 3)
