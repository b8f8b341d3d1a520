"""Many numbers divided by one, or each by its own; and many roots: by the reciprocal, or that of the root, and two corrections, rounded
as a division is, without the branch that ptxas puts around each `div.rn` and `sqrt.rn`. Where approximation is granted (`afn`) the
reciprocals of several roots of f64 are right to an ulp.

With r the rounded reciprocal of s, q = x*r is off by less than two units in the last place, one correction q + (x - q*s)*r by less than
one, and a second one is the rounded quotient (Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990). No step
may overflow or lose bits to subnormals: where numbers are not in the middle of the range, four at a time are divided the long way.
Remainders are taken with the other sign, which keeps the sign of zeros."""

from collections.abc import Mapping, Sequence
from math import frexp, inf, prod

from compiler.analysis.float_bounds import is_normal
from compiler.backends.llvm.arithmetic import rounded
from compiler.backends.llvm.bundle import Bundle, points, static_axes
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import F32
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Binary, Const, Unary
from compiler.hir.types import Tile, is_float

NUMERATORS = {"float": (2.0**-100, 2.0**100), "double": (2.0**-700, 2.0**700)}
DIVISORS = {"float": (2.0**-24, 2.0**24), "double": (2.0**-200, 2.0**200)}
ROOTED = {"float": (2.0**-100, 2.0**127), "double": (2.0**-900, 2.0**1000)}
FAR = 2.0**64, 2.0**-64
LEAST, TOGETHER = 2, 4
"""Numbers for which one branch pays, and numbers that have one at most."""


def shares_divisor(frame: NvptxFrame, op: Binary) -> bool:
    """Whether many floats are divided by one that isn't a power of two."""
    left, right = frame.values[op.left.name], frame.values[op.right.name]
    if op.operator != "div" or not is_float(left.dtype) or (left.dtype == "f64" and "afn" in op.flags):
        return False
    if isinstance(op.right.source, Const) and abs(frexp(float(op.right.source.value))[0]) in (0.0, 0.5):
        return False
    return not right.axes and not right.lanes and len(left.items) * max(1, left.lanes) >= TOGETHER


