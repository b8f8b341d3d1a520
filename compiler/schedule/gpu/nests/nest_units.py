"""Launches of a nest whose sizes are written as multiples of what divides them, so that accesses of several elements are known to begin
where they may."""

from compiler.hir.affine import Affine
from compiler.hir.clone import map_attribute
from compiler.hir.core import Index
from compiler.hir.instruction import Role, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, HirType, Mem
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.launches import Launches, Unit
from runtime.records import evolve

BESIDE = "beside"
"""The axis of what an access has of several lines, or steps."""


def with_units(memory: Value, facts: Facts) -> Mem:
    """A memory of the nest as such launches know it."""
    assert isinstance(memory.type, Mem)
    align = max(memory.type.align, ALIGNMENT if memory.name in facts.aligned else 1)
    dims = _mapped(memory.type, {name: Affine.of(name) * unit for name, unit in facts.units})
    assert isinstance(dims, Mem)
    return evolve(dims, align=align)


def divisor(form: Affine, facts: Facts) -> int:
    """What divides a form of sizes."""
    return form.substitute({name: Affine.of(name) * unit for name, unit in facts.units}).divisor


def counted_in_units(launches: Launches, nest: HirFunction, facts: Facts) -> Launches:
    """Those with accesses along `BESIDE`; others as they are."""
    if not any(axis.startswith(BESIDE) for launch in launches.launches for axis in launch.function.axes):
        return launches
    divisors = dict(facts.units)
    units = [
        Unit(place, f"{parameter.name}_{divisors[parameter.name]}", parameter.name, divisors[parameter.name])
        for place, parameter in enumerate(nest.parameters)
        if parameter.type == INDEX and divisors.get(parameter.name, 1) > 1
    ]
    for launch in launches.launches:
        _count(launch.function, units)
    return evolve(launches, units=tuple(units))


def _count(function: HirFunction, units: list[Unit]) -> None:
    """Parameters count in units; what they counted before is computed first."""
    names: dict[str, Affine] = {unit.size: Affine.of(unit.name) * unit.unit for unit in units}
    for op in [inside for top in function.body.body for inside in top.walk()]:
        for name, role in op.roles():
            if role is Role.ATTRIBUTE:
                setattr(op, name, map_attribute(getattr(op, name), lambda form: form.substitute(names)))
            value = getattr(op, name)
            if isinstance(value, Mem):
                setattr(op, name, _mapped(value, names))
        for result in op.results:
            result.type = _mapped(result.type, names)
    function.axes.update({axis: extent.substitute(names) for axis, extent in function.axes.items()})
    for unit in units:
        size = function.parameters[unit.place]
        function.parameters[unit.place] = Value(unit.name, INDEX)
        whole = Index(of=names[unit.size], span=function.span)
        whole.results, size.source = [size], whole
        function.body.body.insert(0, whole)
    for parameter in function.parameters:
        parameter.type = _mapped(parameter.type, names)


def _mapped(type: HirType, names: dict[str, Affine]) -> HirType:
    if not isinstance(type, Mem):
        return type
    strides = None if type.strides is None else tuple(stride.substitute(names) for stride in type.strides)
    return evolve(type, dims=tuple(dim.substitute(names) for dim in type.dims), strides=strides)
