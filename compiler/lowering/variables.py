"""Variables of kernel bodies: `let`, `var`, and assignment to them. A `var` that starts from an unsuffixed literal takes the type
that flows in; what flows is noted here and used by the next walk."""

from compiler.diagnostics import Label
from compiler.lowering import arrays, whole_tensor
from compiler.lowering.arithmetic import binary, negate
from compiler.lowering.bindings import BoundParts, BoundVariable
from compiler.lowering.body import Body, fault, silent
from compiler.lowering.composites import Composite, alike, kind_of, leaves, mapped, numbers_of, unknown_case
from compiler.lowering.declared_types import fitted, zeros_of
from compiler.lowering.dtypes import keeps_value, scalar_named
from compiler.lowering.elements import array_named
from compiler.lowering.flows import Key
from compiler.lowering.names import part_of, read, undefined
from compiler.lowering.numbers import Nothing, Number, Operand, TensorOperand, Tuple, literal, typed, value_of
from compiler.lowering.walk import evaluate, executes, forbidden, number
from compiler.lowering.words import words
from compiler.lowering.writes import store, store_number, variable_flow
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk


@executes(nodes.Let)
def _let(body: Body, node: nodes.Let, into: DType | None) -> None:
    if arrays.declares_array(body, node):
        arrays.declare(body, node)
        return
    if body.kind in whole_tensor.KINDS and whole_tensor.let_whole(body, node, into):
        return
    if node.value is None:
        dtype = scalar_named(node.annotation)
        if dtype is None and node.annotation is not None:
            zeros = zeros_of(body, node.annotation, {})
            assert zeros is not None
            _bind_pattern(body, node.pattern, zeros, node)
            return
        if dtype is None:
            raise fault("0203", "a variable of a kernel needs a value or a number type", node.span, hint="write `var s = 0.0`")
        value: Operand = literal(0.0 if dtype.is_float else False if dtype is DType.BOOL else 0, None if dtype is DType.BOOL else dtype)
    else:
        value = evaluate(body, node.value, into)
        if node.annotation is not None and scalar_named(node.annotation) is None and isinstance(value, Composite | Number):
            value = fitted(body, value, node.annotation, node.value.span, "what is declared")
    _bind_pattern(body, node.pattern, value, node)


def _bind_pattern(body: Body, pattern: nodes.Pattern, value: Operand, node: nodes.Let) -> None:
    match pattern:
        case nodes.WildcardPattern():
            return
        case nodes.TuplePattern(elements=elements):
            if arrays.is_array(value, body) and node.value is not None and len(body.memories[value.name].dims) == 1:
                value = arrays.parts_of(body, value, node.value)
            if not isinstance(value, Tuple) or len(value.elements) != len(elements):
                raise fault("0203", f"a pattern of {len(elements)} names needs a tuple of as many", pattern.span)
            for element, part in zip(elements, value.elements, strict=True):
                _bind_pattern(body, element, part, node)
        case nodes.BindingPattern(name=name):
            if isinstance(value, Nothing):
                raise fault("0203", f"`{name}` gets no value", node.span)
            if arrays.is_array(value, body):
                arrays.bind_copy(body, name, value, node)
                return
            if node.mutable and isinstance(value, Composite):
                _declare_parts(body, name, value, node)
                return
            if not isinstance(value, Number):
                if node.mutable:
                    raise fault("0203", f"a `var` of a kernel holds numbers: `{name}` would be {kind_of(value)}", node.span)
                body.names.bind(name, value, pattern.span, "a `let`")
                return
            if node.mutable:
                _declare(body, name, value, node)
                return
            dtype = scalar_named(node.annotation)
            body.names.bind(name, value if dtype is None else _fitted(value, dtype, node, body), pattern.span, "a `let`")
        case _:
            raise forbidden(body, "this pattern", pattern)


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
    annotated = scalar_named(node.annotation)
    if annotated is not None:
        require_kept(value, annotated, node.value or node, None)
    body.names.bind(name, _variable_of(body, name, value, node, annotated), node.pattern.span, "a `var`")


