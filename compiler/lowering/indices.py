"""Reads and writes of tensor elements: is the index in bounds? Proved, refused, checked once at launch, or checked as it runs;
and every access noted, because sizes and the shape of `out` come from them."""

from compiler.diagnostics import Diagnostic, Label
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.module import FaultSite
from compiler.hir.prover import Inequalities
from compiler.lowering.arithmetic import form_of, in_sum
from compiler.lowering.body import Access, Body, Memory, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import Number, typed
from compiler.lowering.ranges import extreme, reached
from compiler.lowering.words import words
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType


def index_forms(body: Body, memory: Memory, indices: list[tuple[Number, nodes.Expression]], node: nodes.Expression) -> tuple[Affine, ...]:
    """The indices as affine forms, after their number and types are checked."""
    for number, index in indices:
        if not number.dtype.is_int:
            raise _not_int(body, number, index)
    if len(indices) != len(memory.dims):
        raise _wrong_rank(memory, len(indices), node)
    return tuple(form_of(body, number) for number, _ in indices)


def _not_int(body: Body, number: Number, index: nodes.Expression) -> Exception:
    others: tuple[Label, ...] = ()
    if isinstance(index, nodes.Name):
        binding = body.names.lookup(index.name)
        if binding is not None:
            others = (Label(binding.span, f"`{index.name}` is {binding.how} here"),)
    hint = "only an int counts elements: convert with `as i64`" if number.dtype.is_float else "use an int, or `where(condition, a, b)`"
    return fault("0407", f"index `{words(index)}` is {number.shown}, not an int", index.span, f"this is {number.shown}", hint, others)


def _wrong_rank(memory: Memory, given: int, node: nodes.Expression) -> Exception:
    rank = len(memory.dims)
    others = (Label(memory.span, f"`{memory.in_words}` has {rank} {_plural('axis', rank)}"),) if memory.span is not None else ()
    return fault(
        "0304",
        f"`{memory.in_words}` has {rank} {_plural('axis', rank)}, but {given} {_plural('index', given)} "
        f"{'is' if given == 1 else 'are'} given",
        node.span,
        f"{given} {_plural('index', given)}",
        f"write {_placeholder(memory.in_words, rank)}",
        others,
    )


def _placeholder(name: str, rank: int) -> str:
    letters = "ijklmnop"
    return (
        f"`{name}[{', '.join(letters[a] if a < len(letters) else f'i{a}' for a in range(rank))}]`" if rank else f"`{name}` without an index"
    )


def _plural(word: str, count: int) -> str:
    return word if count == 1 else {"axis": "axes", "index": "indices"}[word]


def load(
    body: Body,
    memory: Memory,
    index: tuple[Affine, ...],
    node: nodes.Expression,
    index_spans: tuple[Span, ...],
    into: DType | None,
) -> Number:
    """The element as a number; narrow types widen at once where they flow into a wider sum."""
    note(body, memory, index, node, index_spans)
    where: Value | None = None
    if body.final:
        where = guard(body, memory, index, node, index_spans)
    value = body.build.load(memory.value, index, where=where)
    if memory.flow is not None:
        flow = body.flows.before(memory.flow, memory.dtype)
        return in_sum(body, typed(value, memory.dtype, flow.origin, flow.weak), into)
    number = typed(value, memory.dtype, memory.dtype)
    if memory.role == "result" and not body.final:
        flow = body.flows.before(("result", memory.name), memory.dtype)
        return typed(body.build.cast(value, hir_name(flow.dtype)), flow.dtype, flow.origin, flow.weak)
    return in_sum(body, number, into)


def note(
    body: Body,
    memory: Memory,
    index: tuple[Affine, ...],
    node: nodes.Expression,
    index_spans: tuple[Span, ...],
    is_write: bool = False,
    accumulates: bool = False,
    number: Number | None = None,
) -> Access:
    """Remember the access and all that surrounds it."""
    access = Access(
        memory.name,
        index,
        tuple(body.here.ranges),
        tuple(body.here.guards),
        tuple(body.here.path),
        node.span,
        index_spans,
        words(node),
        is_write,
        accumulates,
        number,
        frozenset(body.here.opaque),
        dict(body.here.upper),
    )
    body.accesses.append(access)
    return access


