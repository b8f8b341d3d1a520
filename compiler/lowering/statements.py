"""Statements of kernel bodies: loops, branches, variables, writes. Each is lowered on its own: an error in one is reported and
the next one goes on; names that a broken statement would have bound stay silent."""

from collections.abc import Callable

from attrs import evolve

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.hir.control import If as HirIf
from compiler.hir.control import While as HirWhile
from compiler.hir.instruction import Region
from compiler.lowering.arithmetic import ACCUMULATE, binary, form_of, negate
from compiler.lowering.body import Access, Body, Fault, Memory, Variable, fault, silent
from compiler.lowering.dtypes import accumulator, hir_name, keeps_value, scalar_named
from compiler.lowering.expressions import (
    choose,
    dotted,
    evaluate,
    forbidden,
    number,
    read,
    truth,
    undefined,
)
from compiler.lowering.indices import guard, index_forms, load, note
from compiler.lowering.numbers import Nothing, Number, Operand, Tensor, Tuple, affine, literal, meet, typed, value_of
from compiler.lowering.ranges import Range, loop_range
from compiler.lowering.words import words
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk

Inside = Callable[[], None]

_JUMPS = (nodes.Break, nodes.Continue)
_MOST_BRANCHES = 1000


def run_statements(body: Body, block: nodes.Block) -> None:
    """The block for its effects."""
    with body.scope():
        run_all(body, block.statements)


def run_all(body: Body, statements: tuple[nodes.Statement, ...]) -> None:
    for statement in statements:
        with body.spanned(statement.span):
            try:
                run(body, statement)
            except Fault as found:
                if found.diagnostic.code:
                    body.report(found.diagnostic)
                _poison(body, statement)
        if isinstance(statement, _JUMPS):
            return


def _poison(body: Body, statement: nodes.Statement) -> None:
    if isinstance(statement, nodes.Let):
        for name in _names_of(statement.pattern):
            body.bind(name, Nothing(), statement.span, "poison")


def _names_of(pattern: nodes.Pattern) -> list[str]:
    match pattern:
        case nodes.BindingPattern(name=name):
            return [name]
        case nodes.TuplePattern(elements=elements):
            return [name for element in elements for name in _names_of(element)]
        case _:
            return []


def block_value(body: Body, block: nodes.Block) -> Operand:
    """The block as an expression: the value of its last expression statement."""
    with body.scope():
        *before, last = block.statements or (None,)
        for statement in before:
            assert statement is not None
            run(body, statement)
        if isinstance(last, nodes.ExpressionStatement):
            return evaluate(body, last.value)
        if last is not None:
            run(body, last)
        return Nothing()


def run(body: Body, statement: nodes.Statement) -> None:
    match statement:
        case nodes.For():
            if body.on_for is None or not body.on_for(body, statement):
                run_for(body, statement)
        case nodes.Let():
            _let(body, statement)
        case nodes.Assign():
            _assign(body, statement)
        case nodes.ExpressionStatement(value=value):
            _expression(body, value)
        case nodes.Yield():
            if body.on_yield is None or body.inlining:
                raise fault("0408", "`yield` stands outside a kernel that collects values", statement.span)
            body.on_yield(body, statement)
        case nodes.While(condition=condition, body=block):
            _while(body, condition, block)
        case nodes.Break():
            _jump(body, statement, "break")
        case nodes.Continue():
            _jump(body, statement, "continue")
        case nodes.SharedVariable():
            handler = body.extra.get("shared")
            if handler is None:
                kind = body.kind.value if body.kind else "inferred"
                raise fault(
                    "0413",
                    f"`shared var` needs a kernel of kind `custom` or `fused`: this one is {kind}",
                    statement.span,
                    hint="add `@kernel(fused)` or `@kernel(custom)` to the block",
                )
            handler(body, statement)
        case nodes.Return():
            raise forbidden(body, "`return`" if not body.inlining else "`return` inside a loop of a called function", statement)
        case nodes.LaterStatement(feature=feature):
            raise fault("0109", f"{feature} isn't supported yet in a kernel", statement.span)
        case nodes.Render():
            raise forbidden(body, "`render`", statement)
        case nodes.Declaration():
            raise forbidden(body, "a declaration", statement)
        case _:
            raise forbidden(body, "this statement", statement)


