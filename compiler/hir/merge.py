"""Several modules as one: for the interpreter what linking is for compiled code. Imported functions become those that another module
exports; where two modules have a function of one name, those that only their own module calls get the module's name in front."""

from collections.abc import Mapping

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.clone import rebuilt
from compiler.hir.control import Call
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.module import HirFunction, HirModule, Linkage
from runtime.records import evolve


def merged(*modules: HirModule, name: str = "merged") -> HirModule:
    """One module; the given ones stay as they are. Globals must not be of one name."""
    whole = HirModule(name)
    everywhere = [f for module in modules for f in module.functions.values() if f.linkage is not Linkage.IMPORTED]
    counted: dict[str, int] = {}
    for function in everywhere:
        counted[function.name] = counted.get(function.name, 0) + (0 if function.is_external else 1)
    for module in modules:
        own = [f for f in module.functions.values() if f.linkage is Linkage.INTERNAL and counted[f.name] > 1]
        names = {f.name: f"{module.name}.{f.name}" for f in own}
        for function in module.functions.values():
            if function.linkage is Linkage.IMPORTED or (function.is_external and function.name in whole.functions):
                continue
            if function.name not in names and function.name in whole.functions:
                raise ZyntaxError(Diagnostic("0901", f"two modules export @{function.name}"))
            whole.add(_renamed(function, names))
        whole.globals.update(module.globals)
    for module in modules:
        for function in module.functions.values():
            if function.linkage is Linkage.IMPORTED and function.name not in whole.functions:
                raise ZyntaxError(Diagnostic("0901", f"{module.name} imports @{function.name}, which no module exports"))
    return whole


def _renamed(function: HirFunction, names: Mapping[str, str]) -> HirFunction:
    """The function with new names for itself and what it calls; itself when none of them changes."""
    called = {op.function for top in function.body.body for op in top.walk() if isinstance(op, Call)}
    if not names.keys() & {*called, function.name}:
        return function
    values = {p.name: Value(p.name, p.type) for p in function.parameters}
    body = _copied(function.body, values, names)
    parameters = [values[p.name] for p in function.parameters]
    return evolve(function, name=names.get(function.name, function.name), parameters=parameters, body=body)


def _copied(region: Region, values: dict[str, Value], names: Mapping[str, str]) -> Region:
    copy = Region()
    for parameter in region.parameters:
        values[parameter.name] = Value(parameter.name, parameter.type)
        copy.parameters.append(values[parameter.name])
    copy.body += [_copied_instruction(op, values, names) for op in region.body]
    return copy


def _copied_instruction(op: Instruction, values: dict[str, Value], names: Mapping[str, str]) -> Instruction:
    regions: dict[str, Region | None] = {}
    for field in op.fields(Role.REGION, Role.OPTIONAL_REGION):
        inner = getattr(op, field)
        regions[field] = None if inner is None else _copied(inner, values, names)
    copy = rebuilt(op, lambda value: values[value.name], regions=regions)
    if isinstance(copy, Call):
        copy.function = names.get(copy.function, copy.function)
    for result in op.results:
        values[result.name] = Value(result.name, result.type, copy)
        copy.results.append(values[result.name])
    return copy
