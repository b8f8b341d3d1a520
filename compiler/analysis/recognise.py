"""What a field computes, read off its values: map, transposition, reduction, contraction, convolution, row chain, attention, scan.
Facts for the schedule and for the checked promise of `@kernel`; it changes nothing."""

from collections.abc import Callable, Iterator
from enum import Enum

from compiler.analysis.accesses import reorders
from compiler.analysis.sums_of_terms import factors_of, terms_of
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Contract, Reduce, Scan, Select, Unary, dtype_of, names_of_axes, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from runtime.records import define, field, frozen

PARTS = "parts"
"""The flag of a sum of products of which one factor is a number in parts, whose sum it is."""


class FieldKind(Enum):
    MAP = "map"
    PERMUTE = "permute"
    REDUCTION = "reduction"
    ARG_REDUCTION = "arg-reduction"
    CONTRACTION = "contraction"
    CONVOLUTION = "convolution"
    ROW_CHAIN = "row chain"
    ATTENTION = "attention"
    SCAN = "scan"


@frozen
class Window:
    """An index of two axes: `stride * kept + dilation * summed - padding`."""

    kept: str
    summed: str
    stride: int
    dilation: int
    padding: int


@frozen(eq=False)
class ProductSum:
    """A sum of products of two values: the instruction, the two operands, and whose axes are whose. `last_a`, `last_b`: the
    axis of each operand's last index (where it is contiguous), when the operand is a load."""

    op: Contract | Reduce
    a: Value
    b: Value
    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    windows: tuple[Window, ...]
    last_a: str | None
    last_b: str | None

    @property
    def result(self) -> Value:
        return self.op.results[0]

    @property
    def transposed_a(self) -> bool:
        """The left operand lies with its rows (m) contiguous instead of the summed axis."""
        return self.last_a is not None and self.last_a in self.m

    @property
    def transposed_b(self) -> bool:
        """The right operand lies with the summed axis contiguous instead of its columns (n)."""
        return self.last_b is not None and self.last_b in self.k


@frozen(eq=False)
class Attention:
    """`softmax(scores) values`: the two product sums, and the maximum (None where it isn't subtracted). What a schedule needs beyond
    this shape, it asks itself."""

    scores: ProductSum
    weighted: ProductSum
    maximum: Reduce | None


@define(eq=False)
class FieldFacts:
    kind: FieldKind
    products: list[ProductSum] = field(factory=list)
    reductions: list[Reduce] = field(factory=list)
    scans: list[Scan] = field(factory=list)
    stores: list[Store] = field(factory=list)
    attention: Attention | None = None


def recognise(function: HirFunction) -> FieldFacts:
    """The facts of a function in form F."""
    ops = function.body.body
    products = [product for op in ops if (product := product_sum(op)) is not None]
    inner = {id(product.op) for product in products}
    facts = FieldFacts(
        FieldKind.MAP,
        [product_ for product_ in products if product_.m or product_.n or product_.windows],
        [op for op in ops if isinstance(op, Reduce) and id(op) not in inner]
        + [product_.op for product_ in products if not (product_.m or product_.n or product_.windows) and isinstance(product_.op, Reduce)],
        [op for op in ops if isinstance(op, Scan)],
        [op for op in ops if isinstance(op, Store)],
    )
    facts.attention = _attention(facts)
    facts.kind = _kind(facts)
    return facts


def _kind(facts: FieldFacts) -> FieldKind:
    if facts.attention is not None:
        return FieldKind.ATTENTION
    if facts.scans:
        return FieldKind.SCAN
    if any(product.windows for product in facts.products):
        return FieldKind.CONVOLUTION
    if _chained(facts):
        return FieldKind.ROW_CHAIN
    if facts.products:
        return FieldKind.CONTRACTION
    if any(op.monoid.startswith("arg") for op in facts.reductions):
        return FieldKind.ARG_REDUCTION
    if facts.reductions:
        return FieldKind.REDUCTION
    if facts.stores and all(_permutes(store) for store in facts.stores):
        return FieldKind.PERMUTE
    return FieldKind.MAP


def _permutes(store: Store) -> bool:
    load = store.value.source
    if not isinstance(load, Load) or load.where is not None:
        return False
    theirs, ours = ([str(form) for form in index] for index in (load.index, store.index))
    return theirs != ours and sorted(theirs) == sorted(ours)


def _chained(facts: FieldFacts) -> bool:
    """A reduction's result meets its own axis again."""
    bound = [(op, set(op.over)) for op in [*facts.reductions, *(product.op for product in facts.products)]]
    for store in facts.stores:
        have = {name for name, _ in union_axes(store.value)}
        below = set(map(id, instructions_below(store.value)))
        if any(id(op) in below and over & have for op, over in bound):
            return True
    for op, over in bound:
        for other, _ in bound:
            inner = (below for value in other.operand_values for below in instructions_below(value))
            if other is not op and over & set(other.over) and any(op is each for each in inner):
                return True
    return False


def instructions_below(*values: Value, enter: Callable[[Instruction], bool] = lambda op: True) -> Iterator[Instruction]:
    """Every instruction that values are computed from, each once; not what is below those that `enter` says no of."""
    stack, seen = [*values], set[int]()
    while stack:
        op = stack.pop().source
        if op is None or id(op) in seen:
            continue
        seen.add(id(op))
        yield op
        if enter(op):
            stack.extend(op.operand_values)