def _jump(body: Body, statement: nodes.Statement, word: str) -> None:
    if not body.extra.get("loop_depth"):
        raise fault("0402", f"`{word}` stands outside a loop", statement.span, hint="leave it out, or put it inside a `for` or `while`")
    if word == "break":
        body.build.break_()
    else:
        body.build.continue_()


# ---- loops -------------------------------------------------------------------------------------------------------------


def run_for(body: Body, node: nodes.For, clause: int = 0) -> None:
    """The loops of the statement's clauses, outermost first, then its body."""
    if clause == len(node.clauses):
        run_statements(body, node.body)
        return
    one = node.clauses[clause]
    try:
        low, high, step = loop_bounds(body, one)
    except Fault as found:
        if found.diagnostic.code:
            body.report(found.diagnostic)
        with body.scope():
            body.bind(one.names[0], Nothing(), one.span, "poison")
            run_for(body, node, clause + 1)
        return
    marks = loop_marks(body, node) if clause == 0 else {}
    enter_loop(body, one, low, high, step, lambda: run_for(body, node, clause + 1), has_jump(node.body), marks)


def loop_bounds(body: Body, clause: nodes.ForClause) -> tuple[Affine, Affine, int]:
    """Low, high (exclusive) and step of a loop's range."""
    source = clause.source
    if not isinstance(source, nodes.Range) or len(clause.names) != 1:
        raise fault(
            "0410",
            f"a kernel loops over ranges of ints, not over `{words(source)}`",
            source.span,
            hint=f"write `for {clause.names[0]} in 0..N`",
        )
    low, high = _bound(body, source.low), _bound(body, source.high)
    step = 1
    if source.step is not None:
        constant = number(body, source.step).constant
        if body.kind is KernelType.CUSTOM and constant is None:
            return low, high, 0
        if constant is None or constant == 0:
            what = "0" if constant == 0 else f"`{words(source.step)}`, which isn't constant"
            raise fault("0203", f"the step of a kernel's loop must be a constant other than 0: it is {what}", source.step.span)
        step = constant
    if source.inclusive:
        high = high + (1 if step > 0 else -1)
    return low, high, step


def _bound(body: Body, node: nodes.Expression) -> Affine:
    found = number(body, node)
    if not found.dtype.is_int:
        raise fault(
            "0203", f"a loop's bound must be an int: `{words(node)}` is {found.shown}", node.span, hint=f"write `({words(node)}) as i64`"
        )
    return form_of(body, found)


def enter_loop(
    body: Body, clause: nodes.ForClause, low: Affine, high: Affine, step: int, inside: Inside, jumps: bool, marks: dict[str, object]
) -> None:
    """A loop around what `inside` emits."""
    if step == 0:
        body.extra["dynamic_loop"](body, clause, low, high, inside)
        return
    name = clause.names[0]
    with body.build.loop(name, low, high, step, (), "time", **marks) as (inner, handle):
        one = loop_range(handle.variable.name, low, high, step)
        with body.at(inner), body.scope(), ranged(body, clause, one):
            if jumps:
                with body.branch(body.construct(), 0):
                    inside()
            else:
                inside()


