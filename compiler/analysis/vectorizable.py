"""Whether the loops of a host function can run several turns at once: whether a turn needs what an earlier one computed, other than sums
and extremes. Only innermost loops are asked about: those are what vectors are made of.

A cell may be read and set in a turn when it is set before it is read (it is the turn's own), or when all that is done with it is
`cell = cell op x` with one associative op. Of memory that the loop writes, each part is reached by one index, the same in all accesses
and different in each turn."""

from collections.abc import Iterator, Sequence

from compiler.diagnostics import Diagnostic, Label
from compiler.hir.affine import Affine
from compiler.hir.control import Call, For, While
from compiler.hir.core import Binary, Cast, Const, Index
from compiler.hir.host import Checked, Clear, Copy, Element, Local, Member, Read, Write
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import GetSlot, SetSlot
from compiler.hir.module import HirFunction
from compiler.source import Span
from runtime.records import frozen

JOINING = ("add", "mul", "min", "max", "and", "or", "xor")
"""Operations whose order doesn't matter, up to the rounding of floats."""


@frozen
class Carried:
    """Why a loop's turns can't run together, in words, and the two places that conflict (None: unknown)."""

    loop: Span | None
    words: str
    first: Span | None
    second: Span | None


def carried(function: HirFunction) -> list[Carried]:
    """All that one turn of an innermost loop needs from another."""
    dependences: list[Carried] = []
    for op in (op for top in function.body.body for op in top.walk()):
        if isinstance(op, For) and not any(isinstance(inner, For | While) for inner in list(op.walk())[1:]):
            dependences += _of_loop(op, "noalias" in function.attributes)
        elif isinstance(op, While) and not any(isinstance(inner, For | While) for inner in list(op.walk())[1:]):
            dependences.append(Carried(op.span, "a `while` ends where its last turn says", op.span, None))
    return dependences


def broken_promises(function: HirFunction, title: str, promise: Span) -> Iterator[Diagnostic]:
    """An error for all that keeps a function from what `@vectorizable`, which stands at `promise`, says of it."""
    for dependence in carried(function):
        places = [span for span in (dependence.first, dependence.second) if span is not None]
        others = (Label(promise, f"promised of {title} here"), *(Label(span, "written here") for span in places[1:]))
        hint = "sums, products and extremes of one variable may go on from turn to turn; all else must be the turn's own"
        message = f"{title} can't run several turns at once: {dependence.words}"
        yield Diagnostic("0405", message, places[0] if places else promise, others=others, hint=hint)


def _of_loop(loop: For, noalias: bool) -> Iterator[Carried]:
    ops = list(loop.walk())[1:]
    for op in ops:
        if isinstance(op, Call):
            yield Carried(loop.span, f"each turn calls `{op.function.removeprefix('fn.')}`", op.span, None)
        elif isinstance(op, Copy | Clear):
            yield Carried(loop.span, "each turn moves a whole value in memory", op.span, None)
    yield from _cells(loop, ops)
    yield from _memory(loop, ops, noalias)


# ---- cells ---------------------------------------------------------------------------------------------------------------


def _cells(loop: For, ops: Sequence[Instruction]) -> Iterator[Carried]:
    for cell in {op.slot.name: op.slot for op in ops if isinstance(op, SetSlot)}.values():
        made_inside = any(cell is result for op in ops for result in op.results)
        uses = [op for op in ops if isinstance(op, GetSlot | SetSlot) and op.slot is cell]
        if made_inside or (isinstance(uses[0], SetSlot) and uses[0] in loop.body.body) or _is_joined(cell, uses, ops):
            continue
        read = next((op for op in uses if isinstance(op, GetSlot)), None)
        written = next(op for op in uses if isinstance(op, SetSlot))
        if read is not None:
            yield Carried(loop.span, "a turn reads a variable that the turn before set", read.span, written.span)
        else:
            yield Carried(loop.span, "not every turn sets a variable", written.span, None)