def _declare_parts(body: Body, name: str, value: Composite, node: nodes.Let) -> None:
    """A `var` of several numbers."""
    numbers = numbers_of(value, node.span, "a `var`")
    unknown = unknown_case(value)
    if unknown is not None:
        hint = f"write its type: `var {name}: {unknown} = ...`"
        raise fault("0203", f"of the values that `{name}` may get, not all types are known", node.span, hint=hint)
    written = node.annotation is not None
    variables = tuple(_variable_of(body, name, part, node, part.dtype if written else None, n) for n, part in enumerate(numbers))
    body.names.bind(name, BoundParts(value, variables), node.pattern.span, "a `var`")


def _variable_of(
    body: Body, name: str, value: Number, node: nodes.Let, written: DType | None, part: int | None = None
) -> BoundVariable:
    """A variable that starts with a number; `written`: the type that it is declared with."""
    key: Key = ("var", node.span.start, node.span.path, name, tuple(span.start for _, span in body.inlining))
    if part is not None:
        key = (*key, part)
    origin: DType | None
    if written is not None:
        dtype, weak, origin, fixed = written, False, written, True
    elif not value.weak:
        dtype, weak, origin, fixed = value.dtype, False, value.origin, True
    else:
        before = body.flows.before(key, value.dtype)
        dtype, weak, origin, fixed = before.dtype, before.weak, before.origin, False
        variable_flow(body, key, value)
    slot = body.build.slot(value_of(body.build, value, dtype), name)
    return BoundVariable(name, key, slot, dtype, weak, origin, fixed, node.span, body.here.depth)


@executes(nodes.Assign)
def _assign(body: Body, node: nodes.Assign, into: DType | None) -> None:
    if node.operator == "@":
        raise fault("0109", "`@=` isn't supported yet in a kernel", node.span, hint="write the sum as a loop")
    match node.target:
        case nodes.TupleLiteral(elements=targets):
            value = evaluate(body, node.value, into)
            if not isinstance(value, Tuple) or len(value.elements) != len(targets) or node.operator is not None:
                raise fault("0203", f"{len(targets)} targets need a tuple of as many", node.span)
            parts = [arrays.copied(body, part, node.value.span) for part in value.elements]  # `(a, b) = (b, a)`
            for target, part in zip(targets, parts, strict=True):
                _assign_number(body, target, None, part, node)
        case nodes.Index() as target:
            store(body, target, node, into)
        case target:
            _assign_name(body, target, node, into)


def _assign_name(body: Body, target: nodes.Expression, node: nodes.Assign, into: DType | None) -> None:
    if isinstance(target, nodes.Field):
        _assign_part(body, target, node, into)
        return
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "an assignment to this target", target)
    binding = body.names.lookup(target.name)
    if binding is not None and isinstance(binding.value, TensorOperand):
        if (array := array_named(body, target.name)) is not None:
            arrays.assign(body, array, binding, node)
            return
        if body.kind in whole_tensor.KINDS:
            whole_tensor.assign_whole(body, target, node, into)
            return
        raise fault(
            "0203",
            f"`{target.name}` is a whole tensor: a kernel writes its elements",
            target.span,
            hint=f"write `{target.name}[i] = ...`, or use `@kernel(fused)`",
        )
    if binding is not None and isinstance(binding.value, BoundParts):
        if node.operator is not None:
            raise fault("0208", f"`{node.operator}=` needs a number, and `{target.name}` is {kind_of(binding.value.kind)}", node.span)
        set_parts(body, binding.value, binding.value.kind, binding.value.variables, evaluate(body, node.value), node)
        return
    variable = _variable(body, target)
    _assign_variable(body, variable, node, into)


def _assign_variable(body: Body, variable: BoundVariable, node: nodes.Assign, into: DType | None) -> None:
    operator, value, accumulates = _accumulation(body, variable, node, None if variable.weak else variable.dtype)
    if not variable.fixed:
        variable_flow(body, variable.key, value)
    if operator is not None:
        value = binary(body, operator, read(body, variable), value, node, accumulates)
    _set(body, variable, value, node)


def _assign_part(body: Body, target: nodes.Field, node: nodes.Assign, into: DType | None) -> None:
    """`p.x = e`, `t.0 += e`: one of the numbers of a variable, or several."""
    bound, kind, variables = variables_of(body, target)
    if len(variables) == 1 and isinstance(kind, Number):
        _assign_variable(body, variables[0], node, into)
        return
    if node.operator is not None:
        raise fault("0208", f"`{node.operator}=` needs a number, and `{words(target)}` is {kind_of(kind)}", node.span)
    set_parts(body, bound, kind, variables, evaluate(body, node.value), node)