def only_product(field: HirFunction) -> ProductSum | None:
    """The sum of products that a field's one reduction is."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    return product_sum(sums[0]) if len(sums) == 1 else None


def product_sum(op: Instruction) -> ProductSum | None:
    """A contraction, or a sum of products that is none (a matrix times a vector, a guarded window)."""
    match op:
        case Contract(a=a, b=b, over=over):
            return _described(op, a, b, over)
        case Reduce(monoid="add", values=(value,), over=over):
            product = _product(value)
            if product is None:
                return None
            a, b = product
            of_a, of_b = names_of_axes(a), names_of_axes(b)
            if not (set(over) & of_a and set(over) & of_b) or not (_reads(a) and _reads(b)):
                return None
            return _described(op, a, b, over)
        case _:
            return None


def products_of_sum(op: Instruction) -> list[tuple[ProductSum, bool]]:
    """The product, or all products, that a sum adds up, and which of them it subtracts; none where it adds up anything else."""
    if (product := product_sum(op)) is not None:
        return [(product, False)]
    if not isinstance(op, Reduce) or op.monoid != "add" or not reorders(op.monoid, dtype_of(op.values[0]), op.flags):
        return []
    terms = [*terms_of(op.values[0])]
    if not all(len(term.factors) == 2 and term.axes.issuperset(op.over) for term in terms):
        return []
    products = [(_described(op, term.factors[0], term.factors[1], op.over), term.negative) for term in terms]
    both = [names_of_axes(product.a) & names_of_axes(product.b) for product, _ in products]
    return products if all(product.m and product.n for product, _ in products) and all(each >= {*op.over} for each in both) else []


def products_of_parts(op: Instruction) -> list[tuple[ProductSum, bool]]:
    """The products of a sum of which one factor is a number in parts, `(a + b) * c` as `a * c + b * c`, and which of them it subtracts.
    Where a number isn't finite that may be another sum."""
    if not isinstance(op, Reduce) or PARTS not in op.flags:
        return []
    factors, over = [*factors_of(op.values[0])], op.over
    terms = [[*terms_of(factor)] for factor in factors]
    loads = all(_near_load(term.value) is not None for each in terms for term in each)
    if len(factors) != 2 or not loads or sorted(map(len, terms))[0] != 1 or max(map(len, terms)) == 1:
        return []
    pairs = [(a, b) for a in terms[0] for b in terms[1]]
    products = [(_described(op, a.value, b.value, over), a.negative is not b.negative) for a, b in pairs]
    return products if all(one.m and one.n and names_of_axes(one.a) & names_of_axes(one.b) >= {*over} for one, _ in products) else []


def _product(value: Value) -> tuple[Value, Value] | None:
    """The two factors, through casts and through a guard that puts 0 elsewhere."""
    match value.source:
        case Binary(operator="mul", left=a, right=b):
            return a, b
        case Cast(value=inner):
            return _product(inner)
        case Select(then=then, otherwise=otherwise):
            return _product(then) or _product(otherwise)
        case _:
            return None



def _reads(value: Value) -> bool:
    return any(isinstance(op, Load) for op in instructions_below(value))


def _described(op: Contract | Reduce, a: Value, b: Value, over: tuple[str, ...]) -> ProductSum:
    of_a, of_b = names_of_axes(a), names_of_axes(b)
    outer = [name for name, _ in union_axes(a, b) if name not in over]
    alone = of_a ^ of_b
    windows = (*_windows(a, {*over}, alone), *_windows(b, {*over}, alone))
    return ProductSum(
        op,
        a,
        b,
        batch=tuple(n for n in outer if n in of_a and n in of_b),
        m=tuple(n for n in outer if n in of_a and n not in of_b),
        n=tuple(n for n in outer if n in of_b and n not in of_a),
        k=tuple(over),
        windows=windows,
        last_a=_last_axis(a),
        last_b=_last_axis(b),
    )


def _near_load(value: Value) -> Load | None:
    """The load that the value is, through casts and guards."""
    match value.source:
        case Load() as load:
            return load
        case Cast(value=inner):
            return _near_load(inner)
        case Select(then=then, otherwise=otherwise):
            return _near_load(then) or _near_load(otherwise)
        case _:
            return None


def _windows(value: Value, summed: set[str], alone: set[str]) -> Iterator[Window]:
    """`alone`: the axes that one operand has."""
    load = _near_load(value)
    if load is None:
        return
    axes = names_of_axes(load.results[0])
    for form in load.index:
        names = [name for name in form.names if name in axes]
        inside, outside = [n for n in names if n in summed], [n for n in names if n in alone - summed]
        if len(inside) == 1 and len(outside) == 1:
            yield Window(outside[0], inside[0], form.coefficient(outside[0]), form.coefficient(inside[0]), -form.constant)


def _last_axis(value: Value) -> str | None:
    load = _near_load(value)
    if load is None or not load.index:
        return None
    last: Affine = load.index[-1]
    names = [name for name in last.names if name in names_of_axes(load.results[0])]
    return names[0] if len(names) == 1 else None


def _attention(facts: FieldFacts) -> Attention | None:
    """Two product sums, the second over the columns of the first, joined by exponentials and their sum."""
    for weighted in facts.products:
        for scores in facts.products:
            if scores is weighted:
                continue
            side = next((v for v in (weighted.a, weighted.b) if any(op is scores.op for op in instructions_below(v))), None)
            if side is None:
                continue
            if not any(isinstance(op, Unary) and op.operator in ("exp", "exp2") for op in instructions_below(side)):
                continue
            mine = [r for r in facts.reductions if set(r.over) & set(weighted.k)]
            maximum = next((r for r in mine if r.monoid == "max"), None)
            if any(r.monoid == "add" and any(op is scores.op for op in instructions_below(r.values[0])) for r in mine):
                return Attention(scores, weighted, maximum)
    return None
