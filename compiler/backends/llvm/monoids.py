"""Reductions, scans and contractions over the axes of tiles: trees where the order is free, chains where it isn't."""

from collections.abc import Callable, Sequence

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.bundle import Bundle, points, static_axes, unsupported
from compiler.backends.llvm.dots import DotsOfBundles, unit_of
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.types import register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.core import Combine, Contract, Reduce, Scan
from compiler.hir.types import Tile, is_float

Element = tuple[LlvmValue, ...]
"""One element of a monoid: one value, or a pair for argmin and argmax."""
Combiner = Callable[[Element, Element], Element]


def combiner(w: FunctionWriter, monoid: str, dtypes: Sequence[str], flags: Sequence[str] = ()) -> Combiner:
    """The monoid's operation."""
    if monoid in ("argmin", "argmax"):
        return lambda a, b: combine_pairs(w, monoid, dtypes[0], dtypes[1], a, b)
    return lambda a, b: (arithmetic.binary(w, monoid, dtypes[0], a[0], b[0], flags),)


def combine_pairs(w: FunctionWriter, monoid: str, dtype: str, index_dtype: str, a: Element, b: Element) -> Element:
    """The second pair where it beats the first: a better value, a NaN over a number, the lower index among equals."""
    word = "lt" if monoid == "argmin" else "gt"
    better = arithmetic.compare(w, word, dtype, b[0], a[0])
    same = arithmetic.compare(w, "eq", dtype, b[0], a[0])
    earlier = arithmetic.compare(w, "lt", index_dtype, b[1], a[1])
    if is_float(dtype):
        nan_a, nan_b = w.compare("uno", a[0], a[0]), w.compare("uno", b[0], b[0])
        better = w.binary("or", better, w.binary("and", nan_b, w.binary("xor", nan_a, w.true(nan_a.type.lanes))))
        same = w.binary("or", same, w.binary("and", nan_a, nan_b))
    wins = w.binary("or", better, w.binary("and", same, earlier))
    return w.select(wins, b[0], a[0]), w.select(wins, b[1], a[1])


def combine(frame: FunctionFrame, op: Combine) -> None:
    w = frame.w
    bundles = [frame.values[value.name] for value in op.operands_]
    half = len(bundles) // 2
    dtypes = [bundle.dtype for bundle in bundles[:half]]
    apply = combiner(w, op.monoid, dtypes)
    type = op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, w.module.backend)
    columns: list[list[LlvmValue]] = [[] for _ in range(half)]
    for point in points(axes):
        items = [w.splat(bundle.at(point), lanes) for bundle in bundles]
        for column, item in zip(columns, apply(tuple(items[:half]), tuple(items[half:])), strict=True):
            column.append(item)
    frame.define(op, *[Bundle(dtype, axes, simd, lanes, tuple(column)) for dtype, column in zip(dtypes, columns, strict=True)])


