"""Who does what of a march whose blocks have helpers: these bring what steps read, with what is computed of it alone, and store what lines
leave, with what is computed of that alone. A line's own thread does what its state needs.

    h = f32(a[t]) * h + f32(x[t]); out[t] = bf16(h)
    =>  helpers: %a = f32(a[t]), %x = f32(x[t])   the line: h = %a * h + %x, leaves h   helpers: out[t] = bf16(%h)"""

from collections.abc import Collection, Sequence
from itertools import chain

from compiler.hir.control import For
from compiler.hir.core import Binary, Const, dtype_of
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.need import read_names
from compiler.schedule.gpu.price.block_work import cost_of, latency_of
from runtime.records import frozen

EXTREME = 1.5
"""Times as long as a sum takes what chooses: that is another unit's, and one of several instructions where there are 64 bits."""


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
    instructions: int
    """Of a line's thread in a step, about."""
    helping: float
    """Instructions of helpers for that, beside loads and stores."""
    wait: float
    """Cycles from what a step is given of the state to what it carries on."""

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """Bytes of each that is brought, and of each that is left."""
        brought, left = ([bytes_of(dtype_of(value)) for value in values] for values in (self.brought, self.left))
        return brought, left


def work_of(loop: For, loads: Collection[Load], stores: Sequence[Store], given: Collection[Load], moves: bool = True) -> MarchWork:
    """Operations move to helpers one for one, so that no more goes through shared memory than is loaded and stored. `given`: what a line's
    thread has of other loads. `moves`: whether helpers compute."""
    body = [op for op in loop.body.body[:-1] if not isinstance(op, Const)]
    constants = [op for op in loop.body.body if isinstance(op, Const)]
    early, users = list[Instruction](loads), _users(loop)
    brought = [op.result for op in loads]

    def varying(op: Instruction) -> list[Value]:
        return list(dict.fromkeys(value for value in op.operand_values if not isinstance(value.source, Const)))

    for op in body:
        own = varying(op)
        if (
            moves
            and op not in early
            and own
            and _is_plain(op)
            and set(own) <= set(brought)
            and all(users[value.name] == [op] for value in own)
        ):
            early.append(op)
            brought = [*(value for value in brought if value not in own), op.results[0]]
    late, left = list[tuple[Instruction, ...]](), list[Value]()
    for store in stores:
        value, behind = store.value, list[Instruction]()
        while moves and (maker := value.source) is not None and maker in body and maker not in early and _is_plain(maker):
            if len(own := varying(maker)) != 1 or len(users[value.name]) != 1:
                break
            behind.insert(0, maker)
            (value,) = own
        left.append(value)
        late.append((*constants, *behind))
    others = {*early, *stores, *given}.union(*late)
    own_ops = [op for op in body if op not in others]
    instructions, helping = 1 + int(sum(map(cost_of, own_ops))), sum(map(cost_of, chain(early, *late)))
    return MarchWork(
        (*constants, *early),
        tuple(brought),
        tuple(stores),
        tuple(left),
        tuple(late),
        (*constants, *own_ops),
        instructions,
        helping,
        wait_of(loop, own_ops),
    )


def wait_of(loop: For, ops: Sequence[Instruction]) -> float:
    """Cycles from what a step is given of the state to what it carries on, of the operations that take part."""
    waits = dict.fromkeys(loop.body.parameters[1:], 0.0)
    for op in ops:
        given = [waits[value] for value in op.operand_values if value in waits]
        if given and op.results:
            waits.update(dict.fromkeys(op.results, max(given) + _wait_of(op)))
    return max((waits.get(value, 0.0) for value in loop.body.body[-1].operand_values), default=0.0)


def _wait_of(op: Instruction) -> float:
    """Of one operation: a product is most often joined with the sum behind it."""
    wide = 2.0 if bytes_of(dtype_of(op.results[0])) > 4 else 1.0
    match op:
        case Binary(operator="mul"):
            return 0.0
        case Binary(operator="min" | "max"):
            return EXTREME * wide * latency_of(op)
    return wide * latency_of(op)


def _is_plain(op: Instruction) -> bool:
    """Whether an operation is one of values alone, for helpers don't know a line's."""
    return op.effects is Effect.PURE and not op.regions and not op.symbols and len(op.results) == 1


def _users(loop: For) -> dict[str, list[Instruction]]:
    users: dict[str, list[Instruction]] = {}
    for op in loop.body.body:
        for name in read_names(op):
            users.setdefault(name, []).append(op)
    return users
