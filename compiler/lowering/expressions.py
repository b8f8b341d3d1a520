"""Expressions of kernel bodies: from the tree to numbers. Statements inside expressions (`if`, blocks) go through the body's
`run_block`, so that this module needs no other that reads statements."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic, Label
from compiler.hir.affine import Affine
from compiler.hir.control import If as HirIf
from compiler.hir.instruction import Effect, Region, Value
from compiler.hir.memory import GetSlot, Load
from compiler.hir.types import Tile
from compiler.lowering import library
from compiler.lowering.arithmetic import COMPARISONS, binary, bits, compare, comparison_facts, in_sum, negate
from compiler.lowering.body import Binding, Body, Memory, Variable, fault, silent
from compiler.lowering.dtypes import ALIASES, hir_name, scalar_named
from compiler.lowering.functions import call_function
from compiler.lowering.indices import index_forms, load
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import (
    Number,
    Operand,
    Tensor,
    Tuple,
    affine,
    index_value,
    integer,
    literal,
    meet,
    typed,
    value_of,
)
from compiler.lowering.suggest import nearest
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from runtime.records import frozen

Alternative = Callable[[], Number]

_CONSTANTS = {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}


@frozen(eq=False)
class Truth:
    """A condition: its value, and the forms that are at least 0 where it holds (`yes`) and where it doesn't (`no`)."""

    value: Value
    yes: tuple[Affine, ...] = ()
    no: tuple[Affine, ...] = ()
    known: bool | None = None


def number(body: Body, node: nodes.Expression) -> Number:
    """The expression as a number; anything else is an error."""
    found = evaluate(body, node)
    if isinstance(found, Number):
        return found
    if isinstance(found, Tuple) and found.counts and isinstance(found.elements[0], Number):
        return found.elements[0]
    if isinstance(found, Tensor) and "element_of" in body.extra:
        element: Number | None = body.extra["element_of"](body, found, node)
        if element is not None:
            return element
    raise _no_number(body, found, node)


def _no_number(body: Body, found: Operand, node: nodes.Expression) -> Exception:
    if isinstance(found, Tensor):
        rank = len(body.memories[found.name].dims)
        return fault(
            "0203",
            f"`{words(node)}` is a tensor of {rank} {'axis' if rank == 1 else 'axes'} where a number is needed",
            node.span,
            "a whole tensor",
            f"index it: `{words(node)}[{', '.join('ijklmn'[:rank])}]`",
        )
    what = "a tuple" if isinstance(found, Tuple) else "no value"
    return fault("0203", f"`{words(node)}` is {what} where a number is needed", node.span)


def evaluate(body: Body, node: nodes.Expression) -> Operand:
    with body.spanned(node.span):
        return _evaluate(body, node)


def _evaluate(body: Body, node: nodes.Expression) -> Operand:
    match node:
        case nodes.IntLiteral(value=value, suffix=suffix):
            return _suffixed(value, suffix, node)
        case nodes.FloatLiteral(value=value, suffix=suffix):
            return _suffixed(value, suffix, node)
        case nodes.BoolLiteral(value=value):
            return literal(value)
        case nodes.Name(name=name):
            return name_value(body, name, node)
        case nodes.Field():
            return _field(body, node)
        case nodes.Index():
            return _index(body, node)
        case nodes.Call():
            return _call(body, node)
        case nodes.Unary(operator="-", operand=operand):
            return negate(body, number(body, operand))
        case nodes.Unary(operator="not"):
            return _bool(body, node)
        case nodes.Binary(operator=operator) if operator in ("and", "or") or operator in COMPARISONS:
            return _bool(body, node)
        case nodes.Binary():
            return _binary(body, node)
        case nodes.Conditional(condition=condition, then=then, otherwise=otherwise):
            return choose(body, condition, lambda: number(body, then), lambda: number(body, otherwise), node)
        case nodes.If():
            return _if(body, node)
        case nodes.Block():
            assert body.run_block is not None
            return body.run_block(body, node)
        case nodes.Cast(value=value, target=target):
            return _cast(body, number(body, value), target, node)
        case nodes.TupleLiteral(elements=elements):
            return Tuple(tuple(evaluate(body, element) for element in elements))
        case nodes.Match():
            raise fault("0109", "`match` isn't supported yet in a kernel", node.span, hint="write `if`, `elif` and `else` with `==`")
        case _:
            raise not_in_kernel(body, node)


