"""The kernels of a block on machines that run threads: its launches, and what of a call decides on them. The emulator and CUDA run the
same."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from compiler.analysis.check import always_zeroed
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.gpu import WARP, WarpIndex
from compiler.hir.instruction import InstructionFamily
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem
from compiler.launch.kernels import BuiltKernel
from compiler.launch.slots import Slots
from compiler.launch.unheeded import warnings
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import PORTABLE
from compiler.machines.rates import H200, GpuRates
from compiler.machines.units.unit import Issue
from compiler.passes.known_divisors import number_of
from compiler.schedule.gpu.choose import LaunchChoice, choices, launches_for
from compiler.schedule.gpu.derived.nest import derived_extents
from compiler.schedule.gpu.facts import NOTHING, Facts, facts_of
from compiler.schedule.gpu.products.results import row_extents
from compiler.schedule.gpu.products.tensor_cores import multiplies_matrices, refusal
from compiler.schedule.gpu.products.tiling import Impossible
from compiler.schedule.gpu.reuse.register_tiles import left_over_extents, register_extents
from compiler.schedule.gpu.rewrites.residue_parts import residue_extents
from compiler.schedule.gpu.rewrites.single_elements import single_taps
from compiler.schedule.gpu.tiles.rows import row_lengths, single_lengths
from compiler.schedule.launches import Launches
from compiler.schedule.region import NotPlaceable
from compiler.typed_ast import nodes
from runtime.records import define, evolve


@define(eq=False)
class ThreadKernel:
    """A block for one signature as launches, where these facts hold. `custom` kernels are one launch as written, with the grid that the
    program gives."""

    built: BuiltKernel
    launches: Launches | None
    facts: Facts = NOTHING

    @property
    def field(self) -> HirFunction | None:
        """What is scheduled: the nest's field, or the one that it has where these facts hold."""
        return _field_where(self.built, self.facts)

    def unheeded(self, compute: nodes.Compute) -> tuple[Diagnostic, ...]:
        """Warnings for annotations of the block that its launches don't follow."""
        return () if self.launches is None else warnings(compute, self.launches.unheeded, f"`{self.facts.machine}`")

    @property
    def functions(self) -> list[HirFunction]:
        return [self.built.lowered.function] if self.launches is None else [launch.function for launch in self.launches.launches]


def covered_results(kernel: ThreadKernel, slots: Slots) -> frozenset[int]:
    """The numbers of the results that launches store as a whole, so that nobody has to clear them."""
    if kernel.launches is None:
        return frozenset()
    parameters = kernel.built.nest.parameters
    return frozenset(number for position, number in slots.results if parameters[position].name in kernel.launches.covered)


def thread_kernel(built: BuiltKernel, compute: nodes.Compute, facts: Facts = NOTHING) -> ThreadKernel:
    """The launches of a built kernel, where these facts hold. Raises ZyntaxError (0109) for what no thread can do alone, 0504 for
    `@tensor_cores(on)` where they can't multiply, 0502 and 0503 for annotations of a schedule that can't be."""
    as_written = _runs_as_written(built, facts.machine)
    field = _field_where(built, facts)
    try:
        known = evolve(facts, zeroed=always_zeroed(built.lowered))
        kernel = ThreadKernel(built, None if as_written else launches_for(built.nest, field, known), facts)
    except NotPlaceable as reason:
        message = f"this block is valid, but not supported on this device yet: {reason}"
        raise ZyntaxError(Diagnostic("0109", message, compute.span, hint='`@device("cpu")` runs it')) from None
    except Impossible as reason:
        raise ZyntaxError(Diagnostic(reason.code, f"{reason}", compute.span, hint=reason.hint)) from None
    info = built.nest.kernel_info
    if info is not None and info.tensor_cores and not as_written and not any(map(multiplies_matrices, kernel.functions)):
        why, hint = refusal(field, facts, info.strict)
        raise ZyntaxError(Diagnostic("0504", f"`@tensor_cores(on)` can't be done: {why}", compute.span, hint=hint))
    for function in kernel.functions:
        function.span = compute.span
    return kernel


