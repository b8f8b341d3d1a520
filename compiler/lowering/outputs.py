"""The block's results: names, dtype, rank and extent, whether every element is written, and how each is handed back."""

from collections.abc import Container, Iterator, Sequence
from itertools import takewhile

from compiler.diagnostics import Diagnostic, Severity
from compiler.hir.affine import Affine
from compiler.hir.prover import Inequalities
from compiler.lowering.body import Access, Body, fault
from compiler.lowering.dtypes import scalar_named
from compiler.lowering.ranges import NumberRange, extreme, last_value
from compiler.lowering.walk import number
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from runtime.records import evolve, frozen


@frozen(eq=False)
class DeclaredResult:
    """A result as the block declares it: dims None where they follow from the writes, one dim None for `?`."""

    name: str
    dtype: DType | None
    dims: tuple[nodes.Expression | None, ...] | None
    scalar: bool
    span: Span | None


def declared_results(compute: nodes.Compute) -> list[DeclaredResult]:
    """The results in order; one inferred `out` when nothing is declared."""
    if not compute.results:
        return [DeclaredResult("out", None, None, False, None)]
    return [_declared(result, result.name or "out") for result in compute.results]


def _declared(result: nodes.ComputeResult, name: str) -> DeclaredResult:
    match result.type_syntax:
        case nodes.TensorTypeSyntax(dims=dims, dtype=dtype):
            if dims is None:
                return DeclaredResult(name, scalar_named(dtype), None, False, result.span)
            element = DType.F32 if dtype is None else scalar_named(dtype)
            if element is None:
                raise fault("0203", f"`{name}` must hold numbers", dtype.span if dtype is not None else result.span)
            return DeclaredResult(name, element, tuple(dim.value for dim in dims), False, result.span)
        case syntax:
            element = scalar_named(syntax)
            if element is None:
                raise fault("0203", f"a kernel's result is a number or a tensor of numbers, which `{name}` isn't", syntax.span)
            return DeclaredResult(name, element, None, True, result.span)


def declared_dims(body: Body, declared: DeclaredResult) -> tuple[Affine | None, ...] | None:
    """The declared extents as forms."""
    if declared.dims is None:
        return None
    dims: list[Affine | None] = []
    for dim in declared.dims:
        if dim is None:
            dims.append(None)
            continue
        with body.here.sizing(dim):
            extent = number(body, dim)
        if extent.form is None and extent.factors and not body.final:
            body.factors |= extent.factors  # with numbers for them it is one
            dims.append(None)
            continue
        if extent.form is None:
            raise fault("0303", "a result's extent must be known at launch", dim.span, hint="use ints and size names")
        dims.append(extent.form)
    return tuple(dims)


def extents(accesses: Sequence[Access], name: str, rank: int, facts: Inequalities) -> tuple[list[Affine], list[Diagnostic], list[Affine]]:
    """Largest index + 1 along each axis over all writes to the result, the problems met, and forms that must be at least 0 for
    the answer to be right."""
    largest_: list[Affine] = []
    problems: list[Diagnostic] = []
    needed: list[Affine] = []
    writes = [access for access in accesses if access.memory == name and access.is_write and len(access.index) == rank]
    for axis in range(rank):
        largest: Affine | None = None
        for access in writes:
            bound = _guarded(access, access.index[axis])
            if bound is None:
                bound = extreme(access.index[axis], [_exact(loop) for loop in access.ranges], upper=True) + 1
            varying = [loop for loop in bound.names if loop in access.opaque or any(loop == r.name for r in access.ranges)]
            if varying:
                problems.append(
                    Diagnostic(
                        "0303",
                        f"the extent of `{name}` along axis {axis} depends on data",
                        access.span,
                        "this index has no bound at launch",
                        hint=f"state the result's type: `-> tensor[{', '.join('NMKL'[:rank])}]`",
                    )
                )
                largest = largest or Affine((), 0)
                continue
            if any(loop.startswith(f"{name}.") for loop in bound.names):
                continue
            larger = _larger(largest, bound, facts, needed)
            if larger is None:
                assert largest is not None
                problems.append(
                    Diagnostic(
                        "0303",
                        f"the extent of `{name}` along axis {axis} is {largest} by one write and {bound} by another",
                        access.span,
                        "which is larger isn't known",
                        hint=f"state the result's type: `-> tensor[{', '.join('NMKL'[:rank])}]`",
                    )
                )
                continue
            largest = larger
        largest_.append(largest if largest is not None else Affine())
    return largest_, problems, needed


