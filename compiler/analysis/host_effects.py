"""What host functions do besides computing, over the whole call graph: whether they can allocate, enter the system, come back to
themselves, run without end, or call what nothing is known of. A finding has the calls that lead there; front ends make errors of it."""

from collections.abc import Iterator
from enum import Enum

from compiler.analysis.ranges import Ranges
from compiler.hir.control import Call, For, While
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Alloc
from compiler.hir.module import HirFunction, HirModule, Linkage
from compiler.source import Span
from runtime.records import frozen


class EffectKind(Enum):
    ALLOCATION = "allocation"
    SYSTEM = "system call"
    RECURSION = "recursion"
    UNBOUNDED = "loop without a bound"
    UNKNOWN = "call of unknown effects"


DECLARED = {"effects.alloc": EffectKind.ALLOCATION, "effects.io": EffectKind.SYSTEM}
"""What an external function says of itself; `effects.none` says that it does nothing of the kind."""


@frozen
class EffectStep:
    """An instruction of a function: a call on the way, or at the end what was looked for."""

    function: str
    span: Span | None


@frozen
class EffectFinding:
    """`what`: the function called, or the instruction. `chain` begins in the function that was asked about; of a recursion it is the
    calls around the circle, behind those that lead to it."""

    kind: EffectKind
    what: str
    chain: tuple[EffectStep, ...]


def findings(module: HirModule, name: str) -> tuple[EffectFinding, ...]:
    """All that a function does by itself or by what it calls, each place once, by the shortest way there."""
    paths = _ways(module, name)
    effects = [
        EffectFinding(kind, detail, (*path, EffectStep(current, op.span)))
        for current, path in paths.items()
        for kind, detail, op in _own(module, module.functions[current])
    ]
    circles: set[frozenset[str]] = set()
    for current, path in paths.items():
        around = _around(module, current)
        members = frozenset(step.function for step in around)
        if around and members not in circles:
            circles.add(members)
            effects.append(EffectFinding(EffectKind.RECURSION, current, (*path, *around)))
    return tuple(effects)


def _ways(module: HirModule, name: str) -> dict[str, tuple[EffectStep, ...]]:
    """Every function of the module that `name` reaches, itself first, and the calls of the shortest way there."""
    paths: dict[str, tuple[EffectStep, ...]] = {name: ()}
    waiting = [name]
    while waiting:
        current = waiting.pop(0)
        for call in _calls(module.functions[current]):
            target = module.functions.get(call.function)
            if target is not None and not target.is_elsewhere and call.function not in paths:
                paths[call.function] = (*paths[current], EffectStep(current, call.span))
                waiting.append(call.function)
    return paths


def _around(module: HirModule, name: str) -> tuple[EffectStep, ...]:
    """The shortest circle of calls from a function to itself; empty when there is none."""
    for reached, path in _ways(module, name).items():
        for call in _calls(module.functions[reached]):
            if call.function == name:
                return (*path, EffectStep(reached, call.span))
    return ()


def _own(module: HirModule, function: HirFunction) -> Iterator[tuple[EffectKind, str, Instruction]]:
    ranges = Ranges(function)
    for op in (op for top in function.body.body for op in top.walk()):
        match op:
            case Alloc():
                yield EffectKind.ALLOCATION, "alloc", op
            case While() if ranges.rounds(op) is None:
                yield EffectKind.UNBOUNDED, "while", op
            case For() if ranges.turns(op) is None:
                yield EffectKind.UNBOUNDED, "for", op
            case Call():
                target = module.functions.get(op.function)
                if target is None:
                    yield EffectKind.UNKNOWN, op.function, op
                elif target.linkage is Linkage.EXTERNAL:
                    said = [a for a in target.attributes if a.startswith("effects.")]
                    if not said:
                        yield EffectKind.UNKNOWN, op.function, op
                    yield from ((DECLARED[effect], op.function, op) for effect in said if effect in DECLARED)
            case _:
                pass


def _calls(function: HirFunction) -> Iterator[Call]:
    return (op for top in function.body.body for op in top.walk() if isinstance(op, Call))
