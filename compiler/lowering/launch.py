"""The plan of a kernel evaluated for one launch: extents and scalars in, sizes, arguments and result shapes out, or the coded
error that says why these tensors don't fit the block. Plain ints only; allocation and pointers are the caller's business."""

from collections.abc import Mapping
from math import prod

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.types import bytes_of
from compiler.lowering.dtypes import hir_name
from compiler.lowering.kernel import Equation, LaunchPlan, SizeArgument, WorkspaceArgument
from runtime.records import evolve, frozen

_LARGEST = (1 << 63) - 1


@frozen
class LaunchSizes:
    """`values`: every fact and size by name. `results`: dims of each result, in the plan's order; `zeroed`: which of them must
    start at 0. `size_arguments`: the value of each
    SizeArgument, by its place among the plan's arguments; `workspaces`: the dims of each WorkspaceArgument, likewise. `ordinary`: what
    schedules count on holds: extents from 0 to 2^47, loops that end no lower than they begin."""

    values: Mapping[str, int]
    results: tuple[tuple[int, ...], ...]
    zeroed: tuple[bool, ...]
    size_arguments: Mapping[int, int]
    workspaces: Mapping[int, tuple[int, ...]]
    work: int
    ordinary: bool = True

    def number(self, form: Affine) -> int:
        """The value of any form over the launch's facts and sizes."""
        return _number(form, self.values)


def evaluate(plan: LaunchPlan, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, int | float | bool]) -> LaunchSizes:
    """The launch's sizes. Raises ZyntaxError with 0802 (sizes disagree), 0801 (an index leaves its tensor), 0803 (an empty reduction),
    or 0804 (more elements than 63 bits count)."""
    values: dict[str, int] = {name: int(value) for name, value in scalars.items() if isinstance(value, int) or hasattr(value, "__index__")}
    for name, shape in shapes.items():
        values.update({f"{name}.{axis}": int(extent) for axis, extent in enumerate(shape)})
        values[f"{name}.numel"] = prod(map(int, shape))
    for rule in plan.sizes:
        values[rule.name] = _number(rule.form, values)
    faults = [_fault(equation, values) for equation in plan.equations if not _holds(equation, values)]
    if faults:
        raise ZyntaxError(*faults)
    results = []
    for result in plan.results:
        dims = tuple(max(0, _number(dim, values)) for dim in result.dims)
        _require_countable(result.name, dims, bytes_of(hir_name(result.dtype)))
        results.append(dims)
    sizes: dict[int, int] = {}
    workspaces: dict[int, tuple[int, ...]] = {}
    for position, argument in enumerate(plan.arguments):
        if isinstance(argument, SizeArgument):
            sizes[position] = _number(argument.form, values)
            if not -(1 << 63) <= sizes[position] < 1 << 63:
                raise ZyntaxError(Diagnostic("0804", f"the size `{argument.form}` is {sizes[position]}, which doesn't fit in 64 bits"))
        elif isinstance(argument, WorkspaceArgument):
            dims = tuple(max(0, _number(dim, values)) for dim in argument.dims)
            _require_countable("a temporary", dims, bytes_of(argument.dtype))
            workspaces[position] = dims
    return LaunchSizes(values, tuple(results), _zeroed(plan, values), sizes, workspaces, _work(plan, values))


def _zeroed(plan: LaunchPlan, values: Mapping[str, int]) -> tuple[bool, ...]:
    return tuple(
        result.zeroed and not (result.unless and all(_number(form, values) >= 0 for form in result.unless)) for result in plan.results
    )


def _number(form: Affine, values: Mapping[str, int]) -> int:
    return int(form.evaluate(lambda name: values[name]))


def _work(plan: LaunchPlan, values: Mapping[str, int]) -> int:
    return sum(prod(max(0, _number(extent, values)) for extent in nest) for nest in plan.work)


def _holds(equation: Equation, values: Mapping[str, int]) -> bool:
    if any(_number(form, values) <= 0 for form in equation.when):
        return True
    left, right = _number(equation.left, values), _number(equation.right, values)
    return {"==": left == right, "<=": left <= right, ">=": left >= right}[equation.relation]


def _fault(equation: Equation, values: Mapping[str, int]) -> Diagnostic:
    shown = {"left": str(_number(equation.left, values)), "right": str(_number(equation.right, values))}
    said = equation.diagnostic
    return evolve(said, message=_filled(said.message, shown), label=_filled(said.label, shown))


def _filled(text: str, shown: Mapping[str, str]) -> str:
    for name, value in shown.items():
        text = text.replace("{" + name + "}", value)
    return text


def _require_countable(name: str, dims: tuple[int, ...], width: int) -> None:
    if prod(dims) * width > _LARGEST:
        raise ZyntaxError(Diagnostic("0804", f"`{name}` of shape {list(dims)} has more elements than any memory can hold"))
