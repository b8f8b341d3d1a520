"""Sums of products of elements of two memories: what a field has of them, behind conversions that lose nothing and guards that only say
which elements exist."""

from collections.abc import Mapping

from compiler.analysis.accesses import constraints_of
from compiler.analysis.guards import where_inside
from compiler.analysis.normal_forms import widens
from compiler.analysis.recognise import ProductSum, only_product, product_sum, products_of_parts, products_of_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Scan, Select, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.hopper import kind_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.products.boxed_operands import PackedRows
from compiler.schedule.gpu.rewrites.scaled_sums import GroupScale
from compiler.schedule.gpu.tiles.taking_part import restricting
from runtime.records import Factory, evolve, frozen


@frozen(eq=False)
class SumOfLoads:
    """A sum of products as it can be multiplied. `guard`: what is at least 0 where the places of one of the two exist."""

    target: Contract | Reduce
    to: str
    a: Load
    b: Load
    described: ProductSum
    guard: tuple[Affine, ...] = ()
    thrice: bool = False
    """Whether products with what tensor cores leave of the operands count, too."""
    low: Mapping[Load, Load] = Factory(dict)
    """What they leave, where launches before put it aside."""
    bounds: tuple[Affine, ...] = ()
    """What is at least 0 of each term that takes part, each a form of one operand's places."""
    has_zeros: bool = False
    """Whether operands are zeros elsewhere."""
    scale: GroupScale | None = None
    """Further factors of the terms."""
    packed: PackedRows | None = None
    """How elements of `a` are made of bytes."""
    others: tuple["SumOfLoads", ...] = ()
    """Products of the same rows, columns and terms that are computed with it, for this sum or others."""
    negative: bool = False
    """Whether the product is subtracted from the sum."""
    in_parts: bool = False
    """Whether a factor is a sum, whose terms are multiplied apart."""


def rounds(function: HirFunction) -> bool:
    """Whether a program lets factors of f32 be rounded to tf32."""
    return function.kernel_info is not None and function.kernel_info.products == "tf32"


def with_signed_sums(function: HirFunction) -> HirFunction:
    """The field whose products of bytes without a sign are added up with one, as matrix units do: the bits are the same."""

    def bytes_of_sum(op: Instruction) -> list[Value]:
        operands = [op.a.source, op.b.source] if isinstance(op, Contract) and op.to == "u32" and op.accumulator is None else []
        known = [operand.value for operand in operands if isinstance(operand, Cast) and dtype_of(operand.value) == "u8"]
        return known if len(known) == len(operands) else []

    if not any(map(bytes_of_sum, function.body.body)):
        return function
    copy = FieldCopy.whole(function)
    for op in function.body.body:
        if isinstance(op, Contract) and (operands := bytes_of_sum(op)):
            a, b = (copy.body.cast(copy.values[operand], "i32") for operand in operands)
            signed = copy.body.emit(Contract(a=a, b=b, over=op.over, to="i32", flags=op.flags, span=op.span))
            copy.put(op.result, copy.body.cast(signed.result, "u32"))
        else:
            copy.copy(op)
    return copy.finish()


def with_products_apart(function: HirFunction) -> HirFunction:
    """The field in which each product of a sum of several is a sum of its own; itself if there are none."""
    several = {op: products for op in function.body.body if len(products := products_of_sum(op)) > 1}
    if not several:
        return function
    copy = FieldCopy.whole(function)
    for op in function.body.body:
        if op not in several:
            copy.copy(op)
            continue
        b, to = copy.body, dtype_of(op.results[0])
        flags = ("contract",) if is_float(to) else ()
        total: Value | None = None
        for product, negative in sorted(several[op], key=lambda each: each[1]):
            a, c = (_before_widening(operand) for operand in (product.a, product.b))
            a, c = (a, c) if dtype_of(a) == dtype_of(c) else (product.a, product.b)
            sum = b.emit(Contract(a=copy.values[a], b=copy.values[c], over=product.k, to=to, span=op.span)).result
            if total is None:
                total = b.op("neg", sum) if negative else sum
            else:
                total = b.op("sub" if negative else "add", total, sum, flags=flags)
        assert total is not None
        copy.put(op.results[0], total)
    return copy.finish()


def _before_widening(value: Value) -> Value:
    match value.source:
        case Cast(value=inner, to=to) if widens(dtype_of(inner), to):
            return inner
        case _:
            return value


def sums_of_loads(function: HirFunction) -> SumOfLoads | None:
    """All products that sums of a field add up, if there are several, each of elements of two memories, with rows, columns and terms as the
    first one's, which has the others."""
    sums = [one for op in function.body.body if isinstance(op, Contract | Reduce | Scan) for one in _products_of(op)]
    known = [sum for sum in sums if sum is not None and sum.described.m and sum.described.n and not (sum.described.windows or sum.guard)]
    if len(sums) < 2 or len(known) < len(sums):
        return None
    first, *others = known
    if len({sum.target for sum in known}) > 1 and any(sum.in_parts for sum in known):
        return None  # one sum of a tile may be computed again
    alike = [(sum.to, {*sum.described.k}, {*sum.described.m, *sum.described.n}, {*sum.described.batch}) for sum in known]
    return evolve(first, others=tuple(others)) if all(each == alike[0] for each in alike) else None