def tree(apply: Combiner, elements: Sequence[Element]) -> Element:
    """All elements combined, pairs of neighbours first."""
    level = list(elements)
    while len(level) > 1:
        pairs = [apply(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) // 2 * 2 :]
    return level[0]


def chain(apply: Combiner, elements: Sequence[Element]) -> Element:
    total = elements[0]
    for element in elements[1:]:
        total = apply(total, element)
    return total


def across_lanes(w: FunctionWriter, apply: Combiner, element: Element, ordered: bool) -> Element:
    """All lanes of a vector combined into a scalar."""
    lanes = element[0].type.lanes
    if ordered or lanes & (lanes - 1):
        return chain(apply, [tuple(w.extract(part, lane) for part in element) for lane in range(lanes)])
    while lanes > 1:
        half = lanes // 2
        low = tuple(w.shuffle(part, None, range(half)) for part in element)
        high = tuple(w.shuffle(part, None, range(half, lanes)) for part in element)
        element, lanes = apply(low, high), half
    return tuple(w.extract(part, 0) for part in element)


def _is_ordered(monoid: str, dtype: str, flags: Sequence[str]) -> bool:
    """Whether the order of combining shows in the result."""
    return is_float(dtype) and monoid in ("add", "mul") and "reassoc" not in flags


def reduce(frame: FunctionFrame, op: Reduce) -> None:
    w = frame.w
    bundles = [frame.values[value.name] for value in op.values]
    dtypes = [bundle.dtype for bundle in bundles]
    apply = combiner(w, op.monoid, dtypes, op.flags)
    ordered = _is_ordered(op.monoid, dtypes[0], op.flags)
    whole = [axis for bundle in bundles for axis in bundle.axes]
    over = [axis for axis in dict.fromkeys(whole) if axis[0] in op.over]
    simd = next((b.simd for b in bundles if b.simd), None)
    lanes = max(b.lanes for b in bundles)
    lanes_summed = simd is not None and simd in op.over
    type = op.result.type
    assert isinstance(type, Tile)
    rest, _, _ = static_axes(type, w.module.backend)
    columns: list[list[LlvmValue]] = [[] for _ in bundles]
    for point in points(rest):
        elements = [tuple(w.splat(b.at({**point, **inner}), lanes) for b in bundles) for inner in points(over)]
        if not elements:
            identity = arithmetic.identity(op.monoid, dtypes[0])
            element: Element = tuple(constant(register_type(d), identity if n == 0 else 2**63 - 1) for n, d in enumerate(dtypes))
        elif op.monoid in ("min", "max") and is_float(dtypes[0]) and w.module.picks_zero and not w.module.reorders:
            element = (_extreme(w, op.monoid, [value for (value,) in elements], lanes_summed),)
        elif lanes_summed and ordered:
            order = _axis_order(op, simd or "")
            element = chain(apply, _scalars(w, elements, over, simd or "", lanes, order))
        else:
            element = (chain if ordered else tree)(apply, elements)
            if lanes_summed:
                element = across_lanes(w, apply, element, ordered)
        for column, item in zip(columns, element, strict=True):
            column.append(item)
    vector = (None, 0) if lanes_summed else (simd, lanes)
    frame.define(op, *[Bundle(d, rest, *vector, tuple(column)) for d, column in zip(dtypes, columns, strict=True)])


def _extreme(w: FunctionWriter, operator: str, values: Sequence[LlvmValue], across: bool) -> LlvmValue:
    """The least or the greatest of floats, `across` lanes too; NaN where one of them is. They are asked for NaNs once, pairs together."""
    if len(values) == 1 and not across:
        return values[0]
    pairs = [(values[i], values[min(i + 1, len(values) - 1)]) for i in range(0, len(values), 2)]
    (unordered,) = tree(lambda a, b: (w.binary("or", a[0], b[0]),), [(w.compare("uno", a, b),) for a, b in pairs])

    def plain(a: Element, b: Element) -> Element:
        return (arithmetic.chosen_number(w, operator, a[0], b[0]),)

    best = tree(plain, [(value,) for value in values])
    if across and unordered.type.lanes:
        best = across_lanes(w, plain, best, False)
        unordered = w.call(f"llvm.vector.reduce.or.{unordered.type.suffix}", unordered.type.with_lanes(0), unordered)
    return w.select(unordered, constant(values[0].type.with_lanes(best[0].type.lanes), float("nan")), best[0])


def _axis_order(op: Reduce, simd: str) -> int:
    """How many of the reduced axes come before the simd axis: they vary slower than the lanes."""
    names = [name for value in op.values for name, _ in getattr(value.type, "axes", ()) if name in op.over]
    return list(dict.fromkeys(names)).index(simd)


def _scalars(w: FunctionWriter, elements: list[Element], over: list[tuple[str, int]], simd: str, lanes: int, before: int) -> list[Element]:
    """Every lane of every element in the order of the axes, first slowest."""
    inner = 1
    for _, size in over[before:]:
        inner *= size
    scalars: list[Element] = []
    for start in range(0, len(elements), inner):
        for lane in range(lanes):
            scalars += [tuple(w.extract(part, lane) for part in element) for element in elements[start : start + inner]]
    return scalars


def scan(frame: FunctionFrame, op: Scan) -> None:
    w = frame.w
    bundle = frame.values[op.value.name]
    (axis,) = op.over
    apply = combiner(w, op.monoid, [bundle.dtype], op.flags)
    identity = constant(register_type(bundle.dtype, bundle.lanes), arithmetic.identity(op.monoid, bundle.dtype))
    if axis == bundle.simd:
        ordered = _is_ordered(op.monoid, bundle.dtype, op.flags)
        idempotent = op.monoid in ("min", "max", "and", "or")
        items = [_scan_lanes(w, apply, item, identity, op.exclusive, op.reverse, ordered, idempotent) for item in bundle.items]
        frame.define(op, Bundle(bundle.dtype, bundle.axes, bundle.simd, bundle.lanes, tuple(items)))
        return
    extent = dict(bundle.axes)[axis]
    rest = [a for a in bundle.axes if a[0] != axis]
    totals: dict[tuple[int, ...], LlvmValue] = {}
    names = bundle.names
    for point in points(rest):
        total: Element | None = None
        for number in reversed(range(extent)) if op.reverse else range(extent):
            inner_point = {**point, axis: number}
            key = tuple(inner_point[name] for name in names)
            item = bundle.at(inner_point)
            if op.exclusive:
                totals[key] = total[0] if total else identity
            total = apply(total, (item,)) if total else (item,)
            if not op.exclusive:
                totals[key] = total[0]
    result = tuple(totals[tuple(point[name] for name in names)] for point in points(bundle.axes))
    frame.define(op, Bundle(bundle.dtype, bundle.axes, bundle.simd, bundle.lanes, result))


def _scan_lanes(
    w: FunctionWriter,
    apply: Combiner,
    item: LlvmValue,
    identity: LlvmValue,
    exclusive: bool,
    reverse: bool,
    ordered: bool,
    idempotent: bool,
) -> LlvmValue:
    """Steps of 1, 2, 4 ... lanes; a chain over the lanes where the order matters. `idempotent`: a value with itself gives itself."""
    lanes = item.type.lanes
    if ordered:
        total: Element | None = None
        result = item
        for lane in reversed(range(lanes)) if reverse else range(lanes):
            element = w.extract(item, lane)
            before = total[0] if total else w.extract(identity, 0)
            total = apply(total, (element,)) if total else (element,)
            result = w.insert(result, before if exclusive else total[0], lane)
        return result
    step = 1
    while step < lanes:
        item = apply((_before(w, item, None if idempotent else identity, step, reverse),), (item,))[0]
        step *= 2
    return _shift(w, item, identity, 1, reverse) if exclusive else item


def _before(w: FunctionWriter, item: LlvmValue, identity: LlvmValue | None, step: int, reverse: bool) -> LlvmValue:
    """Each lane in the second half of a run of twice `step` lanes gets the last one of the first half, so that few lanes change places
    in a register; the others get the identity, or themselves where there is None."""
    lanes = item.type.lanes
    sources = []
    for lane in range(lanes):
        number = lanes - 1 - lane if reverse else lane
        source = number // step * step - 1
        last = lanes - 1 - source if reverse else source
        sources.append(last if number & step else lane if identity is None else lanes)
    return w.shuffle(item, identity, sources)


def _shift(w: FunctionWriter, item: LlvmValue, identity: LlvmValue, step: int, reverse: bool) -> LlvmValue:
    """Each lane gets the one `step` before it (behind it when reversed); the identity moves in."""
    lanes = item.type.lanes
    sources = [lane + step if reverse else lane - step for lane in range(lanes)]
    return w.shuffle(item, identity, [s if 0 <= s < lanes else lanes for s in sources])


def contract(frame: FunctionFrame, op: Contract) -> None:
    """A chain of fused multiply-adds into the accumulator, for each point of the result."""
    w = frame.w
    a, b = frame.values[op.a.name], frame.values[op.b.name]
    accumulator = frame.values[op.accumulator.name] if op.accumulator is not None else None
    type = op.result.type
    assert isinstance(type, Tile)
    rest, _, _ = static_axes(type, w.module.backend)
    summed = [axis for axis in dict.fromkeys((*a.axes, *b.axes)) if axis[0] in op.over]
    simds = {bundle.simd for bundle in (a, b, accumulator) if bundle is not None and bundle.simd}
    if len(simds) > 1:
        feature = f"a contraction of two vector axes, {' and '.join(sorted(simds))}"
        raise unsupported(feature, "place one of them in registers", w.module.backend)
    simd = next(iter(simds), None)
    lanes = max(a.lanes, b.lanes, accumulator.lanes if accumulator is not None else 0)
    lanes_summed = simd is not None and simd in op.over
    unit = unit_of(w, op, a, b, summed)
    dots = DotsOfBundles(w, unit, summed[0][0], lanes) if unit is not None else None
    wide = (a, b) if dots else (_cast_all(frame, a, op.to), _cast_all(frame, b, op.to))
    splats: dict[int, LlvmValue] = {}

    def operand(item: LlvmValue) -> LlvmValue:
        if item.type.lanes or not lanes:
            return item
        if id(item) not in splats:
            splats[id(item)] = w.splat(item, lanes)
        return splats[id(item)]

    items: list[LlvmValue] = []
    zero = constant(register_type(op.to, lanes), 0)
    points_of_rest = list(points(rest))
    totals = []
    for point in points_of_rest:
        start = accumulator.at(point) if accumulator is not None and not lanes_summed else zero
        totals.append(w.splat(start, lanes))
    # what is spread over lanes is done with before the next is, so that few registers hold such vectors
    spread = next((bundle for bundle in (a, b) if lanes and not bundle.lanes), None)
    names = [] if spread is None else [name for name, _ in rest if name in spread.names]
    order = sorted(range(len(totals)), key=lambda number: [points_of_rest[number][name] for name in names])
    for inner in points(summed):
        if dots is not None:
            totals = [dots.add_products(total, a, b, point) for total, point in zip(totals, points_of_rest, strict=True)]
            break
        for number in order:
            whole_point = {**points_of_rest[number], **inner}
            x, y = operand(wide[0].at(whole_point)), operand(wide[1].at(whole_point))
            totals[number] = _multiply_add(w, op, x, y, totals[number])
    for point, total in zip(points_of_rest, totals, strict=True):
        if lanes_summed:
            add = combiner(w, "add", [op.to], op.flags)
            total = across_lanes(w, add, (total,), "reassoc" not in op.flags and is_float(op.to))[0]
            if accumulator is not None:
                total = arithmetic.binary(w, "add", op.to, accumulator.at(point), total, op.flags)
        items.append(total)
    vector = (None, 0) if lanes_summed else (simd, lanes)
    frame.define(op, Bundle(op.to, rest, *vector, tuple(items)))


def _cast_all(frame: FunctionFrame, bundle: Bundle, to: str) -> Bundle:
    if bundle.dtype == to:
        return bundle
    items = tuple(arithmetic.cast(frame.w, item, bundle.dtype, to) for item in bundle.items)
    return Bundle(to, bundle.axes, bundle.simd, bundle.lanes, items)


def _multiply_add(w: FunctionWriter, op: Contract, x: LlvmValue, y: LlvmValue, total: LlvmValue) -> LlvmValue:
    if "contract" in op.flags and op.to in ("f32", "f64"):
        # fused where the target has the instruction; elsewhere a call would cost far more than the two roundings
        return w.intrinsic("fmuladd", x, y, total)
    if not is_float(op.to):
        return arithmetic.fma(w, op.to, x, y, total)
    product = arithmetic.binary(w, "mul", op.to, x, y)
    return arithmetic.binary(w, "add", op.to, total, product)
