"""What is found while threads are watched, and the messages that say it: which lines, which threads, which element. Raised at once
(the emulator), or collected, one for each pair of places (`--sanitize`)."""

from collections.abc import Hashable, Iterable, Iterator

from compiler.emulator.clocks import Dims, ThreadClock, TimedAccess
from compiler.emulator.fault import KernelFault, ThreadFinding
from compiler.hir.instruction import Instruction
from compiler.hir.text import print_instruction
from runtime.records import Factory, define

_NOW = {"read": "reads", "write": "writes", "atomic": "changes", "copy": "copies to"}
_HERE = {"read": "reads it here", "write": "writes it here", "atomic": "changes it here, atomically", "copy": "copies to it from here on"}


@define(eq=False)
class ThreadFindings:
    """All that one launch found, by pairs of places. Without `collecting` the first one ends the launch."""

    collecting: bool = False
    found: dict[Hashable, ThreadFinding] = Factory(dict)

    def __iter__(self) -> Iterator[ThreadFinding]:
        return iter(self.found.values())

    def add(self, finding: ThreadFinding, *places: Instruction) -> None:
        """`places`: the instructions that make it one with others found there."""
        if not self.collecting:
            raise KernelFault(finding.code, -1, finding.values, finding)
        key = (finding.code, frozenset([finding.span])) if finding.span else _key(finding.code, places or (finding.op,))
        first = self.found.setdefault(key, finding)
        if first is not finding:
            first.count += 1

    def again(self, code: str, *places: Instruction) -> bool:
        """Counts one more of what was found at these instructions; False if there was none. It saves making the message once more."""
        first = self.found.get(_key(code, places))
        if first is not None:
            first.count += 1
        return first is not None


def _key(code: str, places: Iterable[Instruction]) -> Hashable:
    return code, frozenset(op.span or id(op) for op in places)


# ---- words ---------------------------------------------------------------------------------------------------------


def _dims(dims: Dims) -> str:
    x, y, z = dims
    return str(dims) if z else f"({x}, {y})" if y else str(x)


def thread_words(clock: ThreadClock) -> str:
    return f"thread {_dims(clock.index)} of block {_dims(clock.place)}"