def sum_of_loads(function: HirFunction) -> SumOfLoads | None:
    """The one sum of a field, of products of elements of two memories with rows and columns."""
    sums = [op for op in function.body.body if isinstance(op, Contract | Reduce | Scan)]
    product = _sum_of(sums[0]) if len(sums) == 1 else None
    return product if product is not None and product.described.m and product.described.n else None


def _products_of(target: Contract | Reduce | Scan) -> list[SumOfLoads | None]:
    """Each product that a sum adds up, None for what isn't one."""
    if parts := products_of_parts(target):
        return [_signed(target, product, negative, in_parts=True) for product, negative in parts]
    products = products_of_sum(target)
    if len(products) < 2:
        return [_sum_of(target)]
    return [_signed(target, product, negative) for product, negative in products]


def _signed(target: Contract | Reduce | Scan, product: ProductSum, negative: bool, in_parts: bool = False) -> SumOfLoads | None:
    """One of several products of a sum. Matrix units subtract products of floats."""
    to = dtype_of(target.results[0])
    a, b = (_converted(operand, to) for operand in (product.a, product.b))
    if a is None or b is None or isinstance(target, Scan) or not _alike(a, b) or (negative and not is_float(to)):
        return None
    return SumOfLoads(target, to, a, b, product, negative=negative, in_parts=in_parts)


def _sum_of(target: Contract | Reduce | Scan) -> SumOfLoads | None:
    described = product_sum(target)
    if isinstance(target, Contract) and described is not None and target.accumulator is None:
        a, b = (_zero_outside(_as_it_was(operand, target.to)) for operand in (target.a, target.b))
        if a is not None and b is not None and _alike(a, b):
            return SumOfLoads(target, target.to, a, b, described)
    if isinstance(target, Reduce) and described is not None:
        return _guarded(target, described)
    return None


def _guarded(target: Reduce, described: ProductSum) -> SumOfLoads | None:
    """`sum += a * b` where a guard holds that only says where elements of one of the two exist."""
    to = dtype_of(target.values[0])
    value, guards = unguarded(target.values[0])
    if not isinstance(value.source, Binary) or (is_float(to) and "reassoc" not in target.flags):
        return None
    a, b = (_converted(operand, to) for operand in (described.a, described.b))
    if a is None or b is None:
        return None
    windowed = [load for load in (a, b) if load.where is not None]
    inside = where_inside(guards, windowed[0]) if len(windowed) == 1 else None
    if inside is None:
        return None
    # whole numbers times 0 are 0
    return SumOfLoads(target, to, a, b, described, tuple(sorted(inside, key=str)) if is_float(to) else ())


def bounded_sum(function: HirFunction) -> SumOfLoads | None:
    """The one sum of a field, of floats of up to 32 bits, if terms take part between bounds, each of one operand's places alone."""
    described = only_product(function)
    if described is None or not isinstance(target := described.op, Reduce) or described.windows or not (described.m and described.n):
        return None
    to = dtype_of(target.values[0])
    value, guards = unguarded(target.values[0])
    a, b = (_converted(operand, to) for operand in (described.a, described.b))
    if a is None or b is None or "reassoc" not in target.flags or not _alike(a, b):
        return None
    if dtype_of(a.results[0]) not in ("f16", "bf16", "f32"):
        return None
    known = [constraints_of(guard) for guard in guards]
    bounds = tuple(restricting([form for forms in known for form in forms or ()], function.axes))
    own = [{axis for axis, _ in union_axes(load.results[0])} for load in (a, b)]
    if None in known or not bounds or not isinstance(value.source, Binary) or a.where is not None or b.where is not None:
        return None
    if any(not any({*form.names} & {*function.axes} <= axes for axes in own) for form in bounds):
        return None
    return SumOfLoads(target, to, a, b, described, bounds, bounds=bounds)


def unguarded(value: Value) -> tuple[Value, list[Value]]:
    """What a value is where conditions hold without which it is 0, and these."""
    guards = []
    while isinstance(value.source, Select):
        otherwise = value.source.otherwise.source
        if not isinstance(otherwise, Const) or otherwise.value != 0:
            break
        guards.append(value.source.condition)
        value = value.source.then
    return value, guards


def _as_it_was(operand: Value, to: str) -> Value:
    """Before it was converted to the sum's type."""
    op = operand.source
    return op.value if isinstance(op, Cast) and op.to == to else operand


def _alike(a: Load, b: Load) -> bool:
    """Whether operands are of one type, or of two that are multiplied together."""
    left, right = (dtype_of(load.results[0]) for load in (a, b))
    return left == right or kind_of(left, right) is not None


def _zero_outside(operand: Value) -> Load | None:
    """The load that an operand is, or is where its place exists, and 0 elsewhere."""
    value, guards = unguarded(operand)
    load = value.source
    return load if isinstance(load, Load) and where_inside(guards, load) is not None else None


def _converted(operand: Value, to: str) -> Load | None:
    """The load that is of the sum's type or converted to it: products of numbers that narrow are exact there."""
    op = operand.source
    load = op.value.source if isinstance(op, Cast) and op.to == to else op if dtype_of(operand) == to else None
    return load if isinstance(load, Load) and load.pad is None else None