class ranged:
    """While inside, the loop's variable is bound and its range known."""

    def __init__(self, body: Body, clause: nodes.ForClause, one: Range, form: Affine | None = None) -> None:
        self.body, self.clause, self.one, self.form = body, clause, one, form

    def __enter__(self) -> None:
        body, span = self.body, (self.clause.name_spans or (self.clause.span,))[0]
        self.mark, self.depth, self.guards = body.facts.mark(), len(body.ranges), len(body.guards)
        body.enter_range(self.one)
        body.loops.append((self.clause.names[0], self.one))
        body.bind(self.clause.names[0], affine(Affine.of(self.one.name) if self.form is None else self.form), span, "a loop variable")
        body.extra["loop_depth"] = body.extra.get("loop_depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        body = self.body
        body.facts.forget(self.mark)
        del body.ranges[self.depth :]
        del body.guards[self.guards :]
        body.loops.pop()
        body.extra["loop_depth"] -= 1


_LOOP_MARKS = ("unroll", "vectorize", "parallel", "serial")


def loop_marks(body: Body, node: nodes.For) -> dict[str, object]:
    marks: dict[str, object] = {}
    for annotation in node.annotations:
        if annotation.name not in _LOOP_MARKS:
            continue
        constant = number(body, annotation.arguments[0].value).constant if annotation.arguments else None
        marks[annotation.name] = constant if constant is not None else True
    return marks


def has_jump(block: nodes.Block) -> bool:
    """Whether a `break` or `continue` of the loop around the block stands in it."""
    for statement in block.statements:
        match statement:
            case nodes.Break() | nodes.Continue():
                return True
            case nodes.ExpressionStatement(value=nodes.If() as branch):
                if has_jump(branch.then) or (branch.otherwise is not None and has_jump(branch.otherwise)):
                    return True
            case nodes.ExpressionStatement(value=nodes.Block() as inner):
                if has_jump(inner):
                    return True
            case _:
                pass
    return False


def _while(body: Body, condition: nodes.Expression, block: nodes.Block) -> None:
    op = HirWhile(before=Region(), body=Region())
    mark = body.facts.mark()
    with body.at(body.build.child(op.before)), body.branch(body.construct(), 0):
        found = truth(body, condition)
        body.build.condition(found.value)
    depth = len(body.ranges)
    with body.at(body.build.child(op.body)), body.branch(body.construct(), 0, found.yes):
        body.extra["loop_depth"] = body.extra.get("loop_depth", 0) + 1
        run_statements(body, block)
        body.extra["loop_depth"] -= 1
    del body.ranges[depth:]
    body.facts.forget(mark)
    body.build.emit(op)


# ---- branches ----------------------------------------------------------------------------------------------------------


def _expression(body: Body, node: nodes.Expression) -> None:
    match node:
        case nodes.If(condition=condition, then=then, otherwise=otherwise):
            _if(body, condition, then, otherwise)
        case nodes.Block():
            run_statements(body, node)
        case nodes.Call(function=nodes.Name(name="barrier")) if body.kind in (KernelType.FUSED, KernelType.CUSTOM):
            body.extra["barrier"](body, node)
        case _:
            evaluate(body, node)


def _if(body: Body, condition: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None) -> None:
    found = truth(body, condition)
    construct = body.construct()
    op = HirIf(condition=found.value, otherwise=None if otherwise is None else Region())
    depth = len(body.ranges)
    for branch, (block, region, assumed) in enumerate(((then, op.then, found.yes), (otherwise, op.otherwise, found.no))):
        if block is None or region is None:
            continue
        with body.at(body.build.child(region)), body.branch(construct, branch, assumed):
            run_statements(body, block)
        del body.ranges[depth:]
    body.build.emit(op)
    if otherwise is None and then.statements and isinstance(then.statements[-1], _JUMPS):
        body.assume(found.no)


# ---- variables ---------------------------------------------------------------------------------------------------------


def _let(body: Body, node: nodes.Let) -> None:
    if isinstance(node.pattern, nodes.BindingPattern) and body.extra.get("whole_let") is not None and body.extra["whole_let"](body, node):
        return
    if node.value is None:
        dtype = scalar_named(node.annotation)
        if dtype is None:
            raise fault("0203", "a variable of a kernel needs a value or a number type", node.span, hint="write `var s = 0.0`")
        value: Operand = literal(0.0 if dtype.is_float else False if dtype is DType.BOOL else 0, None if dtype is DType.BOOL else dtype)
    else:
        value = evaluate(body, node.value)
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
                body.bind(name, value, pattern.span, "a `let`")
                return
            if node.mutable:
                _declare(body, name, value, node)
                return
            dtype = scalar_named(node.annotation)
            body.bind(name, value if dtype is None else _fitted(value, dtype, node, body), pattern.span, "a `let`")
        case _:
            raise forbidden(body, "this pattern", pattern)


def _what(value: Operand) -> str:
    return "a tensor" if isinstance(value, Tensor) else "a tuple"


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
        dtype, weak, origin = body.flows.get(key, (value.dtype, True, None))
        fixed = False
        _flow(body, key, value)
    slot = body.build.slot(value_of(body.build, value, dtype), name)
    variable = Variable(name, key, slot, dtype, weak, origin, fixed, node.span, body.extra.get("loop_depth", 0))
    body.bind(name, variable, node.pattern.span, "a `var`")


def kept_in(body: Body, dtype: DType) -> DType:
    """The type of a sum: as `@precision(acc=)` says for floats, else the usual one."""
    given = body.kernel.hints.accumulator
    return DType(given) if given is not None and dtype.is_float else accumulator(dtype)


def _flow(body: Body, key: tuple[object, ...], value: Number) -> None:
    """The value reaches the variable: join its type to what reached it before."""
    have = body.new_flows.get(key)
    known = [] if have is None else [Number(have[0], weak=have[1], origin=have[2])]
    dtype, weak, origin = meet(*known, value)
    if not weak:
        dtype = kept_in(body, dtype)
        if origin is not None and not origin.is_float:
            origin = accumulator(origin)
    body.new_flows[key] = (dtype, weak, origin)


def _assign(body: Body, node: nodes.Assign) -> None:
    if node.operator == "@":
        raise fault("0109", "`@=` isn't supported yet in a kernel", node.span, hint="write the sum as a loop")
    match node.target:
        case nodes.TupleLiteral(elements=targets):
            value = evaluate(body, node.value)
            if not isinstance(value, Tuple) or len(value.elements) != len(targets) or node.operator is not None:
                raise fault("0203", f"{len(targets)} targets need a tuple of as many", node.span)
            for target, part in zip(targets, value.elements, strict=True):
                _assign_number(body, target, None, part, node)
        case nodes.Index() as target:
            _store(body, target, node)
        case target:
            _assign_name(body, target, node)


def _assign_name(body: Body, target: nodes.Expression, node: nodes.Assign) -> None:
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "an assignment to a field", target)
    binding = body.lookup(target.name)
    whole = body.extra.get("whole_assign")
    if binding is not None and isinstance(binding.value, Tensor):
        if whole is not None and whole(body, target, node):
            return
        raise fault(
            "0203",
            f"`{target.name}` is a whole tensor: a kernel writes its elements",
            target.span,
            hint=f"write `{target.name}[i] = ...`, or use `@kernel(fused)`",
        )
    variable = _variable(body, target)
    before, body.widen = body.widen, variable.dtype if not variable.weak else None
    try:
        operator, value, flags = _accumulation(body, variable, node)
    finally:
        body.widen = before
    if not variable.fixed:
        _flow(body, variable.key, value)
    if operator is not None:
        value = binary(body, operator, read(body, variable), value, node, flags)
    _set(body, variable, value, node)