def _runs_as_written(built: BuiltKernel, machine: GpuMachine) -> bool:
    """Whether the kernel is one that the program wrote for threads, in warps that the machine has. One whose lanes work together in warps
    of another size is scheduled from its loops over blocks and threads."""
    function = built.lowered.function
    if function.form is not Form.THREAD or machine.lanes == WARP:
        return function.form is Form.THREAD
    return not any(isinstance(op, WarpIndex) or op.family is InstructionFamily.WARP for top in function.body.body for op in top.walk())


def _field_where(built: BuiltKernel, facts: Facts) -> HirFunction | None:
    if built.field is None and facts.inside and built.analysed.assuming is not None:
        return built.analysed.assuming.field
    if facts.divisors and (divided := built.analysed.divided(facts.divisors)) is not None:
        return divided.field
    return built.analysed.thread_field


def launch_facts(
    built: BuiltKernel, sizes: Mapping[str, int], aligned: Iterable[str], machine: GpuMachine = PORTABLE, processors: int = 132
) -> Facts:
    """The facts of a launch of the kernel with these values of its `index` parameters."""
    return launch_choices(built, sizes, aligned, machine, processors)[0].facts


def launch_choices(
    built: BuiltKernel,
    sizes: Mapping[str, int],
    aligned: Iterable[str],
    machine: GpuMachine = PORTABLE,
    processors: int = 132,
    rates: GpuRates = H200,
) -> tuple[LaunchChoice, ...]:
    """The same, and others that may be as fast."""
    inside = built.analysed.assuming is not None and built.analysed.assuming.holds(sizes)
    divisors = () if inside else _divisors(built, sizes)
    arrays = [parameter.type for parameter in built.nest.parameters if isinstance(parameter.type, Mem)]
    if machine.general is not None and any(dim.evaluate(sizes.__getitem__) <= 0 for mem in arrays for dim in mem.dims):
        machine = machine.general  # bulk copies are from arrays that have elements
    facts = facts_of(sizes, aligned, machine, processors, rates)
    facts = evolve(facts, inside=inside, divisors=divisors)
    field = _field_where(built, facts)
    facts = evolve(facts, lengths=_lengths(built, field, sizes, machine))
    if built.lowered.function.form is not Form.THREAD:
        with suppress(Impossible):  # told when the kernel is made
            found = choices(field, facts, sizes)
            left_over = found[0].cut is None and machine.unit(Issue.WARPGROUP) is not None and not facts.lengths
            extents = left_over_extents(field, sizes) if left_over and field is not None else ()
            return choices(field, evolve(facts, lengths=extents), sizes) if extents and built.has_version(extents) else found
    return (LaunchChoice(facts),)


def _lengths(built: BuiltKernel, field: HirFunction | None, sizes: Mapping[str, int], machine: GpuMachine) -> tuple[tuple[str, int], ...]:
    """The sizes that the kernel is made for: lengths of rows, or all of them where its threads' work follows from
    numbers."""
    if field is None:
        return ()
    if lengths := row_lengths(field, sizes, machine):
        return lengths
    every = (residue_extents, derived_extents, register_extents, single_taps, single_lengths, row_extents)
    for extents in (f(field, sizes) for f in every):
        if extents and built.has_version(extents):
            return extents
    return ()


def _divisors(built: BuiltKernel, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """What the nest divides by in a launch, where it has a field then."""
    values = [number_of(value, sizes) for value in built.analysed.divisors]
    numbers = tuple(number for number in values if number is not None and number > 0)
    if not numbers or len(numbers) < len(values):
        return ()
    divided = built.analysed.divided(numbers)
    return numbers if divided is not None and divided.holds(sizes) else ()
