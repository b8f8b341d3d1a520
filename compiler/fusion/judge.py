"""Whether two blocks are better one kernel: read off their fields and the field of both together. Nothing is computed twice, whole rows
and products stay what their schedules know, and all that follows a product follows it element by element."""

from collections.abc import Mapping

from compiler.analysis.recognise import ProductSum, product_sum, recognise
from compiler.fusion.digits import digits_of
from compiler.fusion.merge import NotMergeable
from compiler.hir.core import Binary, Cast, Const, Contract, InBounds, Index, Reduce, Scan, Select, Unary, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.schedule.field import axes_contiguous
from runtime.records import frozen

COSTLY = frozenset(
    {"exp", "exp2", "log", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "pow", "atan2"}
)

FREE = (Const, Index, InBounds, Select, Cast, Load, Store)
"""Instructions that aren't counted: what guards, types and memory need, not what is computed."""


@frozen(eq=False)
class Seen:
    """What of a field decides."""

    products: tuple[ProductSum, ...]
    """With rows and columns."""
    reductions: tuple[Reduce | Contract, ...]
    scans: bool
    attention: bool
    stores: tuple[Store, ...]
    operations: tuple[int, ...]
    """Of each, along how many axes it is done; axes that are digits of a number are one."""
    costly: bool
    windows: bool


def look(field: HirFunction) -> Seen:
    """Of a function in form F."""
    ops = field.body.body
    facts = recognise(field)
    numbers = digits_of(field)
    products = [product for op in ops if (product := product_sum(op)) is not None and ((product.m and product.n) or product.windows)]
    inner = {id(product.op) for product in products}
    return Seen(
        tuple(products),
        tuple(op for op in ops if isinstance(op, Reduce | Contract) and id(op) not in inner),
        any(isinstance(op, Scan) for op in ops),
        facts.attention is not None,
        tuple(facts.stores),
        tuple(max(len(_numbered(value, numbers)) for value in (*op.operand_values, *op.results)) for op in ops if not isinstance(op, FREE)),
        any(isinstance(op, Unary | Binary) and op.operator in COSTLY for op in ops),
        any(product.windows for product in products),
    )


def require_promising(maker: HirFunction, reader: HirFunction) -> None:
    """Raises NotMergeable with the reason why two blocks stay apart whatever they are together. Both are fields; `reader` reads what
    `maker` stores."""
    making, read = look(maker), look(reader)
    if making.scans or read.scans:
        raise NotMergeable("a running value is a kernel of its own")
    if making.attention:
        raise NotMergeable("the sums of attention are rescaled until its end")
    if read.products and (making.products or making.reductions):
        raise NotMergeable("the operands of a product are read from memory")
    if making.products and read.reductions:
        raise NotMergeable("the rows of a product are spread over blocks, and this needs them whole")
    if making.products and (len(making.products) != 1 or making.reductions):
        raise NotMergeable("more than a product's sums would have to be followed")


def require_worthwhile(maker: HirFunction, reader: HirFunction, both: HirFunction) -> None:
    """Raises NotMergeable with the reason why the two stay apart, of which `both` is the field."""
    making, read, whole = look(maker), look(reader), look(both)
    if making.products:
        _after_product(making, whole)
    elif read.products:
        _before_product(read, whole)
    elif making.reductions:
        _after_reduction(making, whole, both)
    elif making.costly and _spread(maker, both):
        raise NotMergeable("its elements, which cost much, would be computed once for each of many that read them")
    most = max(whole.operations, default=0)
    done, before = whole.operations.count(most), [*making.operations, *read.operations]
    if done > sum(axes >= most for axes in before):
        raise NotMergeable("its elements would be computed more than once")


def _after_product(making: Seen, whole: Seen) -> None:
    if len(whole.products) != 1 or _shape(whole.products[0]) != _shape(making.products[0]):
        raise NotMergeable("the product would no longer be one of rows and columns")
    product = whole.products[0]
    own = _axes(product.result)
    for store in whole.stores:
        if {name for form in store.index for name in form.names} & own != own or _axes(store.value) != own:
            raise NotMergeable("each sum of the product would be needed for several elements")
    if _sides(making) != _sides(whole):
        raise NotMergeable("it turns the product's rows into columns")


def _before_product(read: Seen, whole: Seen) -> None:
    if len(whole.products) != len(read.products) or sorted(map(_shape, whole.products)) != sorted(map(_shape, read.products)):
        raise NotMergeable("the product would no longer be one of rows and columns")
    if sum(map(_loads, whole.products)) < sum(map(_loads, read.products)) or len(whole.reductions) > len(read.reductions):
        raise NotMergeable("the operands of a product are read from memory")
    if len(whole.stores) > len(read.stores):
        raise NotMergeable("others read an operand of the product, too, and a product stores nothing but what follows its sums")


def _after_reduction(making: Seen, whole: Seen, both: HirFunction) -> None:
    """A chain along one axis: rows that are read once."""
    over = {frozenset(op.over) for op in whole.reductions}
    outer = {frozenset(_axes(op.results[0])) for op in whole.reductions}
    if len(over) != 1 or len(outer) != 1:
        raise NotMergeable("the two don't reduce along the same axes")
    (summed,), (rows,) = over, outer
    if any(not _axes(store.value) <= summed | rows for store in whole.stores):
        raise NotMergeable("each reduction would be computed again for several elements")
    if not summed & axes_contiguous(both):
        raise NotMergeable("memory isn't contiguous along what is reduced")


def _spread(maker: HirFunction, both: HirFunction) -> bool:
    """Whether what the maker stores varies along fewer axes than there are."""
    return len({*digits_of(maker).values()}) < len({*digits_of(both).values()})


def _shape(product: ProductSum) -> tuple[int, ...]:
    return len(product.batch), len(product.m), len(product.n), len(product.k), len(product.windows)


def _sides(seen: Seen) -> set[str]:
    """Whether results lie with the product's rows or columns side by side."""
    rows = set(seen.products[0].m)
    return {"rows" if store.index and rows.intersection(store.index[-1].names) else "columns" for store in seen.stores}


def _loads(product: ProductSum) -> int:
    return sum(isinstance(_through_casts(value).source, Load) for value in (product.a, product.b))


def _through_casts(value: Value) -> Value:
    while isinstance(value.source, Cast):
        value = value.source.value
    return value


def _numbered(value: Value, numbers: Mapping[str, str]) -> set[str]:
    return {numbers[name] for name in _axes(value) if name in numbers}


def _axes(value: Value) -> set[str]:
    return {name for name, _ in union_axes(value)}