def _is_joined(cell: Value, uses: Sequence[Instruction], ops: Sequence[Instruction]) -> bool:
    """Whether a loop only ever does `cell = cell op x`, with one op."""
    kinds: set[str] = set()
    reads = [op.result for op in uses if isinstance(op, GetSlot)]
    for op in uses:
        if isinstance(op, SetSlot):
            match op.value.source:
                case Binary(operator=kind, left=left, right=right) | Checked(operation=kind, left=left, right=right) if kind in JOINING:
                    if (left in reads) == (right in reads):
                        return False
                    kinds.add(kind)
                case _:
                    return False
    used = [value for op in ops for value in op.operand_values if any(value is read for read in reads)]
    return len(kinds) == 1 and len(used) == sum(isinstance(op, SetSlot) for op in uses)


# ---- memory --------------------------------------------------------------------------------------------------------------


@frozen
class _Access:
    op: Read | Write
    origin: Value
    path: tuple[str | Affine | None, ...]
    """Fields by name, elements by their index as a form of the loop's variable; None: an index that isn't one."""


def _memory(loop: For, ops: Sequence[Instruction], noalias: bool) -> Iterator[Carried]:
    own = {r.name for op in ops for r in op.results if isinstance(op, Local)}
    accesses = [_access(op, loop) for op in ops if isinstance(op, Read | Write)]
    accesses = [a for a in accesses if a.origin.name not in own]
    reported: set[tuple[int, int]] = set()
    for write in accesses:
        if not isinstance(write.op, Write):
            continue
        for other in accesses:
            if other.origin is not write.origin:
                if noalias or isinstance(other.origin.source, Local) or isinstance(write.origin.source, Local):
                    continue
            elif _apart(write, other, loop):
                continue
            pair = (min(id(write.op), id(other.op)), max(id(write.op), id(other.op)))
            if pair not in reported:
                reported.add(pair)
                does = "writes" if isinstance(other.op, Write) else "reads"
                yield Carried(loop.span, f"one turn {does} what another may write", other.op.span, write.op.span)


def _access(op: Read | Write, loop: For) -> _Access:
    path: list[str | Affine | None] = []
    pointer = op.pointer
    while True:
        match pointer.source:
            case Member(field_=field, pointer=base):
                path.append(field)
            case Element(at=at, pointer=base):
                path.append(_form(at, loop))
            case _:
                return _Access(op, pointer, tuple(reversed(path)))
        pointer = base


def _form(value: Value, loop: For) -> Affine | None:
    """An index as a form of the loop's variable and of values made before the loop."""
    match value.source:
        case Cast(value=inner):
            return _form(inner, loop)
        case Index(of=of):
            return of
        case (
            Binary(operator="add" | "sub" as sign, left=left, right=right)
            | Checked(operation="add" | "sub" as sign, left=left, right=right)
        ):
            first, other = _form(left, loop), _form(right, loop)
            return None if first is None or other is None else first + other if sign == "add" else first - other
        case Const(value=int(number)):
            return Affine.of(number)
        case _ if value is loop.variable or not any(result is value for op in list(loop.walk())[1:] for result in op.results):
            return Affine.of(value.name)
        case _:
            return None


def _apart(write: _Access, other: _Access, loop: For) -> bool:
    """Whether no turn reaches by `other` what another turn writes by `write`."""
    for own, there in zip(write.path, other.path, strict=False):
        if isinstance(own, str) and isinstance(there, str):
            if own != there:
                return True
        elif own is None or there is None:
            continue
        elif isinstance(own, Affine) and isinstance(there, Affine):
            factor, difference = own.coefficient(loop.variable.name), own - there
            if factor != there.coefficient(loop.variable.name) or difference.terms:
                continue
            step = abs(factor * loop.step)  # between two turns
            if difference.constant % step if step else difference.constant:
                return True
            if step and difference.constant == 0:
                return True
    return False