def _guarded(access: Access, form: Affine) -> Affine | None:
    """One past the largest index that a guard allows (`if b + t < N` over `out[b + t]`), None where no guard bounds it by sizes."""
    varying = {loop.name for loop in access.ranges} | access.opaque
    if not any(name in varying for name in form.names):
        return None
    for guard in access.guards:
        allowed = form + guard
        if not any(name in varying for name in allowed.names):
            return allowed + 1
    return None


def _larger(have: Affine | None, bound: Affine, facts: Inequalities, needed: list[Affine]) -> Affine | None:
    if have is None or have == bound:
        return bound
    difference = (bound - have).value
    if difference is not None:
        return bound if difference > 0 else have
    if facts.proves(have - bound):
        return have
    if facts.proves(bound - have):
        return bound
    if have.value is not None or bound.value is not None:
        larger, smaller = (bound, have) if have.value is not None else (have, bound)
        needed.append(larger - smaller)
        return larger
    return None


def _exact(loop: NumberRange) -> NumberRange:
    if abs(loop.step) == 1:
        return loop
    high = loop.last + 1 if loop.step > 0 else loop.last - 1
    return evolve(loop, last=last_value(loop.low, high, loop.step))


def covering(accesses: Sequence[Access], name: str, dims: Sequence[Affine], facts: Inequalities) -> tuple[Affine, ...] | None:
    """Forms of sizes that are all at least 0 only where the writes reach every element: none where they surely do, by boxes of
    unconditional writes that follow each other along one axis; where it isn't known that these reach its end, that they do. None where
    that isn't a matter of sizes."""
    plain = _plain_writes(accesses, name)
    boxes = [box for access in (*plain, *_side_by_side(plain)) if (box := _box(access, facts)) is not None]
    opaque = frozenset[str]().union(*(box.opaque for box in boxes))
    sure = [box.sides for box in boxes if not box.needs]
    unproved = [needs for box in boxes if (needs := _unproved(box.around(dims), facts, box.opaque)) is not None]
    for axis in range(len(dims)):
        usable = [box for box in sure if all(_spans(box[other], dims[other], facts) for other in range(len(dims)) if other != axis)]
        reached = _chain([box[axis] for box in usable], dims[axis], facts)
        if facts.proves(reached - dims[axis]):
            return ()
        if reached != Affine() and (needs := _unproved([reached - dims[axis]], facts, opaque)) is not None:
            unproved.insert(0, needs)  # of forms that say as much the weakest
    return min(unproved, key=len, default=None)


def written_whole(accesses: Sequence[Access], name: str, facts: Inequalities) -> tuple["_Side", ...]:
    """A box all of which is written, [low, high) an axis; empty where there is none that a launch knows."""
    for access in _plain_writes(accesses, name):
        box = _box(access, facts)
        if box is not None and not box.needs:
            names = {symbol for side in box.sides for form in side for symbol in form.names}
            if names.isdisjoint(box.opaque):
                return box.sides
    return ()


def _unproved(forms: Sequence[Affine], facts: Inequalities, opaque: Container[str]) -> tuple[Affine, ...] | None:
    """Those forms of which it isn't known that they are at least 0; None where one never is, or no launch knows."""
    unproved = tuple(dict.fromkeys(form for form in forms if not facts.proves(form)))
    unknown = any(name in opaque for form in unproved for name in form.names)
    return None if unknown or any(form.value is not None or facts.proves(-form - 1) for form in unproved) else unproved


