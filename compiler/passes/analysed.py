"""A lowered kernel before any target is chosen: its nest cleaned, analysed and lifted to a field, and its faults. Made once for each
signature of a block; every target's schedule starts from it."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from time import perf_counter

from compiler.analysis.barriers import check_barriers
from compiler.analysis.check import check_kernel, zeroed_memories
from compiler.analysis.dependence import NestFacts, analyse
from compiler.analysis.device_split import DeviceSplit, device_split
from compiler.analysis.lift import Refused, lift
from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction
from compiler.lowering.kernel import LoweredKernel
from compiler.passes.gathered_sums import gathered_sums
from compiler.passes.known_divisors import divisors_of, with_divisors
from compiler.passes.pipelines import NEST, PassTimes, run_passes
from compiler.passes.residues import by_residues
from compiler.passes.wide_sums import wide_sums
from runtime.records import Factory, define, evolve, frozen

REMEMBERED_DIVISORS = 64
"""Fields of a nest with known divisors that are kept: programs repeat few sizes."""


@frozen(eq=False)
class Assuming:
    """The field of a nest for sizes of which these forms are at least 0."""

    field: HirFunction
    forms: tuple[Affine, ...]

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return all(form.evaluate(sizes.__getitem__) >= 0 for form in self.forms)


@define(eq=False)
class AnalysedKernel:
    """A kernel as lowered, its clean nest, and the nest's field; `reason`: why it has none."""

    lowered: LoweredKernel
    nest: HirFunction
    field: HirFunction | None
    reason: str = ""
    _divided: dict[tuple[int, ...], Assuming | None] = Factory(dict)

    @cached_property
    def facts(self) -> NestFacts:
        """What the loops of the nest depend on."""
        return analyse(self.nest)

    @cached_property
    def split(self) -> DeviceSplit | None:
        """How a block that is to run on several devices is split. Raises ZyntaxError."""
        parallel = self.lowered.metadata.parallel
        return None if parallel is None else device_split(self.lowered, self.nest, self.facts, parallel)

    @cached_property
    def assuming(self) -> Assuming | None:
        """The field that a nest with scattered sums has where these are gathered, or one with checked indices where sizes say that they
        can't fail, with the checks that data decide; None where it has one anyway, or none."""
        if self._is_final:
            return None
        gathered = gathered_sums(self.nest)
        nests = (gathered and by_residues(gathered), gathered, by_residues(self.nest), self.nest)
        fields = (_assuming(nest, self.lowered) for nest in nests if nest is not None)
        return next((field for field in fields if field is not None), None)

    @cached_property
    def thread_field(self) -> HirFunction | None:
        """The nest's field for machines with many threads: sums of every s-th tap have no taps that don't count."""
        split = by_residues(self.nest) if self.field is not None and self.nest.form is not Form.THREAD else None
        if split is not None:
            with suppress(Refused):
                return wide_sums(lift(split, zeroed_memories(self.lowered)))
        return self.field

    @cached_property
    def divisors(self) -> tuple[Value, ...]:
        """What a nest that has no field divides by, and a launch knows."""
        return () if self._is_final else divisors_of(self.nest)

    def divided(self, numbers: tuple[int, ...]) -> Assuming | None:
        """The field that the nest has with these divisors, for sizes with which no index is outside."""
        if numbers not in self._divided:
            if len(self._divided) >= REMEMBERED_DIVISORS:
                self._divided.clear()
            nest = with_divisors(self.nest, dict(zip(self.divisors, numbers, strict=True)))
            self._divided[numbers] = _assuming(nest, self.lowered)
        return self._divided[numbers]

    @property
    def _is_final(self) -> bool:
        """Whether nothing that a launch knows gives the kernel a field."""
        return self.field is not None or self.nest.form is Form.THREAD

    def named(self, name: str) -> "AnalysedKernel":
        """The kernel under another name."""
        lowered = evolve(self.lowered, function=evolve(self.lowered.function, name=name))
        field = None if self.field is None else evolve(self.field, name=name)
        return AnalysedKernel(lowered, evolve(self.nest, name=name), field, self.reason)


def checked(lowered: LoweredKernel, times: PassTimes) -> AnalysedKernel:
    """The kernel of a block that a program wrote. Raises ZyntaxError with every race, broken promise and divergent barrier."""
    if lowered.function.form is Form.THREAD:
        if faults := check_barriers(lowered):
            raise ZyntaxError(*faults)
        kernel = analysed(lowered, times)
        kernel.split  # noqa: B018 (refused, as it can't be)
        return kernel
    kernel = analysed(lowered, times)
    started = perf_counter()
    faults = check_kernel(lowered, kernel.facts, kernel.field)
    times.add("check kernels", perf_counter() - started)
    if faults:
        raise ZyntaxError(*faults)
    kernel.split  # noqa: B018 (refused, where it can't be)
    return kernel


def analysed(lowered: LoweredKernel, times: PassTimes | None = None) -> AnalysedKernel:
    """The kernel of a block that is known to be right."""
    nest = lowered.function
    for _, after in run_passes(nest, NEST, times):
        nest = after
    started = perf_counter()
    try:
        field, reason = wide_sums(lift(nest, zeroed_memories(lowered))), ""
    except Refused as refusal:
        field, reason = None, str(refusal)
    if times is not None:
        times.add("lift", perf_counter() - started)
    return AnalysedKernel(lowered, nest, field, reason)


def _assuming(nest: HirFunction, lowered: LoweredKernel) -> Assuming | None:
    """The field of a nest whose indices are checked, where sizes say that they can't fail, with the checks that data decide; None where it
    has none even then."""
    forms: list[Affine] = []
    try:
        field = wide_sums(lift(nest, zeroed_memories(lowered), forms, apart=True))
    except Refused:
        return None
    return Assuming(field, tuple(dict.fromkeys(forms)))