def _accumulation(body: Body, variable: Variable, node: nodes.Assign) -> tuple[str | None, Number, tuple[str, ...] | None]:
    """`s += e` and `s = s + e` (either side, e free of s): operator, e, and the liberties of the addition."""
    inside = body.extra.get("loop_depth", 0) > variable.depth
    if node.operator is not None:
        value = number(body, node.value)
        if node.operator == "-" and variable.dtype.is_float and not value.dtype.is_int:
            return "+", negate(body, value), ACCUMULATE if inside else None
        return node.operator, value, ACCUMULATE if inside and node.operator in "+*" else None
    match node.value:
        case nodes.Binary(operator="+" | "*" as operator, left=nodes.Name(name=name), right=other) if name == variable.name and not _reads(
            other, name
        ):
            return operator, number(body, other), ACCUMULATE if inside else None
        case nodes.Binary(operator="+" | "*" as operator, left=other, right=nodes.Name(name=name)) if name == variable.name and not _reads(
            other, name
        ):
            return operator, number(body, other), ACCUMULATE if inside else None
        case _:
            return None, number(body, node.value), None


def _reads(node: nodes.Node, name: str) -> bool:
    """Whether the name occurs in the expression."""
    return any(isinstance(part, nodes.Name) and part.name == name for part in walk(node))