def _plain_writes(accesses: Sequence[Access], name: str) -> list[Access]:
    """Unconditional writes; of a write in every branch of one `if`, one stands for all."""
    writes = [access for access in accesses if access.memory == name and access.is_write]
    plain = [access for access in writes if not access.path]
    for access in writes:
        if len(access.path) == 1 and access.path[0][1] == 0:
            construct = access.path[0][0]
            if any(
                other.path == ((construct, 1),) and other.words == access.words and len(other.ranges) == len(access.ranges)
                for other in writes
            ):
                plain.append(access)
    return plain


def _side_by_side(writes: Sequence[Access]) -> Iterator[Access]:
    """Writes of the same loops to neighbouring elements along an axis (`out[2 * e]`, `out[2 * e + 1]`), each set as one write with a loop
    over the neighbours."""
    neighbours: dict[tuple[int, Affine, tuple[Affine, ...], tuple[NumberRange, ...]], list[Access]] = {}
    for access in writes:
        for axis, form in enumerate(access.index):
            others = (*access.index[:axis], *access.index[axis + 1 :])
            neighbours.setdefault((axis, form - form.constant, others, access.ranges), []).append(access)
    for (axis, *_), accesses in neighbours.items():
        constants = sorted({access.index[axis].constant for access in accesses})
        if len(constants) > 1 and constants[-1] - constants[0] == len(constants) - 1:
            first = min(accesses, key=lambda access: access.index[axis].constant)
            digit = NumberRange("neighbour", Affine(), Affine.of(len(constants) - 1))
            index = (*first.index[:axis], first.index[axis] + digit.name, *first.index[axis + 1 :])
            yield evolve(first, index=index, ranges=(*first.ranges, digit))


_Side = tuple[Affine, Affine]


@frozen
class _Box:
    """What a write reaches where each of `needs` is at least 0: [low, high) an axis. `opaque`: names that no launch knows."""

    sides: tuple[_Side, ...]
    needs: tuple[Affine, ...]
    opaque: frozenset[str]

    def around(self, dims: Sequence[Affine]) -> list[Affine]:
        """What must be at least 0 for it to reach everything."""
        return [*self.needs, *(form for (low, high), dim in zip(self.sides, dims, strict=True) for form in (-low, high - dim))]


def _box(access: Access, facts: Inequalities) -> _Box | None:
    """The written box; None when the access writes no full one."""
    varying = {loop.name: loop for loop in access.ranges}
    used: set[str] = set()
    sides: list[_Side] = []
    needs: list[Affine] = []
    for form in access.index:
        if any(not isinstance(symbol, str) for symbol, _ in form.terms) and any(name in varying for name in form.names):
            return None
        own = [name for name in form.names if name in varying]
        reached = _reached(form, [varying[name] for name in own])
        if reached is None or not used.isdisjoint(own):
            return None
        if any(name in varying for bound in reached[0] for name in bound.names):
            return None
        used.update(own)
        sides.append(reached[0])
        needs += reached[1]
    needs += [loop.extent - 1 for loop in access.ranges if loop.name not in used and (loop.exact or abs(loop.step) != 1)]
    unproved = _unproved(needs, facts, access.opaque | varying.keys())
    return None if unproved is None else _Box(tuple(sides), unproved, access.opaque)


def _reached(form: Affine, loops: Sequence[NumberRange]) -> tuple[_Side, list[Affine]] | None:
    """The interval of a form's values over loops, and what must be at least 0 for it to have no gaps: as digits of a number, each loop
    steps over no more than what those with smaller factors fill. Where it steps over all of it, a loop without steps leaves the
    interval empty, too; elsewhere it must have one."""
    needs: list[Affine] = []
    low = high = form.without(*(loop.name for loop in loops))
    for loop in sorted(loops, key=lambda loop: abs(form.coefficient(loop.name))):
        factor = form.coefficient(loop.name)
        if abs(loop.step) != 1 or not loop.exact:
            return None
        slack = high - low + 1 - abs(factor)
        if slack.value != 0:
            needs += [slack, loop.extent - 1]
        first, last = (loop.smallest, loop.largest) if factor > 0 else (loop.largest, loop.smallest)
        low, high = low + first * factor, high + last * factor
    return (low, high + 1), needs


