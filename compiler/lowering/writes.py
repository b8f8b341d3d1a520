"""Writes of tensor elements: may this memory be written, at which index, as which type; and what flows into a result."""

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.lowering.arithmetic import binary, kept_in, negate
from compiler.lowering.bindings import Binding
from compiler.lowering.body import Access, Body, Memory, fault, silent
from compiler.lowering.elements import elements_joined, indices_of
from compiler.lowering.flows import Flow
from compiler.lowering.indices import guard, index_forms, load, note
from compiler.lowering.names import undefined
from compiler.lowering.numbers import Number, TensorOperand, typed, value_of
from compiler.lowering.scattered import what_serves
from compiler.lowering.walk import evaluate, forbidden, number
from compiler.lowering.words import dotted, words
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.annotations import same
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from runtime.records import evolve


def target_memory(body: Body, target: nodes.Index) -> Memory:
    """The memory that the target names, when it may be written."""
    name = dotted(target.value)
    binding = body.names.lookup(name) if name is not None else None
    if name is None or binding is None:
        if isinstance(target.value, nodes.Name):
            raise undefined(body, target.value.name, target.value)
        raise forbidden(body, "this target", target)
    if binding.how == "poison":
        raise silent()
    if not isinstance(binding.value, TensorOperand):
        raise fault(
            "0304",
            f"`{name}` is a number and takes no index",
            target.span,
            hint=f"write `{name} = ...`",
            others=(Label(binding.span, f"{binding.how} here"),),
        )
    memory = body.memories[binding.value.name]
    if memory.role == "array":
        require_writable(memory, binding, target.span)
    if memory.writable:
        return memory
    if memory.role == "captured":
        raise fault(
            "0409",
            f"`{name}` is captured, and a kernel may not write it",
            target.span,
            hint=f"make it an input that is updated: `compute(mut {name})`",
            others=(Label(binding.span, f"`{name}` is no input of this block"),),
        )
    other = body.result_write
    raise fault(
        "0409",
        f"`{name}` is an input, and `{body.results[0] if body.results else 'out'}` is written too",
        target.span,
        f"write to input `{name}`",
        f"update it in place: `compute(mut {name})`, or write a second result",
        (Label(other, "the other write"),) if other is not None else (),
    )


def require_writable(memory: Memory, binding: Binding, span: Span) -> None:
    """0205 unless the array is a `var`."""
    if binding.how != "a `var`":
        others = (Label(binding.span, f"{binding.how} here"),)
        hint = f"declare it with `var {memory.in_words} = ...`" if binding.how == "a `let`" else "change a copy: `var copy = ...`"
        raise fault("0205", f"an array that is {binding.how} can't be changed", span, hint=hint, others=others)


def store(body: Body, target: nodes.Index, node: nodes.Assign, into: DType | None) -> None:
    target = elements_joined(body, target)
    if node.operator is None:
        value = evaluate(body, node.value, target_memory(body, target).dtype if _updates(target, node.value) else into)
        if not isinstance(value, Number):
            raise fault("0203", f"`{words(target)}` needs a number", node.value.span)
        store_number(body, target, value, node)
        return
    memory = target_memory(body, target)
    value = number(body, node.value, memory.dtype)
    forms, spans = _target_forms(body, memory, target, node)
    flowing, inside = value, body.here.depth > 0
    if node.operator in ("+", "-", "*") and value.dtype.is_int and memory.dtype.is_int and not value.weak:
        # ints wrap, so that it makes no difference whether the operand or the result is cut
        value = typed(value_of(body.build, value, memory.dtype), memory.dtype, value.origin)
    old = load(body, memory, forms, target, spans, into)
    body.accesses[-1] = _as_accumulating(body)
    if node.operator == "-" and value.dtype.is_float:
        updated = binary(body, "+", old, negate(body, value), node, inside)
    else:
        updated = binary(body, node.operator, old, value, node, inside and node.operator in ("+", "*"))
    _write(body, memory, forms, updated, flowing, target, spans, node)


_JOINING = frozenset({"min", "max", "bit_and", "bit_or", "bit_xor"})


