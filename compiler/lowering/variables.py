"""Variables of kernel bodies: `let`, `var`, and assignment to them. A `var` that starts from an unsuffixed literal takes the type
that flows in; what flows is noted here and used by the next walk."""

from compiler.diagnostics import Label
from compiler.lowering import whole_tensor
from compiler.lowering.arithmetic import binary, kept_in, negate
from compiler.lowering.bindings import BoundVariable
from compiler.lowering.body import Body, fault, silent
from compiler.lowering.dtypes import keeps_value, scalar_named
from compiler.lowering.flows import Flow
from compiler.lowering.names import read, undefined
from compiler.lowering.numbers import Nothing, Number, Operand, TensorOperand, Tuple, literal, typed, value_of
from compiler.lowering.walk import evaluate, executes, forbidden, number
from compiler.lowering.words import words
from compiler.lowering.writes import store, store_number
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk


@executes(nodes.Let)
def _let(body: Body, node: nodes.Let, into: DType | None) -> None:
    if body.kind in whole_tensor.KINDS and whole_tensor.let_whole(body, node, into):
        return
    if node.value is None:
        dtype = scalar_named(node.annotation)
        if dtype is None:
            raise fault("0203", "a variable of a kernel needs a value or a number type", node.span, hint="write `var s = 0.0`")
        value: Operand = literal(0.0 if dtype.is_float else False if dtype is DType.BOOL else 0, None if dtype is DType.BOOL else dtype)
    else:
        value = evaluate(body, node.value, into)
    _bind_pattern(body, node.pattern, value, node)


def _bind_pattern(body: Body, pattern: nodes.Pattern, value: Operand, node: nodes.Let) -> None:
    match pattern:
        case nodes.WildcardPattern():
            return
        case nodes.TuplePattern(elements=elements):
            if not isinstance(value, Tuple) or len(value.elements) != len(elements):
                raise fault("0203", f"a pattern of {len(elements)} names needs a tuple of as many", pattern.span)
            for element, part in zip(elements, value.elements, strict=True):
                _bind_pattern(body, element, part, node)
        case nodes.BindingPattern(name=name):
            if isinstance(value, Nothing):
                raise fault("0203", f"`{name}` gets no value", node.span)
            if not isinstance(value, Number):
                if node.mutable:
                    raise fault("0203", f"a `var` of a kernel holds a number: `{name}` would be {_what(value)}", node.span)
                body.names.bind(name, value, pattern.span, "a `let`")
                return
            if node.mutable:
                _declare(body, name, value, node)
                return
            dtype = scalar_named(node.annotation)
            body.names.bind(name, value if dtype is None else _fitted(value, dtype, node, body), pattern.span, "a `let`")
        case _:
            raise forbidden(body, "this pattern", pattern)


def _what(value: Operand) -> str:
    return "a tensor" if isinstance(value, TensorOperand) else "a tuple"


def _fitted(value: Number, dtype: DType, node: nodes.Let, body: Body) -> Number:
    require_kept(value, dtype, node.value or node, None)
    if value.form is not None and dtype is DType.I64:
        return Number(dtype, form=value.form, literal=value.literal, origin=value.origin or dtype)
    return typed(value_of(body.build, value, dtype), dtype, dtype)


def require_kept(value: Number, dtype: DType, node: nodes.Node, target: Label | None) -> None:
    """0207 unless a number of this type may become a `dtype` without a cast."""
    if value.weak:
        lossless = not (value.dtype.is_float and not dtype.is_float)
    else:
        lossless = keeps_value(value.dtype, dtype)
    if not lossless:
        raise fault(
            "0207",
            f"`{words(node)}` is {value.shown}, which doesn't fit {dtype.value} without loss",
            node.span,
            f"this is {value.shown}",
            f"convert it: `({words(node)}) as {dtype.value}`",
            (target,) if target is not None else (),
        )


def _declare(body: Body, name: str, value: Number, node: nodes.Let) -> None:
    key = ("var", node.span.start, node.span.path, name, tuple(span.start for _, span in body.inlining))
    annotated = scalar_named(node.annotation)
    origin: DType | None
    if annotated is not None:
        require_kept(value, annotated, node.value or node, None)
        dtype, weak, origin, fixed = annotated, False, annotated, True
    elif not value.weak:
        dtype, weak, origin, fixed = value.dtype, False, value.origin, True
    else:
        before = body.flows.before(key, value.dtype)
        dtype, weak, origin, fixed = before.dtype, before.weak, before.origin, False
        _flow(body, key, value)
    slot = body.build.slot(value_of(body.build, value, dtype), name)
    variable = BoundVariable(name, key, slot, dtype, weak, origin, fixed, node.span, body.here.depth)
    body.names.bind(name, variable, node.pattern.span, "a `var`")


