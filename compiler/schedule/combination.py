"""Reductions of what two operands give together, each of which has axes of results that the other lacks: products of matrices, distances,
windows with several filters. Every element of an operand is then used again for each result along the other's axes."""

from compiler.analysis.recognise import instructions_below, product_sum
from compiler.hir.core import Binary, Cast, Compare, Const, Contract, Reduce, Select, Unary, dtype_of, names_of_axes, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.types import is_float
from runtime.records import frozen

FREE_ORDER = ("min", "max", "and", "or")
"""Monoids whose result is the same in every order."""


@frozen(eq=False)
class PairReduction:
    """`a` has the axes `m` of results and `b` those of `n`; both may have `batch`. Terms lie along the axes `k`."""

    op: Contract | Reduce
    a: Value
    b: Value
    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    term: Value | None = None
    """What is reduced, where it isn't the product of both."""
    guard: Value | None = None
    """The condition under which a product is a term; it varies along axes of `a` alone."""

    @property
    def result(self) -> Value:
        return self.op.results[0]

    @property
    def dtype(self) -> str:
        return dtype_of(self.result)

    @property
    def monoid(self) -> str:
        return "add" if isinstance(self.op, Contract) else self.op.monoid

    @property
    def sums(self) -> bool:
        """Whether terms are products that are added up."""
        return self.term is None

    @property
    def flags(self) -> tuple[str, ...]:
        return self.op.flags


def combination(op: Contract | Reduce) -> PairReduction | None:
    """A reduction as one of two operands, in any order of its terms; None where it isn't, or where that order is written."""
    if isinstance(op, Contract):
        product = product_sum(op)
        if product is None or not (product.m and product.n) or (is_float(op.to) and "reassoc" not in op.flags):
            return None
        return PairReduction(op, product.a, product.b, product.batch, product.m, product.n, product.k)
    if len(op.values) != 1 or not (op.monoid in FREE_ORDER or "reassoc" in op.flags or not is_float(dtype_of(op.values[0]))):
        return None
    (value,) = op.values
    guard: Value | None = None
    term = value
    match value.source:
        case Select(condition=condition, then=Value(source=Binary(operator="mul")) as then, otherwise=Value(source=Const(value=0))) if (
            op.monoid == "add"
        ):
            guard, term = condition, then
    sides = _Sides(term, frozenset(op.over))
    if sides.m is None or not sides.split(term) or len(sides.of_m) != 1 or len(sides.of_n) != 1:
        return None
    (a,), (b,) = sides.of_m, sides.of_n
    if {dtype_of(a), dtype_of(b)} != {dtype_of(op.results[0])} or (sides.others and len(op.over) > 1):
        return None
    order = [name for name, _ in union_axes(*op.results)]
    m, n, batch = (tuple(axis for axis in order if axis in axes) for axes in (sides.m, sides.n, sides.batch))
    multiplies = isinstance(term.source, Binary) and term.source.operator == "mul" and {term.source.left, term.source.right} == {a, b}
    if guard is None:
        return PairReduction(op, a, b, batch, m, n, op.over, None if multiplies and op.monoid == "add" else term)
    if not multiplies:
        return None
    along = names_of_axes(guard) - {*op.over, *batch}
    if along <= {*n} and along:
        a, b, m, n = b, a, n, m
    return PairReduction(op, a, b, batch, m, n, op.over, guard=guard) if along <= {*m} else None


class _Sides:
    """The operands of a term: its largest parts that vary along the axes of one side."""

    def __init__(self, term: Value, over: frozenset[str]) -> None:
        self.over = over
        loads = [{*names_of_axes(op.result)} - over for op in instructions_below(term) if isinstance(op, Load)]
        self.batch = frozenset[str].intersection(*map(frozenset, loads)) if loads else frozenset[str]()
        kinds = sorted({frozenset(axes - self.batch) for axes in loads} - {frozenset[str]()}, key=sorted)
        self.m: frozenset[str] | None = None
        if len(kinds) == 2 and not kinds[0] & kinds[1]:
            self.m, self.n = kinds
        self.of_m: dict[Value, None] = {}
        self.of_n: dict[Value, None] = {}
        self.others: dict[Value, None] = {}
        """Parts that vary along no axis of either side, but along the terms."""

    def split(self, value: Value) -> bool:
        """Whether the value is computed element by element from parts of one side each; notes them."""
        assert self.m is not None
        own = names_of_axes(value) - self.over - self.batch
        if not own:
            if names_of_axes(value):
                self.others[value] = None
            return True
        for axes, parts in ((self.m, self.of_m), (self.n, self.of_n)):
            if own <= axes:
                parts[value] = None
                return True
        op = value.source
        return isinstance(op, Binary | Unary | Select | Cast | Compare) and all(self.split(operand) for operand in op.operand_values)

