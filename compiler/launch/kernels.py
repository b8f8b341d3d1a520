"""A compute block for one signature: analysed once for all devices, scheduled and compiled for the CPU when it runs there."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.backends.cpu.emit import ORDINARY, sizes_of_memories
from compiler.backends.cpu.native import NativeKernel
from compiler.backends.cpu.paths import KernelPath, path_of
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.control import For, While
from compiler.hir.core import Contract
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import Tile
from compiler.launch.cache import SIZES, Cache
from compiler.launch.tiers import AUTO, BEST, LaterWork, later, why_best
from compiler.launch.unheeded import of_gpus, warnings
from compiler.lowering.compute import lower_compute
from compiler.lowering.kernel import LoweredKernel, Signature
from compiler.lowering.launch import LaunchSizes, evaluate
from compiler.machines.cpu import CpuMachine
from compiler.passes.analysed import AnalysedKernel, checked
from compiler.passes.pipelines import PassTimes
from compiler.schedule.cpu import Scheduled, schedule_for_cpu
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata
from compiler.typed_ast.levels import FLOATS
from compiler.typed_ast.types import DeviceKind
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve, field, frozen

if TYPE_CHECKING:
    from compiler.options import Tuning


@frozen
class KernelOptions:
    """How kernels are compiled and run. `threads` 0: as many as the machine has."""

    level: OptimizationLevel = OptimizationLevel.O3
    threads: int = 0
    machine: CpuMachine = CpuMachine()
    floats: str = FLOATS[0]
    """What may be done with floats in blocks that don't say it themselves."""
    products: str | None = None
    """How factors of f32 are multiplied in blocks that don't say it themselves; None: no less exactly than by FMAs."""
    times: PassTimes = Factory(PassTimes)
    compiling: Callable[[Span | None], AbstractContextManager[None]] = field(default=lambda span: nullcontext(), eq=False)
    """Entered around the work on the block at a place, for those who show what is going on."""
    tier: str = BEST
    """In which tier kernels begin (see `tiers`)."""
    explain_tiers: Callable[[Span | None, str], None] | None = field(default=None, eq=False)
    """Told in which tier each kernel begins, and when it has code of the next, with its place."""
    tuning: "Callable[[], Tuning | None]" = field(default=lambda: None, eq=False)
    """How long candidates may be tried out on a device; None: not at all."""


VERSIONS = 8
"""Of a kernel for different sizes as numbers: beyond these it is one for sizes as names."""


