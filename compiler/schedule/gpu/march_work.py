"""Who does what of a march whose blocks have helpers: these bring what steps read, with what is computed of it alone, and store what lines
leave, with what is computed of that alone. A line's own thread does what its state needs.

    h = f32(a[t]) * h + f32(x[t]); out[t] = bf16(h)
    =>  helpers: %a = f32(a[t]), %x = f32(x[t])   the line: h = %a * h + %x, leaves h   helpers: out[t] = bf16(%h)"""

from collections.abc import Collection, Sequence

from compiler.hir.control import For
from compiler.hir.core import Const
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.schedule.gpu.need import read_names
from runtime.records import frozen


@frozen(eq=False)
class MarchWork:
    """`early`: what helpers load and compute, and `brought` of it; `stores`, with what each line leaves for them, and `late`, what helpers
    compute of each; `own`: what is left for the line's thread, in order."""

    early: tuple[Instruction, ...]
    brought: tuple[Value, ...]
    stores: tuple[Store, ...]
    left: tuple[Value, ...]
    late: tuple[tuple[Instruction, ...], ...]
    own: tuple[Instruction, ...]


def work_of(loop: For, loads: Collection[Load], stores: Sequence[Store], given: Collection[Load]) -> MarchWork:
    """Operations move to helpers one for one, so that no more goes through shared memory than is loaded and stored. `given`: what a line's
    thread has of other loads."""
    body = [op for op in loop.body.body[:-1] if not isinstance(op, Const)]
    constants = [op for op in loop.body.body if isinstance(op, Const)]
    early: list[Instruction] = list(loads)
    brought = [op.result for op in loads]

    def varying(op: Instruction) -> list[Value]:
        return list(dict.fromkeys(value for value in op.operand_values if not isinstance(value.source, Const)))

    for op in body:
        own = varying(op)
        if op not in early and own and _is_plain(op) and set(own) <= set(brought) and all(_users(loop, value) == [op] for value in own):
            early.append(op)
            brought = [*(value for value in brought if value not in own), op.results[0]]
    late, left = list[tuple[Instruction, ...]](), list[Value]()
    for store in stores:
        value, behind = store.value, list[Instruction]()
        while (maker := value.source) is not None and maker in body and maker not in early and _is_plain(maker):
            if len(own := varying(maker)) != 1 or len(_users(loop, value)) != 1:
                break
            behind.insert(0, maker)
            (value,) = own
        left.append(value)
        late.append((*constants, *behind))
    others = {*early, *stores, *given}.union(*late)
    own_ops = (op for op in body if op not in others)
    return MarchWork((*constants, *early), tuple(brought), tuple(stores), tuple(left), tuple(late), (*constants, *own_ops))


def _is_plain(op: Instruction) -> bool:
    """Whether an operation is one of values alone, for helpers don't know a line's."""
    return op.effects is Effect.PURE and not op.regions and not op.symbols and len(op.results) == 1


def _users(loop: For, value: Value) -> list[Instruction]:
    return [op for op in loop.body.body if value in op.operand_values or value.name in read_names(op)]