def _binary(body: Body, node: nodes.Binary) -> Number:
    operator = node.operator
    if operator in ("??", "in"):
        raise not_in_kernel(body, node)
    left, right = number(body, node.left), number(body, node.right)
    if operator == "@":
        raise fault(
            "0109",
            "`@` of tiles isn't supported yet in a kernel",
            node.operator_span,
            hint="write the sum as a loop: `s += A[i, k] * B[k, j]`",
        )
    if operator in ("&", "<<", ">>"):
        return bits(body, {"&": "and", "<<": "shl", ">>": "shr"}[operator], left, right, node)
    return binary(body, operator, left, right, node)


_CONSTRUCTS: tuple[tuple[type[nodes.Node] | tuple[type[nodes.Node], ...], str], ...] = (
    ((nodes.StringLiteral, nodes.FString), "a string"),
    ((nodes.ListLiteral, nodes.Comprehension), "a list"),
    (nodes.DictLiteral, "a map"),
    (nodes.RecordLiteral, "a struct"),
    (nodes.Lambda, "a lambda"),
    (nodes.Range, "a range as a value"),
    (nodes.UnitNumber, "a number with a unit"),
    (nodes.Compute, "a `compute` block inside a kernel"),
    ((nodes.Try, nodes.Propagate), "an error handler"),
    (nodes.Path, "a name with `::`"),
    (nodes.Await, "`await`"),
)


def not_in_kernel(body: Body, node: nodes.Node) -> Exception:
    """0410: what the construct is, and through which calls it was reached."""
    what = next((text for kinds, text in _CONSTRUCTS if isinstance(node, kinds)), "this construct")
    if isinstance(node, nodes.LaterExpression):
        what = node.feature
    return forbidden(body, what, node)


def forbidden(body: Body, what: str, node: nodes.Node) -> Exception:
    chain = " -> ".join(f"`{name}`" for name, _ in body.inlining)
    notes = (f"reached through {chain}",) if chain else ()
    return fault(
        "0410", f"{what} can't stand in a kernel", node.span, hint="compute it before the block and pass the numbers in", notes=notes
    )


def _suffixed(value: int | float, suffix: str | None, node: nodes.Expression) -> Number:
    if suffix is None:
        return literal(value)
    dtype = ALIASES.get(suffix)
    if dtype is None:
        raise fault("0106", f"unknown suffix `{suffix}`", node.span, hint="known: " + ", ".join(d.value for d in DType))
    return literal(float(value) if dtype.is_float else value, dtype)


def name_value(body: Body, name: str, node: nodes.Expression) -> Operand:
    """What the name means here: a binding, a size, a constant."""
    binding = body.lookup(name)
    if binding is not None:
        if binding.how == "poison":
            raise silent()
        value = read(body, binding.value) if isinstance(binding.value, Variable) else binding.value
        return in_sum(body, value) if isinstance(value, Number) and value.dtype is not DType.BOOL else value
    size = body.size(name, node.span)
    if size is not None:
        return size
    if name in _CONSTANTS:
        return literal(_CONSTANTS[name])
    raise undefined(body, name, node)


def undefined(body: Body, name: str, node: nodes.Node) -> Exception:
    sizes = set(body.sizes) | set(body.extra.get("bounds", ()))
    have = ({n for scope in body.scopes for n in scope} | sizes | set(body.signature.functions) | library.NAMES) - {name}
    near = nearest(name, have)
    hint = f"did you mean {near}?" if near else "a size must stand in a loop's range: `for i in 0..N`"
    return fault("0201", f"`{name}` is not defined", node.span, hint=hint)


def read(body: Body, variable: Variable) -> Number:
    return typed(body.build.get(variable.slot), variable.dtype, variable.origin, variable.weak)