@define(eq=False)
class BuiltKernel:
    """A block for one signature: analysed, and for the CPU scheduled and native, each made when first asked for."""

    analysed: AnalysedKernel
    options: KernelOptions
    span: Span | None = None
    _plain: NativeKernel | None = None
    _path: tuple[KernelPath, NativeKernel] | None = None
    """The one path that all launches took until now, and its code."""
    _sizes: Cache[tuple[Any, ...], LaunchSizes] = Factory(partial(Cache, SIZES))
    _versions: set[tuple[tuple[str, int], ...]] = Factory(set)
    _work: int | None = None
    """Inner steps of the first launch."""

    def has_version(self, lengths: tuple[tuple[str, int], ...]) -> bool:
        """Whether there is a kernel in which these sizes are numbers, or may be one more."""
        if lengths not in self._versions and len(self._versions) < VERSIONS:
            self._versions.add(lengths)
        return lengths in self._versions

    @property
    def lowered(self) -> LoweredKernel:
        return self.analysed.lowered

    @property
    def nest(self) -> HirFunction:
        return self.analysed.nest

    @property
    def field(self) -> HirFunction | None:
        return self.analysed.field

    def sizes(self, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, Any]) -> LaunchSizes:
        """The plan evaluated for these extents and ints. Raises ZyntaxError when they don't fit the block."""
        key = (*shapes.values(), *(value for value in scalars.values() if isinstance(value, int | np.integer)))
        return self._sizes.of(key, lambda: self._solved(shapes, scalars))

    def _solved(self, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, Any]) -> LaunchSizes:
        sizes = evaluate(self.lowered.plan, shapes, scalars)
        return evolve(sizes, ordinary=self._is_ordinary(sizes))

    @cached_property
    def updated(self) -> tuple[str, ...]:
        """The inputs that the block updates."""
        return tuple(result.input for result in self.lowered.plan.results if result.input is not None)

    @cached_property
    def has_reuse(self) -> bool:
        """Whether it has a product each of whose factors serves several results, so that its steps are those of registers."""
        return self.field is not None and any(
            isinstance(op, Contract) and _has_own_axis(op.a, op.b) and _has_own_axis(op.b, op.a)
            for top in self.field.body.body
            for op in top.walk()
        )

    @cached_property
    def has_open_loops(self) -> bool:
        """Whether data decide how long some of its loops run."""
        return any(isinstance(op, While) for top in self.nest.body.body for op in top.walk())

    def named(self, name: str) -> "BuiltKernel":
        """The kernel under another name at every stage."""
        return BuiltKernel(self.analysed.named(name), self.options, self.span)

    def on(self, machine: CpuMachine) -> "BuiltKernel":
        """The kernel for a CPU."""
        if machine == self.options.machine:
            return self
        return BuiltKernel(self.analysed, evolve(self.options, machine=machine), self.span)

    def code(self, ordinary_sizes: bool = True) -> CpuOptions:
        """What its machine code is made for."""
        machine = self.options.machine
        return CpuOptions(self.options.level, machine.triple, machine.cpu, machine.features, ordinary_sizes=ordinary_sizes)

    @cached_property
    def scheduled(self) -> Scheduled:
        """The kernel as the CPU runs it."""
        started = perf_counter()
        scheduled = schedule_for_cpu(self.analysed, self.options.machine)
        self.options.times.add("schedule", perf_counter() - started)
        return scheduled

    def unheeded(self, compute: nodes.Compute) -> tuple[Diagnostic, ...]:
        """Warnings for annotations of the block that its schedule on the CPU doesn't follow."""
        on_cpu = compute.kernel is not None and compute.kernel.device.kind is DeviceKind.CPU
        annotated = any(isinstance(part, nodes.For) and part.annotations for part in walk(compute.body))
        tiled = any(annotation.name == "tile" for annotation in compute.annotations)
        unheeded = self.scheduled.unheeded if annotated or tiled else ()
        return warnings(compute, (*unheeded, *(of_gpus(compute) if on_cpu else ())), "the CPU")

    @cached_property
    def native(self) -> NativeKernel:
        with self.options.compiling(self.span):
            function = self.scheduled.function
            started = perf_counter()
            native = self._in_tiers(function)
            self.options.times.add("llvm", perf_counter() - started)
        return native

    def _in_tiers(
        self, function: HirFunction, path: KernelPath | None = None, whole: Callable[[], NativeKernel] | None = None
    ) -> NativeKernel:
        """The code that launches begin with; where it is tier 0's, tier 1's follows."""
        options = self.options
        best = why_best(options.tier, options.level, function, self._work)
        native = compile_function(function, self.code(), self.nest, path, whole, quick=best is None)
        if best is not None:
            self._tell_tier(f"tier 1 at once: {best}")
        elif options.tier == AUTO:
            self._tell_tier(f"tier 0 first: {self._work} inner steps")
            later(LaterWork(lambda ending: self._improve(native), native.fail))
        else:
            self._tell_tier("tier 0, as it was asked for")
        return native

    def _improve(self, native: NativeKernel) -> None:
        if native.is_quick:
            before = native.quick_seconds
            native.improve()
            made = sum(native.timings.values())
            self._tell_tier(f"tier 1 from here on: made in {1e3 * made:.0f} ms beside the program, after {1e3 * before:.0f} ms for tier 0")

    def _tell_tier(self, words: str) -> None:
        if self.options.explain_tiers is not None:
            self.options.explain_tiers(self.span, words)

    def native_for(self, sizes: LaunchSizes) -> NativeKernel:
        """The machine code for a launch: as scheduled, or the loops as written where the sizes are none that schedules count on. While all
        launches take one path through the kernel, there is the code of that path alone."""
        if sizes.ordinary:
            return self._on_path(sizes)
        if self._plain is None:
            with self.options.compiling(self.span):
                self._plain = compile_function(self.nest, self.code(ordinary_sizes=False), self.nest)
        return self._plain

    def _on_path(self, sizes: LaunchSizes) -> NativeKernel:
        if "native" in self.__dict__:
            return self.native
        if self._work is None:
            self._work = sizes.work
        function = self.scheduled.function
        path = path_of(function, {self.nest.parameters[position].name: value for position, value in sizes.size_arguments.items()})
        if path and self._path is None:
            with self.options.compiling(self.span):
                started = perf_counter()
                self._path = path, self._in_tiers(function, path, lambda: self.native)
                self.options.times.add("llvm", perf_counter() - started)
        return self._path[1] if self._path is not None and self._path[0] == path else self.native

    @property
    def in_use(self) -> NativeKernel:
        """The code that launches of ordinary sizes run now."""
        return self.native if self._path is None or "native" in self.__dict__ else self._path[1]

    def _is_ordinary(self, sizes: LaunchSizes) -> bool:
        known = {self.nest.parameters[position].name: value for position, value in sizes.size_arguments.items()}
        extents = sizes_of_memories(self.nest)
        ordinary = all(0 <= value < ORDINARY for name, value in known.items() if name in extents)
        for loop in (op for top in self.nest.body.body for op in top.walk() if isinstance(op, For)):
            if known.keys() >= {*loop.low.names, *loop.high.names}:
                low, high = (bound.evaluate(lambda name: known[name]) for bound in (loop.low, loop.high))
                _require_countable(loop, low, high)
                ordinary = ordinary and (high >= low if loop.step > 0 else low >= high)
        return ordinary


