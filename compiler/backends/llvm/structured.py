"""Loops and branches. Carried values and results live in stack cells, which LLVM turns back into registers."""

from collections.abc import Callable, Iterable

from compiler.backends.llvm.frame import FunctionFrame, LoopExits, index_bundle
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.control import Condition, For, If, Return, While, Yield
from compiler.hir.instruction import Instruction, Value

UNLIKELY = 1000
"""So many times a branch goes the likely way for each time that it goes the other."""


def counted_loop(
    frame: FunctionFrame, op: For, low: LlvmValue, high: LlvmValue, notes: str = "", begin: Iterable[Callable[[], None]] = ()
) -> None:
    """The loop from `low` to `high`; `notes` go to the branch back, and `begin` writes what comes first in each turn."""
    w = frame.w
    start = [frame.values[value.name] for value in op.carried]
    cells = [frame.cells(bundle) for bundle in start]
    for bundle, held in zip(start, cells, strict=True):
        frame.put(bundle, held)
    latch, leave = w.label("latch"), w.label("exit")
    with w.loop(low, high, op.step, notes, latch, leave) as index:
        frame.values[op.variable.name] = index_bundle(index)
        for parameter, bundle, held in zip(op.body.parameters[1:], start, cells, strict=True):
            frame.values[parameter.name] = frame.fetch(bundle, held)
        frame.targets.append(LoopExits(latch, leave))
        frame.yields.append(cells)
        for write in begin:
            write()
        frame.region(op.body)
        frame.yields.pop()
        frame.targets.pop()
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(start, cells, strict=True)])


def branch(frame: FunctionFrame, op: If) -> None:
    w = frame.w
    condition = frame.values[op.condition.name].scalar
    results = [frame.undefined(type) for type in op.types]
    cells = [frame.cells(bundle) for bundle in results]
    then, otherwise, after = w.label("then"), w.label("else"), w.label("after")
    w.branch_if(condition, then, otherwise if op.otherwise is not None else after, _weights(frame, op))
    for label, region in ((then, op.then), (otherwise, op.otherwise)):
        if region is None:
            continue
        w.start(label)
        frame.yields.append(cells)
        frame.region(region)
        frame.yields.pop()
        w.branch(after)
    w.start(after)
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(results, cells, strict=True)])


def _weights(frame: FunctionFrame, op: If) -> str:
    """What a branch says of how likely its ways are."""
    if op.likely is None:
        return ""
    weights = (UNLIKELY, 1) if op.likely else (1, UNLIKELY)
    node = frame.w.module.node(['!"branch_weights"', *(f"i32 {weight}" for weight in weights)])
    return f", !prof {node}"


def repeat(frame: FunctionFrame, op: While) -> None:
    w = frame.w
    start = [frame.values[value.name] for value in op.carried]
    cells = [frame.cells(bundle) for bundle in start]
    for bundle, held in zip(start, cells, strict=True):
        frame.put(bundle, held)
    head, body, leave = w.label("while"), w.label("do"), w.label("done")
    w.start(head)

    def fetch(parameters: list[Value]) -> None:
        for parameter, bundle, held in zip(parameters, start, cells, strict=True):
            frame.values[parameter.name] = frame.fetch(bundle, held)

    fetch(op.before.parameters)
    frame.region(op.before)
    last = op.before.body[-1]
    assert isinstance(last, Condition)
    going = frame.values[last.value.name].scalar
    clean = frame.still_good()
    if clean is not None:
        # after a fault the data may never end the loop
        going = w.select(clean, going, constant(going.type, 0))
    w.branch_if(going, body, leave)
    w.start(body)
    fetch(op.body.parameters or op.before.parameters)
    frame.targets.append(LoopExits(head, leave))
    frame.yields.append(cells)
    frame.region(op.body)
    frame.yields.pop()
    frame.targets.pop()
    w.branch(head)
    w.start(leave)
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(start, cells, strict=True)])


def give(frame: FunctionFrame, op: Yield) -> None:
    """Store what the innermost region carries or results in."""
    if not op.values:
        return
    for value, cells in zip(op.values, frame.yields[-1], strict=True):
        frame.put(frame.values[value.name], cells)


def leave_function(frame: FunctionFrame, op: Return) -> None:
    frame.w.branch(frame.finish)


def jump(frame: FunctionFrame, op: Instruction, out: bool) -> None:
    target = frame.targets[-1]
    frame.w.branch(target.leaving if out else target.following)