def dotted(node: nodes.Expression) -> str | None:
    """`w.proj` as the name of an input, None for other expressions."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Field):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.name}"
    return None


def _field(body: Body, node: nodes.Field) -> Operand:
    path = dotted(node)
    if path is not None:
        binding = body.lookup(path)
        if binding is not None:
            return read(body, binding.value) if isinstance(binding.value, Variable) else binding.value
    owner = evaluate(body, node.value)
    if isinstance(owner, Tensor):
        if node.name == "shape":
            return Tuple(tuple(affine(dim) for dim in shape_of(body, owner)))
        raise fault(
            "0202", f"a tensor in a kernel has no field `{node.name}`", node.span, hint="it has `shape`, `shape(d)`, `numel()` and `len(x)`"
        )
    if isinstance(owner, Tuple):
        position = int(node.name) if node.name.isdigit() else {"x": 0, "y": 1, "z": 2}.get(node.name, len(owner.elements))
        if position < len(owner.elements):
            return owner.elements[position]
        raise fault("0202", f"the tuple has {len(owner.elements)} elements, no `.{node.name}`", node.span)
    raise fault("0202", f"a number has no field `{node.name}`", node.span)


def shape_of(body: Body, tensor: Tensor) -> tuple[Affine, ...]:
    memory = body.memories[tensor.name]
    return memory.shape if memory.flat else memory.dims


def _index(body: Body, node: nodes.Index) -> Operand:
    if any(isinstance(index, (nodes.Slice, nodes.EllipsisIndex)) for index in node.indices):
        raise fault(
            "0109",
            f"the slice `{words(node)}` isn't supported yet in a kernel",
            node.span,
            hint="loop over the elements: `for t in 0..64: ... x[q + t]`",
        )
    owner = evaluate(body, node.value)
    if isinstance(owner, Tuple):
        position = number(body, node.indices[0]).constant if len(node.indices) == 1 else None
        if position is None or not -len(owner.elements) <= position < len(owner.elements):
            rank = len(owner.elements)
            raise fault("0307", f"`{words(node)}` needs one constant from 0 to {rank - 1}", node.span, f"{rank} elements")
        return owner.elements[position]
    if not isinstance(owner, Tensor):
        raise _not_indexable(body, node)
    memory = body.memories[owner.name]
    if body.extra.get("rank_open", {}).get(memory.name):
        body.extra["open_rank"](body, memory, len(node.indices))
    indices = indices_of(body, node)
    if memory.name in body.extra.get("broadcast", {}):
        indices = _broadcast(body, memory, body.extra["broadcast"][memory.name], indices, node)
    forms = index_forms(body, memory, indices, node)
    return load(body, memory, forms, node, tuple(index.span for _, index in indices))


def indices_of(body: Body, node: nodes.Index) -> list[tuple[Number, nodes.Expression]]:
    """Where an element stands, which goes into no sum."""
    with body.widening(None):
        return [(number(body, index), index) for index in node.indices]


def _broadcast(
    body: Body, memory: Memory, axes: tuple[int, ...], indices: list[tuple[Number, nodes.Expression]], node: nodes.Expression
) -> list[tuple[Number, nodes.Expression]]:
    """`@broadcast(v, axis=1)`: `v` varies along these axes of `out` only. Its indices are those of `out`, or those of its own axes."""
    rank, given = len(memory.dims), len(indices)
    _require_axes(body, memory, axes, node)
    if rank == given == len(axes):
        return indices
    kept = sorted(axis % given for axis in axes if -given <= axis < given)
    if rank == given:
        one = Affine((), 1)
        for axis in range(rank):
            if axis not in kept and body.final and memory.dims[axis] != one:
                message = f"`{memory.name}` is broadcast along axis {axis}, where it has {{left}} elements and not 1"
                said = Diagnostic("0802", message, node.span, hint=f"leave `{memory.name}` out of `@broadcast`, or give it 1 element there")
                body.equations.append(Equation(memory.dims[axis], one, "==", said))
        return [index if axis in kept else (integer(0), index[1]) for axis, index in enumerate(indices)]
    return [indices[axis] for axis in kept] if len(kept) == rank else indices


def _require_axes(body: Body, memory: Memory, axes: tuple[int, ...], node: nodes.Expression) -> None:
    """Refuse axes that no result has; ranks of results are known in the last walk."""
    ranks = [len(body.memories[name].dims) for name in body.results if name in body.memories] if body.final else []
    rank = max(ranks, default=None)
    outside = next((axis for axis in axes if rank is not None and not -rank <= axis < rank), None)
    if outside is not None and rank is not None:
        result = body.results[ranks.index(rank)]
        raise fault(
            "0307",
            f"`@broadcast` puts `{memory.name}` along axis {outside} of `{result}`, which has {rank} {'axis' if rank == 1 else 'axes'}",
            node.span,
            hint=f"valid: {-rank} to {rank - 1}",
        )


def _not_indexable(body: Body, node: nodes.Index) -> Exception:
    others: tuple[Label, ...] = ()
    if isinstance(node.value, nodes.Name):
        binding = body.lookup(node.value.name)
        if binding is not None:
            others = (Label(binding.span, f"{binding.how} here"),)
    return fault(
        "0304", f"`{words(node.value)}` is a number and takes no index", node.span, hint=f"write `{words(node.value)}`", others=others
    )


def _call(body: Body, node: nodes.Call) -> Operand:
    function = node.function
    if isinstance(function, nodes.Field):
        return _method(body, function, node)
    if not isinstance(function, nodes.Name):
        raise not_in_kernel(body, function)
    name = function.name
    if name in body.signature.functions and body.lookup(name) is None:
        arguments = [(argument.name, evaluate(body, argument.value)) for argument in node.arguments]
        return call_function(body, body.signature.functions[name], arguments, node)
    own = body.lookup(name)
    if own is not None:
        raise _not_callable(own, function)
    special = body.extra.get("intrinsics", {}).get(name)
    if special is not None:
        return special(body, node)  # type: ignore[no-any-return]
    if name == "where" and len(node.arguments) == 3:
        condition, then, otherwise = (argument.value for argument in node.arguments)
        return choose(body, condition, lambda: number(body, then), lambda: number(body, otherwise), node)
    if name == "len":
        return _length(body, node)
    if name in library.NAMES:
        positional = [argument.value for argument in node.arguments]
        values = [number(body, value) for value in positional]
        if name in ("any", "all"):
            raise forbidden(body, f"`{name}` of a tensor", node)
        return library.call(body, name, values, node)
    raise library.unknown(body, name, node)


def _not_callable(own: Binding, function: nodes.Name) -> Exception:
    value = own.value
    kind = "a tensor" if isinstance(value, Tensor) else "a tuple" if isinstance(value, Tuple) else "a number"
    return fault(
        "0203",
        f"only a function can be called, and `{function.name}` is {kind} here",
        function.span,
        f"this is {kind}",
        "give it another name, if the library's function is meant",
        () if own.how == "a variable" else (Label(own.span, f"{own.how} here"),),
    )


def _length(body: Body, node: nodes.Call) -> Operand:
    if len(node.arguments) != 1:
        raise fault("0204", f"`len` takes 1 argument, but {len(node.arguments)} are given", node.span)
    owner = evaluate(body, node.arguments[0].value)
    if isinstance(owner, Tuple):
        return affine(Affine((), len(owner.elements)))
    if not isinstance(owner, Tensor):
        raise fault("0203", f"`len` needs a tensor: `{words(node.arguments[0].value)}` is a number", node.span)
    shape = shape_of(body, owner)
    if not shape:
        raise fault("0307", f"`{words(node.arguments[0].value)}` has no axis", node.span)
    return affine(shape[0])


def _method(body: Body, function: nodes.Field, node: nodes.Call) -> Operand:
    owner = evaluate(body, function.value)
    name = function.name
    if isinstance(owner, Tensor):
        shape = shape_of(body, owner)
        if name == "numel" and not node.arguments:
            return body.extra["numel"](body, body.memories[owner.name])  # type: ignore[no-any-return]
        if name == "ndim" and not node.arguments:
            return affine(Affine((), len(shape)))
        if name == "len" and not node.arguments and shape:
            return affine(shape[0])
        if name == "shape":
            if not node.arguments:
                return Tuple(tuple(affine(dim) for dim in shape))
            axis = number(body, node.arguments[0].value).constant
            if axis is None or not -len(shape) <= axis < len(shape):
                raise fault("0307", f"axis {words(node.arguments[0].value)} of `{owner.name}` is outside its {len(shape)} axes", node.span)
            return affine(shape[axis])
        raise fault(
            "0410", f"method `{name}` of a tensor can't stand in a kernel", node.span, hint="kernels know `shape`, `numel()` and `ndim()`"
        )
    if isinstance(owner, Number) and name in library.NAMES:
        return library.call(body, name, [owner, *(number(body, argument.value) for argument in node.arguments)], node)
    raise fault("0410", f"method `{name}` can't stand in a kernel", node.span)


def _cast(body: Body, value: Number, target: nodes.TypeSyntax, node: nodes.Cast) -> Number:
    dtype = scalar_named(target)
    if dtype is None:
        raise fault("0203", "a kernel casts to number types only", target.span, hint="one of " + ", ".join(d.value for d in DType))
    return cast(body, value, dtype)


def cast(body: Body, value: Number, dtype: DType) -> Number:
    """The number in a type of its own; the class of `out` follows it."""
    if value.literal is not None and value.value is None and (dtype.is_float or isinstance(value.literal, int)):
        return literal(float(value.literal) if dtype.is_float else bool(value.literal) if dtype is DType.BOOL else value.literal, dtype)
    if dtype is DType.I64 and value.form is not None:
        return Number(DType.I64, form=value.form, origin=DType.I64)
    return typed(value_of(body.build, value, dtype), dtype, dtype)


# ---- conditions --------------------------------------------------------------------------------------------------------


def _bool(body: Body, node: nodes.Expression) -> Number:
    found = truth(body, node)
    body.extra.setdefault("truths", {})[found.value.name] = found
    return Number(DType.BOOL, value=found.value, origin=DType.BOOL)


def truth(body: Body, node: nodes.Expression) -> Truth:
    """A condition: a bool, or an int mask, which holds where it isn't 0. What it compares goes into no sum."""
    with body.spanned(node.span), body.widening(None):
        match node:
            case nodes.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                a, b = number(body, left), number(body, right)
                yes, no = comparison_facts(body, operator, a, b)
                return Truth(compare(body, operator, a, b), yes, no)
            case nodes.Unary(operator="not", operand=operand):
                inner = truth(body, operand)
                return Truth(body.build.op("not", inner.value), inner.no, inner.yes)
            case nodes.Binary(operator="and" | "or" as operator, left=left, right=right):
                return _both(body, operator, truth(body, left), right)
            case _:
                found = number(body, node)
                return as_truth(body, found, node)