def variables_of(body: Body, target: nodes.Expression) -> tuple[BoundParts, Operand, tuple[BoundVariable, ...]]:
    """The variables that `p.x` means, and what of `p` they are."""
    path: list[nodes.Field] = []
    while isinstance(target, nodes.Field):
        path.insert(0, target)
        target = target.value
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "an assignment to this target", target)
    binding = body.names.lookup(target.name)
    if binding is not None and not isinstance(binding.value, BoundParts | BoundVariable) and binding.how != "poison":
        hint = f"declare it with `var {target.name} = ...`"
        raise fault("0205", f"`{target.name}` is {binding.how} and can't be changed", target.span, hint=hint,
                    others=(Label(binding.span, f"{binding.how} here"),))
    if binding is None or not isinstance(binding.value, BoundParts):
        variable = _variable(body, target)
        raise fault("0202", f"`{variable.name}` is a number, and has no field `{path[0].name}`", path[0].span)
    places = iter(range(len(binding.value.variables)))
    part: Operand = mapped(binding.value.kind, lambda _: literal(next(places)))
    kind = binding.value.kind
    for field in path:
        part, kind = part_of(part, field), part_of(kind, field)
    chosen = [leaf.constant for leaf in leaves(part) if isinstance(leaf, Number)]
    return binding.value, kind, tuple(binding.value.variables[place] for place in chosen if place is not None)


def set_parts(
    body: Body, bound: BoundParts, kind: Operand, variables: tuple[BoundVariable, ...], value: Operand, node: nodes.Assign
) -> None:
    """Assigns a value of several numbers."""
    _, given = alike(kind, value, node.value.span)
    numbers = numbers_of(given, node.value.span)
    if len(numbers) != len(variables):
        raise fault("0203", f"this is {kind_of(value)} of other types than the variable's", node.value.span)
    for variable, number_ in zip(variables, numbers, strict=True):
        if not variable.fixed:
            variable_flow(body, variable.key, number_)
        _set(body, variable, number_, node)


def _accumulation(body: Body, variable: BoundVariable, node: nodes.Assign, into: DType | None) -> tuple[str | None, Number, bool]:
    """`s += e` and `s = s + e` (either side, e free of s): operator, e, and whether a reduction's step is written so."""
    inside = body.here.depth > variable.depth
    if node.operator is not None:
        value = number(body, node.value, into)
        if node.operator == "-" and variable.dtype.is_float and not value.dtype.is_int:
            return "+", negate(body, value), inside
        return node.operator, value, inside and node.operator in "+*"
    match node.value:
        case nodes.Binary(operator="+" | "*" as operator, left=nodes.Name(name=name), right=other) if (
            isinstance(node.target, nodes.Name) and name == variable.name and not _reads(other, name)
        ):
            return operator, number(body, other, into), inside
        case nodes.Binary(operator="+" | "*" as operator, left=other, right=nodes.Name(name=name)) if (
            isinstance(node.target, nodes.Name) and name == variable.name and not _reads(other, name)
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
    if isinstance(target, nodes.Field):
        bound, kind, variables = variables_of(body, target)
        set_parts(body, bound, kind, variables, value, node)
        return
    if isinstance(target, nodes.Name) and (binding := body.names.lookup(target.name)) is not None and isinstance(binding.value, BoundParts):
        set_parts(body, binding.value, binding.value.kind, binding.value.variables, value, node)
        return
    if isinstance(target, nodes.Name) and (array := array_named(body, target.name)) is not None:
        binding = body.names.lookup(target.name)
        assert binding is not None
        arrays.assign_operand(body, array, binding, value, node)
        return
    if not isinstance(value, Number):
        raise fault("0203", f"`{words(target)}` needs a number", target.span)
    if isinstance(target, nodes.Index):
        store_number(body, target, value)
        return
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "this target", target)
    variable = _variable(body, target)
    if not variable.fixed:
        variable_flow(body, variable.key, value)
    _set(body, variable, value, node)


def _set(body: Body, variable: BoundVariable, value: Number, node: nodes.Assign) -> None:
    if (variable.fixed and node.operator is None) or (variable.fixed and not value.weak and not keeps_value(value.dtype, variable.dtype)):
        require_kept(value, variable.dtype, node.value, Label(variable.span, f"`{variable.name}` is {variable.dtype.value}"))
    body.build.set(variable.slot, value_of(body.build, value, variable.dtype))