def _flow(body: Body, key: tuple[object, ...], value: Number) -> None:
    """The value reaches the variable: join its type to what reached it before."""
    flow = body.flows.join(key, value)
    if not flow.weak:
        origin = flow.origin if flow.origin is None or flow.origin.is_float else kept_in(body, flow.origin)
        body.flows.new[key] = Flow(kept_in(body, flow.dtype), False, origin)


@executes(nodes.Assign)
def _assign(body: Body, node: nodes.Assign, into: DType | None) -> None:
    if node.operator == "@":
        raise fault("0109", "`@=` isn't supported yet in a kernel", node.span, hint="write the sum as a loop")
    match node.target:
        case nodes.TupleLiteral(elements=targets):
            value = evaluate(body, node.value, into)
            if not isinstance(value, Tuple) or len(value.elements) != len(targets) or node.operator is not None:
                raise fault("0203", f"{len(targets)} targets need a tuple of as many", node.span)
            for target, part in zip(targets, value.elements, strict=True):
                _assign_number(body, target, None, part, node)
        case nodes.Index() as target:
            store(body, target, node, into)
        case target:
            _assign_name(body, target, node, into)


def _assign_name(body: Body, target: nodes.Expression, node: nodes.Assign, into: DType | None) -> None:
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "an assignment to a field", target)
    binding = body.names.lookup(target.name)
    if binding is not None and isinstance(binding.value, TensorOperand):
        if body.kind in whole_tensor.KINDS:
            whole_tensor.assign_whole(body, target, node, into)
            return
        raise fault(
            "0203",
            f"`{target.name}` is a whole tensor: a kernel writes its elements",
            target.span,
            hint=f"write `{target.name}[i] = ...`, or use `@kernel(fused)`",
        )
    variable = _variable(body, target)
    operator, value, accumulates = _accumulation(body, variable, node, None if variable.weak else variable.dtype)
    if not variable.fixed:
        _flow(body, variable.key, value)
    if operator is not None:
        value = binary(body, operator, read(body, variable), value, node, accumulates)
    _set(body, variable, value, node)


def _accumulation(body: Body, variable: BoundVariable, node: nodes.Assign, into: DType | None) -> tuple[str | None, Number, bool]:
    """`s += e` and `s = s + e` (either side, e free of s): operator, e, and whether a reduction's step is written so."""
    inside = body.here.depth > variable.depth
    if node.operator is not None:
        value = number(body, node.value, into)
        if node.operator == "-" and variable.dtype.is_float and not value.dtype.is_int:
            return "+", negate(body, value), inside
        return node.operator, value, inside and node.operator in "+*"
    match node.value:
        case nodes.Binary(operator="+" | "*" as operator, left=nodes.Name(name=name), right=other) if name == variable.name and not _reads(
            other, name
        ):
            return operator, number(body, other, into), inside
        case nodes.Binary(operator="+" | "*" as operator, left=other, right=nodes.Name(name=name)) if name == variable.name and not _reads(
            other, name
        ):
            return operator, number(body, other, into), inside
        case _:
            return None, number(body, node.value, into), False


def _reads(node: nodes.Node, name: str) -> bool:
    """Whether the name occurs in the expression."""
    return any(isinstance(part, nodes.Name) and part.name == name for part in walk(node))


def _variable(body: Body, target: nodes.Name) -> BoundVariable:
    binding = body.names.lookup(target.name)
    if binding is None:
        if target.name in body.names.sizes or target.name in body.names.unsolved:
            raise fault(
                "0205",
                f"`{target.name}` is a size and can't be assigned",
                target.span,
                hint=f"declare a variable: `var {target.name}2 = ...`",
            )
        raise undefined(body, target.name, target)
    if binding.how == "poison":
        raise silent()
    if isinstance(binding.value, BoundVariable):
        return binding.value
    hint = (
        f"declare it with `var {target.name} = ...`"
        if binding.how == "a `let`"
        else f"use a variable of its own: `var {target.name}2 = {target.name}`"
    )
    raise fault(
        "0205",
        f"`{target.name}` is {binding.how} and can't be assigned",
        target.span,
        hint=hint,
        others=(Label(binding.span, f"{binding.how} here"),),
    )


def _assign_number(body: Body, target: nodes.Expression, operator: str | None, value: Operand, node: nodes.Assign) -> None:
    if not isinstance(value, Number):
        raise fault("0203", f"`{words(target)}` needs a number", target.span)
    if isinstance(target, nodes.Index):
        store_number(body, target, value)
        return
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "this target", target)
    variable = _variable(body, target)
    if not variable.fixed:
        _flow(body, variable.key, value)
    _set(body, variable, value, node)


def _set(body: Body, variable: BoundVariable, value: Number, node: nodes.Assign) -> None:
    if (variable.fixed and node.operator is None) or (variable.fixed and not value.weak and not keeps_value(value.dtype, variable.dtype)):
        require_kept(value, variable.dtype, node.value, Label(variable.span, f"`{variable.name}` is {variable.dtype.value}"))
    body.build.set(variable.slot, value_of(body.build, value, variable.dtype))