def as_truth(body: Body, found: Number, node: nodes.Expression) -> Truth:
    if found.dtype is DType.BOOL:
        value = value_of(body.build, found)
        kept: Truth | None = body.extra.get("truths", {}).get(value.name)
        return kept or Truth(value)
    if found.dtype.is_float:
        raise fault(
            "0203",
            f"a condition must be bool or an int mask: `{words(node)}` is {found.shown}",
            node.span,
            hint=f"compare it: `{words(node)} != 0.0`",
        )
    zero = literal(0)
    yes, no = comparison_facts(body, "!=", found, zero)
    return Truth(compare(body, "!=", found, zero), yes, no)


def _both(body: Body, operator: str, left: Truth, right_node: nodes.Expression) -> Truth:
    """`and`, `or`: the right side is computed only where it matters, unless computing it is harmless."""
    is_and = operator == "and"
    assumed = left.yes if is_and else left.no
    region, build = body.fresh_region()
    condition = left.value if is_and else None
    with body.at(build), body.branch(body.construct(), 0, assumed):
        if condition is None:
            condition = body.build.op("not", left.value)
        with _where(body, condition, len(assumed)):
            right = truth(body, right_node)
    yes = (*left.yes, *right.yes) if is_and else ()
    no = () if is_and else (*left.no, *right.no)
    if _harmless(region):
        body.build.region.body.extend(region.body)
        return Truth(body.build.op(operator, left.value, right.value), yes, no)
    with body.at(build):
        build.yield_(right.value)
    other, other_build = body.fresh_region()
    with body.at(other_build):
        other_build.yield_(other_build.const(not is_and, "i1"))
    then, otherwise = (region, other) if is_and else (other, region)
    made = body.build.emit(HirIf(condition=left.value, then=then, otherwise=otherwise, types=(Tile("i1"),)))
    return Truth(made.result, yes, no)