def _spans(side: _Side, extent: Affine, facts: Inequalities) -> bool:
    return facts.proves(-side[0]) and facts.proves(side[1] - extent)


def _chain(sides: list[_Side], extent: Affine, facts: Inequalities) -> Affine:
    """How far intervals that follow each other reach from 0 on; no further than the extent, where that is known."""
    reached = Affine()
    waiting = list(sides)
    while not facts.proves(reached - extent):
        step = next((side for side in waiting if facts.proves(reached - side[0]) and not facts.proves(reached - side[1])), None)
        if step is None:
            break
        waiting.remove(step)
        reached = step[1]
    return reached


def surely_uncovered(accesses: Sequence[Access], name: str, dims: Sequence[Affine], facts: Inequalities) -> Access | None:
    """A write to blame when some element is certainly left out: all writes are plain, start past 0, stop short, or skip."""
    writes = [access for access in accesses if access.memory == name and access.is_write]
    if not writes or any(access.path for access in writes):
        return None
    for axis in range(len(dims)):
        if dims[axis].value == 0:
            return None
        if all(_misses(access, axis, dims[axis]) for access in writes):
            return writes[0]
    return None


def _misses(access: Access, axis: int, extent: Affine) -> bool:
    form = access.index[axis]
    low = extreme(form, access.ranges, upper=False)
    if low.value is not None and low.value > 0:
        return True
    high = extreme(form, access.ranges, upper=True)
    short = (extent - 1 - high).value
    if short is not None and short > 0:
        return True
    varying = [loop for loop in access.ranges if loop.name in form.names]
    if len(varying) == 1:
        stride = abs(form.coefficient(varying[0].name) * varying[0].step)
        triangular = any(name in {r.name for r in access.ranges} for bound in (varying[0].low, varying[0].last) for name in bound.names)
        return stride > 1 or triangular
    return False


def read_before_written(accesses: Sequence[Access], name: str, dims: Sequence[Affine], facts: Inequalities) -> bool:
    """Whether some read of a memory may meet an element that no plain write has reached by then."""
    writes: list[Access] = []
    for access in accesses:
        if access.memory != name:
            continue
        if access.is_write:
            writes.append(access)
        elif not _reaches(_plain_writes(writes, name), access, dims, facts):
            return True
    return False


def _reaches(writes: Sequence[Access], read: Access, dims: Sequence[Affine], facts: Inequalities) -> bool:
    """Whether writes that stand before a read reach all that it reads, in one iteration of the loops around both."""
    by_depth: dict[int, list[Access]] = {}
    for write in writes:
        depth = sum(1 for _ in takewhile(lambda pair: pair[0].name == pair[1].name, zip(write.ranges, read.ranges, strict=False)))
        own, others = write.ranges[depth:], read.ranges[depth:]
        if write.words == read.words and [(r.low, r.last, r.step) for r in own] == [(r.low, r.last, r.step) for r in others]:
            return True
        by_depth.setdefault(depth, []).append(evolve(write, ranges=own))
    for depth, inner in by_depth.items():
        box = _box(evolve(read, ranges=read.ranges[depth:]), facts)
        for sides in ([(Affine(), dim) for dim in dims], *([] if box is None else [box.sides])):
            # what stands in the box that is read, counted from its lowest corner
            moved = [evolve(w, index=tuple(form - low for form, (low, _) in zip(w.index, sides, strict=True))) for w in inner]
            if covering(moved, read.memory, [high - low for low, high in sides], facts) == ():
                return True
    return False


def uncovered_warning(name: str, access: Access) -> Diagnostic:
    return Diagnostic(
        "0601",
        f"some elements of `{name}` are never written: they are 0",
        access.span,
        "this write skips them",
        hint=f"write all of `{name}`, or ignore this when 0 is meant",
        severity=Severity.WARNING,
    )