def divide(frame: NvptxFrame, op: Binary) -> None:
    w, left = frame.w, frame.values[op.left.name]
    divisor = frame.values[op.right.name].scalar
    scalar = Maths(w, divisor.type)
    if "afn" in op.flags:
        items = _about(frame, left.items, divisor)
        frame.define(op, Bundle(left.dtype, left.axes, left.simd, left.lanes, tuple(rounded(w, item, left.dtype) for item in items)))
        return
    reciprocal = scalar.div(scalar.number(1.0), divisor)
    usual = _is_between(scalar, divisor, DIVISORS)
    quotients: list[LlvmValue] = []
    together = max(1, TOGETHER // max(1, left.lanes))
    for start in range(0, len(left.items), together):
        quotients += _quotients(frame, left.items[start : start + together], divisor, reciprocal, usual)
    frame.define(op, Bundle(left.dtype, left.axes, left.simd, left.lanes, tuple(rounded(w, item, left.dtype) for item in quotients)))


def _about(frame: NvptxFrame, numbers: tuple[LlvmValue, ...], divisor: LlvmValue) -> list[LlvmValue]:
    """Products with the reciprocal, right to 22 bits. The divisor is brought to the middle of the range, where it has a reciprocal."""
    w = frame.w
    scalar = Maths(w, F32)
    size = scalar.abs(divisor)
    large, small = (scalar.number(number) for number in FAR)
    scale = w.select(scalar.is_("olt", size, FAR[1]), large, w.select(scalar.is_("ogt", size, FAR[0]), small, scalar.number(1.0)))
    reciprocal = scalar.div(scalar.number(1.0), scalar.mul(divisor, scale))
    quotients = []
    for x in numbers:
        m = Maths(w, x.type)
        quotients.append(m.mul(m.mul(x, w.splat(reciprocal, x.type.lanes)), w.splat(scale, x.type.lanes)))
    return quotients


def has_several(frame: NvptxFrame, op: Binary | Unary) -> bool:
    """Whether floats are divided each by its own, or roots taken, so many at a time that one branch for some of them pays."""
    granted = "afn" in op.flags
    if op.operator not in (("rsqrt",) if granted else ("div", "sqrt")) or not isinstance(op.result.type, Tile):
        return False
    if not is_float(op.result.type.dtype) or isinstance(op.operand_values[-1].source, Const):
        return False
    axes, _, lanes = static_axes(op.result.type, "NVPTX")
    return prod(size for _, size in axes) * max(1, lanes) >= LEAST


def several(frame: NvptxFrame, op: Binary | Unary) -> None:
    w, type = frame.w, op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, "NVPTX")
    held = [frame.values[value.name] for value in op.operand_values]
    places = list(points(axes))
    operands = [tuple(w.splat(bundle.at(point), lanes) for bundle in held) for point in places]
    each = [tuple(w.extract(one, lane) for one in some) for some in operands for lane in range(lanes)] if lanes else operands
    normal = isinstance(op, Unary) and is_normal(op.value)
    results: list[LlvmValue] = []
    known = frame.reciprocals.get(op.operand_values[-1].name, []) if op.operand_values[-1].type == type else []
    made: list[LlvmValue] = []
    for start in range(0, len(each), TOGETHER):
        together = each[start : start + TOGETHER]
        if isinstance(op, Binary):
            roots: Sequence[LlvmValue | None] = known[start : start + TOGETHER] or [None] * len(together)
            quotients = [_quotient(w, x, y, root) for (x, y), root in zip(together, roots, strict=True)]
            results += _branching(frame, quotients, "div", together)
            continue
        rooted = [_root(w, x) for (x,) in together]
        if op.operator == "rsqrt":
            rooted = [(reciprocal, fine, root) for root, fine, reciprocal in rooted]
        else:
            made += [reciprocal for _, _, reciprocal in rooted]
        if normal:
            for (x,), (result, _, _) in zip(together, rooted, strict=True):
                m = Maths(w, x.type)
                results.append(w.select(m.is_("oeq", x, inf), m.number(0.0) if op.operator == "rsqrt" else x, result))
        else:
            results += _branching(frame, [(result, fine) for result, fine, _ in rooted], op.operator, together)
    if made and type.dtype in ("f32", "f64"):
        frame.reciprocals[op.result.name] = made
    if lanes:
        whole = []
        for number, some in enumerate(operands):
            vector = some[0]
            for lane in range(lanes):
                vector = w.insert(vector, results[number * lanes + lane], lane)
            whole.append(vector)
        results = whole
    frame.define(op, Bundle(type.dtype, axes, simd, lanes, tuple(rounded(w, result, type.dtype) for result in results)))


Checked = tuple[LlvmValue, LlvmValue]
"""A result, and whether its operands are in the middle of the range."""


def _is_between(m: Maths, x: LlvmValue, range: Mapping[str, tuple[float, float]]) -> LlvmValue:
    least, most = range[m.type.element]
    return m.both(m.is_("oge", x, least), m.is_("ole", x, most))


def _quotient(w: FunctionWriter, x: LlvmValue, y: LlvmValue, root: LlvmValue | None) -> Checked:
    """`root`: about the reciprocal of `y`, if `y` is a root that isn't out of the range."""
    m = Maths(w, y.type)
    size = m.abs(x)
    fine = m.both(_is_between(m, m.abs(y), DIVISORS), m.either(_is_between(m, size, NUMERATORS), m.is_("oeq", x, 0.0)))
    r = m.reciprocal(y) if root is None else root
    error = m.fma(m.neg(y), r, m.number(1.0))
    if m.double and root is None:
        r = m.fma(r, m.fma(error, error, error), r)
        error = m.fma(m.neg(y), r, m.number(1.0))
    r = m.fma(r, error, r)
    q = m.mul(x, r)
    for _ in range(1 if m.double else 2):
        q = m.fma(m.neg(m.fma(q, y, m.neg(x))), r, q)
    return q, fine