def guard(body: Body, memory: Memory, index: tuple[Affine, ...], node: nodes.Expression, index_spans: tuple[Span, ...]) -> Value | None:
    """Make sure that the index is in bounds. A condition comes back when the access may only happen where it holds (an operand of a
    conditional expression that is computed on both sides)."""
    for axis, (form, extent) in enumerate(zip(index, memory.dims, strict=True)):
        if body.here.facts.proves_inside(form, extent):
            continue
        span = index_spans[axis] if axis < len(index_spans) else node.span
        _refuse_outside(body, memory, axis, form, extent, span)
        if not _at_launch(body, memory, axis, form, extent, span):
            _as_it_runs(body, memory, axis, form, extent, span)
        body.here.facts.at_least_zero(form, extent - 1 - form)
    if body.here.where is None:
        return None
    mark, condition = body.here.where
    outer = Inequalities(body.here.facts.known[:mark], body.here.facts.cases)
    safe = all(outer.proves_inside(form, extent) for form, extent in zip(index, memory.dims, strict=True))
    return None if safe else condition


def _refuse_outside(body: Body, memory: Memory, axis: int, form: Affine, extent: Affine, span: Span) -> None:
    """0305 where every index is outside, or where a loop surely reaches one."""
    low, high = extreme(form, body.here.ranges, upper=False), extreme(form, body.here.ranges, upper=True)
    opaque = [loop for loop in body.here.ranges for bound in (loop.low, loop.last) if body.here.opaque & set(bound.names)]
    unsure = bool(opaque or body.here.path)  # no iteration of this call may come here
    always = not unsure and (body.here.facts.proves(-form - 1) or body.here.facts.proves(form - extent))
    certain = (
        _is_plain(body, form)
        and all(_runs(body))
        and low.value is not None
        and high.value is not None
        and extent.value is not None
        and (low.value < 0 or high.value >= extent.value)
    )
    if not (always or certain):
        return
    shown = f"is {form}" if low == high else f"runs from {low} to {high}"
    hint = "change the loop's range, or guard the access with `if`"
    if form.value is not None and extent.value is not None and -extent.value <= form.value < 0:
        hint = f"indices of kernels don't count from the end: write `{extent.value + form.value}`"
    raise fault(
        "0305",
        f"{_which(memory, axis)} {shown}, but the axis has {extent} elements"
        if extent.value != 1
        else f"{_which(memory, axis)} {shown}, but the axis has 1 element",
        span,
        f"valid: 0 to {extent - 1}",
        hint,
    )


def _which(memory: Memory, axis: int) -> str:
    return f"the index of `{memory.in_words}`" if len(memory.dims) == 1 else f"the index along axis {axis} of `{memory.in_words}`"


def _is_plain(body: Body, form: Affine) -> bool:
    """Whether the access happens whenever its loops run, at indices that are known at launch."""
    return not body.here.path and not any(name in body.here.opaque for name in form.names) and reached(form, body.here.ranges)


def _runs(body: Body) -> list[bool]:
    return [loop.extent.value is not None and loop.extent.value > 0 for loop in body.here.ranges]


def _at_launch(body: Body, memory: Memory, axis: int, form: Affine, extent: Affine, span: Span) -> bool:
    """One equation instead of a check an element, where the loops are rectangular and nothing else decides on the access."""
    if body.kernel.kernel_type is not None and body.kernel.kernel_type.value == "custom":
        return False
    if not _is_plain(body, form):
        return False
    inner = {loop.name for loop in body.here.ranges}
    bounds = [loop.low for loop in body.here.ranges] + [loop.last for loop in body.here.ranges]
    if any(name in inner or name in body.here.opaque for bound in bounds for name in bound.names):
        return False
    running = tuple(loop.extent for loop in body.here.ranges)
    low, high = extreme(form, body.here.ranges, upper=False), extreme(form, body.here.ranges, upper=True)
    words_of = _which(memory, axis)
    if not body.here.facts.proves(form):
        body.equations.append(
            Equation(
                low,
                Affine(),
                ">=",
                Diagnostic(
                    "0801", f"{words_of} is {{left}}, but the axis has no element before 0", span, hint="guard the access with `if`"
                ),
                running,
            )
        )
    if not body.here.facts.proves(extent - 1 - form):
        body.equations.append(
            Equation(
                high + 1,
                extent,
                "<=",
                Diagnostic(
                    "0801",
                    f"{words_of} must stay below {{right}}, but its loop needs {{left}} elements",
                    span,
                    hint="change the loop's range, or guard the access with `if`",
                ),
                running,
            )
        )
    return True


def _as_it_runs(body: Body, memory: Memory, axis: int, form: Affine, extent: Affine, span: Span) -> None:
    site = body.site(
        FaultSite(
            "0801",
            span,
            f"index {{0}} is out of range: axis {axis} of `{memory.in_words}` has {{1}} elements",
            hint="guard the access with `if`, or `clamp` the index",
        )
    )
    build = body.build
    position = build.const(form.value, "index") if form.value is not None else build.index(form)
    limit = build.const(extent.value, "index") if extent.value is not None else build.index(extent)
    build.check(build.inbounds(form, extent), position, limit, code="0801", site=site)