class _where:
    """While inside: loads that only this condition makes safe carry it."""

    def __init__(self, body: Body, condition: Value, assumed: int) -> None:
        self.body, self.condition, self.assumed = body, condition, assumed

    def __enter__(self) -> None:
        self.before = self.body.extra.get("where")
        mark = self.body.facts.mark() - self.assumed
        condition = self.condition
        if self.before is not None:
            mark = self.before[0]
            condition = self.body.build.op("and", self.before[1], condition)
        self.body.extra["where"] = (max(0, mark), condition)

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            del self.body.extra["where"]
        else:
            self.body.extra["where"] = self.before


def _harmless(region: Region) -> bool:
    """Whether computing this needlessly changes nothing: no writes, no checks, no control flow."""
    return all(op.effects is Effect.PURE or isinstance(op, (Load, GetSlot)) for op in region.body) and not any(
        op.regions for op in region.body
    )


# ---- choices -----------------------------------------------------------------------------------------------------------


def _if(body: Body, node: nodes.If) -> Operand:
    then, otherwise = node.then, node.otherwise
    if otherwise is None:
        raise fault("0203", "an `if` without `else` has no value", node.span, hint="add `else { ... }`")
    run = body.run_block
    assert run is not None

    def value(block: nodes.Block) -> Number:
        found = run(body, block)
        if not isinstance(found, Number):
            raise _no_number(body, found, block)
        return found

    return choose(body, node.condition, lambda: value(then), lambda: value(otherwise), node)


