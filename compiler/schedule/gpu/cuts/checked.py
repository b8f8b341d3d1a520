"""Checks of indices that data decide, in a launch of their own before the field: of each index once, however often it is used. Loads of
the field touch nothing where a check fails, and a fault makes all results void."""

from collections.abc import Sequence
from contextlib import ExitStack

from compiler.analysis.dependence import analyse
from compiler.analysis.edge_reads import field_reads
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Const, Contract, Reduce, Scan, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Check
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Tile
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.maps.maps import reads_across
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.region import NotPlaceable
from runtime.records import evolve


def without_checks(field: HirFunction, facts: Facts) -> tuple[HirFunction, HirFunction | None]:
    """The field (form F) without its checks, and a nest of those that may fail. Raises `NotPlaceable` where an index comes of a reduction,
    and where each is used once: to check it on the way takes one read less, unless something is read across results, which is turned
    then."""
    checks = [op for op in field_reads(field).ops if isinstance(op, Check)]
    if not checks:
        field.body.body = [op for op in field.body.body if not isinstance(op, Check)]
        return field, None
    results = set(common_axes(field))
    once = all(results <= {name for name, _ in union_axes(check.condition)} for check in checks)
    if once and not reads_across(field, facts) and not any(isinstance(op, Reduce | Contract | Scan) for op in field.body.body):
        raise NotPlaceable("indices that are used once")
    nest = _nest(field, checks)
    field.body.body = [op for op in field.body.body if not isinstance(op, Check)]
    return field, nest


def _nest(field: HirFunction, checks: Sequence[Check]) -> HirFunction:
    """For each check loops over the axes along which it varies."""
    out = FunctionBuilder(f"{field.name}_checked", Form.NEST)
    named = {result.name: result for op in field.body.body for result in op.results}
    parameters = {parameter: out.parameter(parameter.name, parameter.type) for parameter in field.parameters}
    for check in checks:
        axes = [name for name, _ in union_axes(check.condition, *check.values)]
        with ExitStack() as loops:
            b, variables = out.body, dict[str, Affine | str]()
            for axis in axes:
                b, loop = loops.enter_context(b.loop(axis, 0, field.axes[axis]))
                variables[axis] = loop.variable.name
            copies = dict(parameters)

            def value(old: Value) -> Value:
                if old not in copies:  # noqa: B023
                    op = old.source
                    if op is None or isinstance(op, Reduce | Contract | Scan | Alloc):
                        raise NotPlaceable("an index that comes of a reduction")
                    copies.update(zip(op.results, b.emit(scalar(op), old.name).results, strict=True))  # noqa: B023
                return copies[old]  # noqa: B023

            def form(old: Affine) -> Affine:
                known = {name: value(named[name]).name for name in old.names if name in named}
                return old.substitute({**variables, **known})  # noqa: B023

            def scalar(op: Instruction) -> Instruction:
                changes = {"type": evolve(op.type, axes=())} if isinstance(op, Const) and isinstance(op.type, Tile) else {}
                return rebuilt(op, value, form, None, **changes)

            b.emit(rebuilt(check, value, form))
    nest = out.finish()
    nest.stands_for(field)
    return nest


def checked_before(nest: HirFunction, launches: Launches, facts: Facts) -> Launches:
    """The launches of a field behind those of its checks, which take the same parameters. Raises `NotPlaceable`."""
    checking = nest_launches(nest, analyse(nest), facts)
    if checking.workspaces:
        raise NotPlaceable("checks that need memory of their own")
    for launch in checking.launches:
        further = launches.launches[0].function.parameters[len(launch.function.parameters) :]
        unused = (Value(f"other{n}", parameter.type) for n, parameter in enumerate(further))
        launch.function.parameters = [*launch.function.parameters, *unused]
    return evolve(launches, stages=(*checking.stages, *launches.stages), words=("indices are checked first", *launches.words))
