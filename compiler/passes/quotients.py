"""Takes the sum of its weights out of a guarded sum of quotients: what is left is a sum that `online` joins with its maximum.

sum over j of (g ? e / l * v : 0)  =>  l = 0 ? 0 : (sum over j of (g ? e * v : 0)) / l
where e = exp(x - max of x where g), l = sum of e where g

One of the weights is exp(0), so l is 0 only where the guard holds nowhere; then the sum is one of nothing."""

from compiler.hir.core import Binary, Compare, Const, Reduce, Select, Unary, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from runtime.records import frozen


def quotients_outside(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums divided at the end; itself where it has none."""
    matches = {op: match for op in field.body.body if (match := _match(op)) is not None}
    if not matches:
        return field
    out = FieldCopy.whole(field)
    for op in field.body.body:
        match = matches.get(op)
        if match is None:
            out.copy(op)
        else:
            out.put(op.results[0], match.outside(out))
    return out.finish()


@frozen(eq=False)
class _Quotients:
    """The sum, its guards from the outermost on, and the three that are multiplied and divided."""

    op: Reduce
    guards: tuple[Value, ...]
    weight: Value
    total: Value
    factor: Value

    def outside(self, out: FieldCopy) -> Value:
        b, values, dtype = out.body, out.values, dtype_of(self.weight)
        zero = b.const(0.0, dtype)
        term = b.mul(values[self.weight], values[self.factor], flags=("contract",))
        for guard in reversed(self.guards):
            term = b.select(values[guard], term, zero)
        (products,) = b.reduce("add", term, over=self.op.over, flags=self.op.flags)
        total = values[self.total]
        nothing = b.emit(Compare(operator="eq", left=total, right=zero)).result
        return b.select(nothing, zero, b.op("div", products, total, flags=("contract",)))


def _match(op: Instruction) -> _Quotients | None:
    if not isinstance(op, Reduce) or op.monoid != "add" or "reassoc" not in op.flags or len(op.values) != 1:
        return None
    guards, product = _guarded(op.values[0], 0.0)
    if not guards or not isinstance(product.source, Binary) or product.source.operator != "mul":
        return None
    for quotient, factor in ((product.source.left, product.source.right), (product.source.right, product.source.left)):
        inside = quotient.source
        if isinstance(inside, Binary) and inside.operator == "div" and _is_share(inside.left, inside.right, guards, op.over):
            return _Quotients(op, guards, inside.left, inside.right, factor)
    return None


def _is_share(weight: Value, total: Value, guards: tuple[Value, ...], over: tuple[str, ...]) -> bool:
    """Whether the weight is an exponential less its maximum, and the total the sum of all of them, under these guards."""
    sum, exponential = total.source, weight.source
    if not isinstance(sum, Reduce) or sum.monoid != "add" or sum.over != over or _guarded(sum.values[0], 0.0) != (guards, weight):
        return False
    if not isinstance(exponential, Unary) or exponential.operator not in ("exp", "exp2") or not isinstance(total.type, Tile):
        return False
    difference = exponential.value.source
    if not isinstance(difference, Binary) or difference.operator != "sub":
        return False
    maximum = difference.right.source
    if not isinstance(maximum, Reduce) or maximum.monoid != "max" or maximum.over != over:
        return False
    return _guarded(maximum.values[0], float("-inf")) == (guards, difference.left)


def _guarded(value: Value, otherwise: float) -> tuple[tuple[Value, ...], Value]:
    """Conditions without which a value is that number, and what it is where they hold."""
    guards: list[Value] = []
    while isinstance(value.source, Select):
        other = value.source.otherwise.source
        if not isinstance(other, Const) or other.value != otherwise:
            break
        guards.append(value.source.condition)
        value = value.source.then
    return tuple(guards), value