def choose(body: Body, condition: nodes.Expression, then: Alternative, otherwise: Alternative, node: nodes.Expression) -> Number:
    """The value of one of two expressions: both computed and one selected where that is harmless, else a branch."""
    return choose_by(body, truth(body, condition), then, otherwise)


def choose_by(body: Body, found: Truth, then: Alternative, otherwise: Alternative) -> Number:
    construct = body.construct()
    regions: list[Region] = []
    numbers: list[Number] = []
    builds = []
    for branch, (assumed, alternative) in enumerate(((found.yes, then), (found.no, otherwise))):
        region, build = body.fresh_region()
        with body.at(build), body.branch(construct, branch, assumed):
            condition = found.value if branch == 0 else build.op("not", found.value)
            with _where(body, condition, len(assumed)):
                numbers.append(alternative())
        regions.append(region)
        builds.append(build)
    dtype, weak, origin = meet(*numbers)
    exact = dtype is DType.I64 and all(one.form is not None for one in numbers)
    name = "index" if exact else hir_name(dtype)
    values = []
    for one, build in zip(numbers, builds, strict=True):
        with body.at(build):
            values.append(index_value(build, one) if exact else value_of(build, one, dtype))
    if all(_harmless(region) for region in regions):
        for region in regions:
            if region.body and region is regions[1]:
                _drop_unused_not(region, found.value, values[1])
            body.build.region.body.extend(region.body)
        result = body.build.select(found.value, values[0], values[1])
    else:
        for build, value in zip(builds, values, strict=True):
            build.yield_(value)
        made = body.build.emit(HirIf(condition=found.value, then=regions[0], otherwise=regions[1], types=(Tile(name),)))
        result = made.result
    if exact:
        body.opaque.add(result.name)
        first, second = numbers[0].form, numbers[1].form
        assert first is not None and second is not None
        body.facts.cases[result.name] = ((first, found.yes), (second, found.no))
        return Number(DType.I64, form=Affine.of(result.name), weak=weak, origin=origin)
    return typed(result, dtype, origin, weak)


def _drop_unused_not(region: Region, condition: Value, value: Value) -> None:
    """The negated condition was made for loads; without one it is dead."""
    first = region.body[0]
    if first.name != "not" or first.operand_values != [condition] or not first.results:
        return
    used = any(first.results[0] in op.operand_values for op in region.body[1:]) or value is first.results[0]
    if not used:
        region.body.pop(0)