def _root(w: FunctionWriter, x: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
    """The root, whether the number is in the middle of the range, and about the root's reciprocal."""
    m = Maths(w, x.type)
    guess = m.root_reciprocal(x)
    root = m.mul(x, guess)
    if m.double:  # a step that triples the 20 bits of the guess
        error = m.fma(m.neg(root), guess, m.number(1.0))
        step = m.mul(error, m.fma(error, m.number(0.375), m.number(0.5)))
        root, guess = m.fma(root, step, root), m.fma(guess, step, guess)
    root = m.fma(m.fma(m.neg(root), root, x), m.mul(guess, m.number(0.5)), root)
    return root, _is_between(m, x, ROOTED), guess


def _branching(frame: NvptxFrame, made: Sequence[Checked], operator: str, operands: Sequence[tuple[LlvmValue, ...]]) -> list[LlvmValue]:
    """The results, unless one of them isn't fine: all the long way then. That is assembly, or LLVM would take it out of its branch."""
    w = frame.w
    fine = made[0][1]
    for _, other in made[1:]:
        fine = w.binary("and", fine, other)
    slow, after, quick = w.label("exactly"), w.label("after"), w.label("quick")
    w.branch(quick)
    w.start(quick)
    w.branch_if(fine, after, slow)
    w.start(slow)
    exact = [_exact(w, operator, some) for some in operands]
    w.branch(after)
    w.start(after)
    return [w.phi(result.type, [(result, quick), (long, slow)]) for (result, _), long in zip(made, exact, strict=True)]


def _quotients(
    frame: NvptxFrame, numbers: tuple[LlvmValue, ...], divisor: LlvmValue, reciprocal: LlvmValue, usual: LlvmValue
) -> list[LlvmValue]:
    w = frame.w
    quotients, fine = [], usual
    for x in numbers:
        m = Maths(w, x.type)
        s, r, size = w.splat(divisor, x.type.lanes), w.splat(reciprocal, x.type.lanes), m.abs(x)
        inside = m.either(_is_between(m, size, NUMERATORS), m.is_("oeq", x, 0.0))
        for number in [w.extract(inside, lane) for lane in range(x.type.lanes)] or [inside]:
            fine = m.both(fine, number)
        q = m.mul(x, r)
        for _ in range(2):
            q = m.fma(m.neg(m.fma(q, s, m.neg(x))), r, q)
        quotients.append(q)
    slow, after = w.label("divide"), w.label("after")
    quick = w.label("quotient")
    w.branch(quick)
    w.start(quick)
    w.branch_if(fine, after, slow)
    w.start(slow)
    exact = [_each_exact(w, x, divisor) for x in numbers]
    w.branch(after)
    w.start(after)
    return [w.phi(q.type, [(q, quick), (e, slow)]) for q, e in zip(quotients, exact, strict=True)]


def _exact(w: FunctionWriter, operator: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """The operation itself; as assembly, or LLVM would take it out of its branch."""
    size, kind = ("64", "d") if operands[0].type.element == "double" else ("32", "f")
    places = ", ".join(f"${number}" for number in range(len(operands) + 1))
    if operator == "rsqrt":
        return w.assembly(f"sqrt.rn.f{size} $0, $1; rcp.rn.f{size} $0, $0;", [operands[0].type], f"{kind},{kind}", operands)[0]
    return w.assembly(f"{operator}.rn.f{size} {places};", [operands[0].type], ",".join(kind * len(operands)), operands)[0]


def _each_exact(w: FunctionWriter, x: LlvmValue, divisor: LlvmValue) -> LlvmValue:
    if not x.type.lanes:
        return _exact(w, "div", [x, divisor])
    quotients = x
    for lane in range(x.type.lanes):
        quotients = w.insert(quotients, _exact(w, "div", [w.extract(x, lane), divisor]), lane)
    return quotients