def _variable(body: Body, target: nodes.Name) -> Variable:
    binding = body.lookup(target.name)
    if binding is None:
        if target.name in body.sizes or target.name in body.size_candidates:
            raise fault(
                "0205",
                f"`{target.name}` is a size and can't be assigned",
                target.span,
                hint=f"declare a variable: `var {target.name}2 = ...`",
            )
        raise undefined(body, target.name, target)
    if binding.how == "poison":
        raise silent()
    if isinstance(binding.value, Variable):
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
        _store_number(body, target, value)
        return
    if not isinstance(target, nodes.Name):
        raise forbidden(body, "this target", target)
    variable = _variable(body, target)
    if not variable.fixed:
        _flow(body, variable.key, value)
    _set(body, variable, value, node)


def _set(body: Body, variable: Variable, value: Number, node: nodes.Assign) -> None:
    if (variable.fixed and node.operator is None) or (variable.fixed and not value.weak and not keeps_value(value.dtype, variable.dtype)):
        require_kept(value, variable.dtype, node.value, Label(variable.span, f"`{variable.name}` is {variable.dtype.value}"))
    body.build.set(variable.slot, value_of(body.build, value, variable.dtype))


# ---- writes ------------------------------------------------------------------------------------------------------------


def target_memory(body: Body, target: nodes.Index) -> Memory:
    """The memory that the target names, when it may be written."""
    name = dotted(target.value)
    binding = body.lookup(name) if name is not None else None
    if name is None or binding is None:
        if isinstance(target.value, nodes.Name):
            raise undefined(body, target.value.name, target.value)
        raise forbidden(body, "this target", target)
    if binding.how == "poison":
        raise silent()
    if not isinstance(binding.value, Tensor):
        raise fault(
            "0304",
            f"`{name}` is a number and takes no index",
            target.span,
            hint=f"write `{name} = ...`",
            others=(Label(binding.span, f"{binding.how} here"),),
        )
    memory = body.memories[binding.value.name]
    if memory.writable:
        return memory
    if memory.role == "captured":
        raise fault(
            "0409",
            f"`{name}` is captured, and a kernel may not write it",
            target.span,
            hint=f"make it an input that is updated: `compute(mut {name})`",
            others=(Label(binding.span, "captured from here"),),
        )
    other: Span | None = body.extra.get("result_write")
    raise fault(
        "0409",
        f"`{name}` is an input, and `{body.results[0] if body.results else 'out'}` is written too",
        target.span,
        f"write to input `{name}`",
        f"update it in place: `compute(mut {name})`, or write a second result",
        (Label(other, "the other write"),) if other is not None else (),
    )


def _store(body: Body, target: nodes.Index, node: nodes.Assign) -> None:
    if node.operator is None:
        value = evaluate(body, node.value)
        if not isinstance(value, Number):
            raise fault("0203", f"`{words(target)}` needs a number", node.value.span)
        _store_number(body, target, value, node)
        return
    memory = target_memory(body, target)
    value = number(body, node.value)
    forms, spans = _target_forms(body, memory, target)
    kept, flags = value, None
    if node.operator in ("+", "-", "*") and memory.dtype.is_float and body.extra.get("loop_depth", 0):
        flags = ACCUMULATE if node.operator != "-" else None
    old = load(body, memory, forms, target, spans)
    body.accesses[-1] = _as_accumulating(body)
    if node.operator == "-" and value.dtype.is_float:
        made = binary(body, "+", old, negate(body, value), node, ACCUMULATE if body.extra.get("loop_depth", 0) else None)
    else:
        made = binary(body, node.operator, old, value, node, flags)
    _write(body, memory, forms, made, kept, target, spans, node)


def _as_accumulating(body: Body) -> Access:
    return evolve(body.accesses[-1], accumulates=True)