def _has_own_axis(value: Value, other: Value) -> bool:
    own, others = (set(each.type.axis_names) if isinstance(each.type, Tile) else set[str]() for each in (value, other))
    return not own <= others


def _require_countable(loop: For, low: int, high: int) -> None:
    beyond = next((bound for bound in (low, high) if not -(1 << 63) <= bound < 1 << 63), None)
    if beyond is not None:
        raise ZyntaxError(Diagnostic("0804", f"this loop goes to {beyond}, which doesn't fit in 64 bits", loop.span))


def lower(compute: nodes.Compute, signature: Signature, options: KernelOptions) -> LoweredKernel:
    """The block for a signature, as far as the type of its value depends on. Raises ZyntaxError with every fault found in the block."""
    with options.compiling(compute.span):
        started = perf_counter()
        lowered = lower_compute(_with_defaults(compute, options), signature)
        options.times.add("lower", perf_counter() - started)
        return lowered


def built(lowered: LoweredKernel, compute: nodes.Compute, options: KernelOptions) -> BuiltKernel:
    """The kernel of a lowered block. Raises ZyntaxError with the faults that analysis finds."""
    with options.compiling(compute.span):
        return BuiltKernel(checked(lowered, options.times), options, compute.span)


def _with_defaults(compute: nodes.Compute, options: KernelOptions) -> nodes.Compute:
    """The block with what the options say of floats and of products, where it doesn't say it itself. A strict block rounds no factors."""
    kernel = compute.kernel or KernelMetadata()
    floats = kernel.hints.floats or options.floats
    products = kernel.hints.products or (None if floats == "strict" and options.products == "tf32" else options.products)
    hints = evolve(kernel.hints, floats=floats, products=products)
    return compute if hints == kernel.hints else evolve(compute, kernel=evolve(kernel, hints=hints))