def element_words(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def race_code(shared: bool) -> str:
    return "0412" if shared else "0414"


def race(name: str, shared: bool, index: tuple[int, ...], first: TimedAccess, second: TimedAccess) -> ThreadFinding:
    """Two accesses of an element that nothing orders, in the order in which they were seen."""
    element, first_words, second_words = element_words(name, index), thread_words(first.clock), thread_words(second.clock)
    same = first.op is second.op or (first.op.span is not None and first.op.span == second.op.span)
    if same:
        word = {"read": "read", "write": "write", "atomic": "change", "copy": "copy to"}[second.kind]
        label = f"{first_words} and {second_words} both {word} it here"
    else:
        label = f"{second_words} {_HERE[second.kind]}"
    others = () if same else ((first.op, f"{first_words} {_HERE[first.kind]}"),)
    where = "shared memory" if shared else "global memory"
    return ThreadFinding(
        race_code(shared),
        f"race on {where}: two threads are at `{element}` at the same time",
        second.op,
        label,
        others,
        _advice(shared, first, second),
        (*index, first.clock.thread, second.clock.thread),
        more="threads or elements",
    )


def _advice(shared: bool, first: TimedAccess, second: TimedAccess) -> str:
    kinds = {first.kind, second.kind}
    if "copy" in kinds:
        return "wait for the copy (`async_wait`), then put `barrier()` before others read"
    apart = first.clock.block != second.clock.block
    if kinds == {"atomic"}:
        return 'an atomic with `scope="block"` is one for its own block only: use `scope="device"`'
    if "atomic" in kinds:
        return "make both atomic, or put `barrier()` between" if not apart else "make both atomic: no barrier orders two blocks"
    if apart:
        return "no barrier orders two blocks: give each its own elements, or use `atomic_add` and its kind"
    if first.op is second.op and first.kind == "write":
        return "let one thread write, or use `atomic_add` and its kind"
    return "put `barrier()` between the two" if shared or not apart else "give each thread its own elements"


def unwritten(name: str, shared: bool, index: tuple[int, ...], seen: TimedAccess) -> ThreadFinding:
    element = element_words(name, index)
    return ThreadFinding(
        "0412" if shared else "0901",
        f"{'shared memory' if shared else 'memory'} `{element}` is read, but no thread has written it",
        seen.op,
        f"{thread_words(seen.clock)} {_NOW[seen.kind]} it here",
        hint=f"fill all of `{name}` that is read, then `barrier()`" if shared else None,
        values=index,
        more="threads or elements",
    )


def outside(name: str, index: tuple[int, ...], shape: tuple[int, ...], op: Instruction, clock: ThreadClock, kind: str) -> ThreadFinding:
    return ThreadFinding(
        "0801",
        f"`{element_words(name, index)}` is out of range: `{name}` has shape {list(shape)}",
        op,
        f"{thread_words(clock)} {_NOW[kind]} it here",
        hint="guard the access with `if`, or `clamp` the index",
        values=index,
        more="threads or elements",
    )


def barrier_missed(
    op: Instruction, count: int, counts: tuple[int, int], clock: ThreadClock, missing: str, others: tuple[tuple[Instruction, str], ...]
) -> ThreadFinding:
    """`count` threads wait at the barrier `op`, `counts` are those that wait at any, and all of the block."""
    waiting, all_ = counts
    return ThreadFinding(
        "0411",
        f"`barrier()` is reached by {count} of the {all_} threads of a block only",
        op,
        f"{thread_words(clock)} waits here for ever: {missing}",
        others,
        "move the barrier out, and leave only the work under the condition",
        (waiting, all_, op.name),
        more="blocks or turns",
    )


def lanes_missing(
    op: Instruction, lanes: list[int], clock: ThreadClock, missing: str, others: tuple[tuple[Instruction, str], ...]
) -> ThreadFinding:
    return ThreadFinding(
        "0415",
        f"warp operation reached by {len(lanes)} {'lane' if len(lanes) == 1 else 'lanes'} of a warp only",
        op,
        f"{thread_words(clock)} is here, {missing}",
        others,
        "move it out of the branch, so that all lanes of the warp take part, and leave only the use of its result under the condition",
        (len(lanes), op.name),
        more="warps or turns",
    )


def lane_absent(op: Instruction, clock: ThreadClock, lane: int, source: int) -> ThreadFinding:
    return ThreadFinding(
        "0415",
        "a lane is read that takes no part",
        op,
        f"{thread_words(clock)}, lane {lane} of its warp, reads lane {source}, which is not there",
        hint="use a block of whole warps of 32 threads, and bring all lanes to the operation",
        values=(lane, source),
        more="lanes",
    )


def mask_unfit(op: Instruction, clock: ThreadClock, words: str) -> ThreadFinding:
    return ThreadFinding(
        "0415",
        "the mask of a warp operation doesn't fit the lanes that come",
        op,
        f"{thread_words(clock)} {words}",
        hint="give all lanes of the mask the same mask, their own bits in it",
        more="lanes",
    )


# ---- what goes on beside the threads -----------------------------------------------------------------------------


def unread_store(op: Instruction, clock: ThreadClock) -> ThreadFinding:
    return ThreadFinding(
        "0412",
        f"`{print_instruction(op)}`: nobody has waited until shared memory was read, and the block ends",
        op,
        f"{thread_words(clock)} stores it here",
        hint="commit it (`bulk_commit`) and wait (`bulk_wait`) before the block ends, or its memory is written again",
    )


def unfinished_sums(op: Instruction, clock: ThreadClock) -> ThreadFinding:
    return ThreadFinding(
        "0412",
        f"`{print_instruction(op)}`: its sums are read, but nobody has waited for them",
        op,
        f"{thread_words(clock)} begins them here",
        hint="commit the product (`wgmma.commit`) and wait for its group (`wgmma.wait`) before its sums are read",
    )


def unfenced_registers(op: Instruction, clock: ThreadClock) -> ThreadFinding:
    return ThreadFinding(
        "0412",
        f"`{print_instruction(op)}` may not see what threads have left in registers",
        op,
        f"{thread_words(clock)} begins it here",
        hint="make `wgmma.fence` before the first product after registers were written",
    )


def early_barrier(op: Instruction, initialisation: Instruction, clock: ThreadClock) -> ThreadFinding:
    return ThreadFinding(
        "0412",
        f"`{print_instruction(op)}`: the thread doesn't know that the barrier has been initialised",
        op,
        f"{thread_words(clock)} uses it here",
        ((initialisation, "initialised here"),),
        "let all threads meet (`barrier()`) after the initialisation",
    )