def accumulates(body: Body, target: nodes.Index, node: nodes.Assign | None) -> bool:
    """Whether the statement adds to an element, or multiplies it, or takes the larger or the smaller, or joins bits: then several
    iterations may meet in one, and the index may be known only as it runs."""
    match node:
        case nodes.Assign(operator="+" | "-" | "*"):
            return True
        case nodes.Assign(operator=None, value=nodes.Binary(operator="+" | "*" | "and" | "or", left=left, right=right)):
            return same(target, left) or same(target, right)
        case nodes.Assign(operator=None, value=nodes.Binary(operator="-", left=left)):
            return same(target, left)
        case nodes.Assign(operator=None, value=nodes.Call(function=nodes.Name(name=name), arguments=(first, second))) if name in _JOINING:
            return body.names.lookup(name) is None and (same(target, first.value) or same(target, second.value))
        case _:
            return False


def _updates(target: nodes.Index, value: nodes.Expression) -> bool:
    """Whether the value is the target's element with an operator and another operand, `out[i] + e`: `out[i] += e` written out."""
    return isinstance(value, nodes.Binary) and (same(target, value.left) or same(target, value.right))


def _as_accumulating(body: Body) -> Access:
    return evolve(body.accesses[-1], accumulates=True)


def store_number(body: Body, target: nodes.Index, value: Number, node: nodes.Assign | None = None) -> None:
    target = elements_joined(body, target)
    memory = target_memory(body, target)
    forms, spans = _target_forms(body, memory, target, node)
    _write(body, memory, forms, value, value, target, spans, node)


def _target_forms(
    body: Body, memory: Memory, target: nodes.Index, node: nodes.Assign | None
) -> tuple[tuple[Affine, ...], tuple[Span, ...]]:
    indices = indices_of(body, target)
    if memory.open and not memory.dims:
        memory.settle_rank(len(indices))
    forms = index_forms(body, memory, indices, target)
    takes_any = body.kind is KernelType.CUSTOM or accumulates(body, target, node) or _tells_iterations_apart(body, forms)
    if memory.role in ("result", "input") and not takes_any:
        for form, (_, index) in zip(forms, indices, strict=True):
            if any(name in body.here.opaque for name in form.names):
                raise fault(
                    "0406",
                    f"`{words(target)}` writes at an index that isn't affine in the loop variables",
                    target.span,
                    hint=what_serves(body, target, index, node),
                    others=(Label(index.span, f"`{words(index)}` is known only as it runs"),),
                )
    return forms, tuple(index.span for index in target.indices)


def _tells_iterations_apart(body: Body, forms: tuple[Affine, ...]) -> bool:
    """Whether each loop variable is, but for numbers, an index by itself: then no two iterations meet, whatever the other indices are."""
    alone = {form.terms[0][0] for form in forms if len(form.terms) == 1}
    return alone.issuperset(name for name, *_ in body.here.loops)


def _write(
    body: Body,
    memory: Memory,
    forms: tuple[Affine, ...],
    value: Number,
    flowing: Number,
    target: nodes.Index,
    spans: tuple[Span, ...],
    node: nodes.Assign | None,
) -> None:
    access = note(
        body, memory, forms, target, spans, is_write=True, accumulates=node is not None and node.operator is not None, number=flowing
    )
    if memory.role == "result":
        result_flow(body, memory.name, flowing)
    if memory.flow is not None:
        variable_flow(body, memory.flow, flowing)
    if value.dtype.is_float and not memory.dtype.is_float and (body.final or (memory.role != "result" and memory.flow is None)):
        declared = (Label(memory.span, f"`{memory.name}` holds {memory.dtype.value}"),) if memory.span is not None else ()
        written = node.value if node is not None else target
        raise fault(
            "0207",
            f"`{words(written)}` is {value.shown}, which doesn't fit {memory.dtype.value} without loss",
            written.span,
            f"this is {value.shown}",
            f"convert it: `({words(written)}) as {memory.dtype.value}`",
            declared,
        )
    if body.final:
        guard(body, memory, forms, target, spans)
    body.build.store(memory.value, value_of(body.build, value, memory.dtype), access.index)


def variable_flow(body: Body, key: tuple[object, ...], value: Number) -> None:
    """The value reaches a variable: join its type to what reached it before."""
    flow = body.flows.join(key, value)
    if not flow.weak:
        origin = flow.origin if flow.origin is None or flow.origin.is_float else kept_in(body, flow.origin)
        body.flows.new[key] = Flow(kept_in(body, flow.dtype), False, origin)


def result_flow(body: Body, name: str, value: Number) -> None:
    """A value is stored to a result: join its dtype to the result's."""
    number_ = Number(value.origin, weak=False) if value.origin is not None else Number(value.dtype, weak=value.weak)
    flow = body.flows.join(("result", name), number_)
    body.flows.new["result", name] = Flow(flow.dtype, flow.weak, None if flow.weak else flow.dtype)