def _store_number(body: Body, target: nodes.Index, value: Number, node: nodes.Assign | None = None) -> None:
    memory = target_memory(body, target)
    forms, spans = _target_forms(body, memory, target)
    _write(body, memory, forms, value, value, target, spans, node)


def _target_forms(body: Body, memory: Memory, target: nodes.Index) -> tuple[tuple[Affine, ...], tuple[Span, ...]]:
    indices = [(number(body, index), index) for index in target.indices]
    if memory.role == "result" and not memory.dims and not body.final and body.extra.get("rank_open", {}).get(memory.name):
        body.extra["open_rank"](body, memory, len(indices))
    forms = index_forms(body, memory, indices, target)
    if memory.role in ("result", "input") and body.kind is not KernelType.CUSTOM:
        for form, (_, index) in zip(forms, indices, strict=True):
            if any(name in body.opaque for name in form.names):
                raise fault(
                    "0406",
                    f"`{words(target)}` writes at an index that isn't affine in the loop variables",
                    target.span,
                    hint="read through the index instead, or use `@kernel(custom)` with `atomic_add`",
                    others=(Label(index.span, f"`{words(index)}` is known only as it runs"),),
                )
    return forms, tuple(index.span for index in target.indices)


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
    if value.dtype.is_float and not memory.dtype.is_float and (body.final or memory.role != "result"):
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


def result_flow(body: Body, name: str, value: Number) -> None:
    """A value is stored to a result: join its dtype to the result's."""
    key = ("result", name)
    have = body.new_flows.get(key)
    known = [] if have is None else [Number(have[0], weak=have[1])]
    made = Number(value.origin, weak=False) if value.origin is not None else Number(value.dtype, weak=value.weak)
    dtype, weak, _ = meet(*known, made)
    body.new_flows[key] = (dtype, weak, None if weak else dtype)


# ---- functions ---------------------------------------------------------------------------------------------------------


def function_value(body: Body, function: nodes.Function) -> Operand:
    """The body of a called function as a value; `return` may stand last on each way through it."""
    assert function.body is not None
    return _tail(body, function.body.statements, function)


def _tail(body: Body, statements: tuple[nodes.Statement, ...], function: nodes.Function) -> Operand:
    for place, statement in enumerate(statements):
        rest = statements[place + 1 :]
        match statement:
            case nodes.Return(value=value):
                return Nothing() if value is None else evaluate(body, value)
            case nodes.ExpressionStatement(value=nodes.If() as branch) if not rest or _returns(branch):
                otherwise = branch.otherwise.statements if branch.otherwise is not None else ()
                return _choose_tail(body, branch, branch.then.statements, otherwise, rest, function)
            case nodes.ExpressionStatement(value=value) if not rest:
                return evaluate(body, value)
            case _:
                run(body, statement)
    return Nothing()


def _choose_tail(
    body: Body,
    branch: nodes.If,
    then: tuple[nodes.Statement, ...],
    otherwise: tuple[nodes.Statement, ...],
    rest: tuple[nodes.Statement, ...],
    function: nodes.Function,
) -> Operand:
    body.calls += 1
    if body.calls > _MOST_BRANCHES:
        raise fault(
            "0410",
            f"`{function.name}` returns on too many ways to be written out in place",
            branch.span,
            hint="give it one `return`, at its end",
        )

    def side(first: tuple[nodes.Statement, ...]) -> Number:
        with body.scope():
            found = _tail(body, (*first, *rest), function)
        if not isinstance(found, Number):
            raise fault(
                "0209", f"`{function.name}` gives no number on this path", branch.span, others=(Label(function.name_span, "declared here"),)
            )
        return found

    return choose(body, branch.condition, lambda: side(then), lambda: side(otherwise), branch)


def _returns(branch: nodes.If) -> bool:
    blocks = [branch.then, *([branch.otherwise] if branch.otherwise is not None else [])]
    return any(
        isinstance(statement, nodes.Return)
        or (isinstance(statement, nodes.ExpressionStatement) and isinstance(statement.value, nodes.If) and _returns(statement.value))
        for block in blocks
        for statement in block.statements
    )


_ = hir_name
