"""The schedule of last resort, for nests that aren't lifted whole: the written loops stay, and analysis says which may be shared
out to threads and which are handed to the vectoriser. Nothing is reordered but what a monoid may join in chunks."""

from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.control import For, If, While
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.schedule.chunks import Chunked, chunked_loops, leaves
from compiler.schedule.copying import Copying, privately


def marked(nest: HirFunction, facts: NestFacts) -> tuple[HirFunction, tuple[str, ...]]:
    """The nest with `place` set on its loops, and what was chosen in words."""
    choice = _Choice(facts)
    for op in nest.body.body:
        choice.choose(op, threaded=False, outermost=True)
    copy = Copying(nest, choice.places, choice.chunked, {op: privately(facts.loops[op]) for op in choice.places})
    return copy.function(), tuple(choice.words)


class _Choice:
    """Walks the loops from outside inwards."""

    def __init__(self, facts: NestFacts) -> None:
        self.facts = facts
        self.places: dict[For, str] = {}
        self.chunked: dict[For, Chunked] = {}
        self.words: list[str] = []

    def choose(self, op: Instruction, threaded: bool, outermost: bool) -> None:
        if isinstance(op, For):
            outermost = outermost and not threaded
            threaded = self.loop(op, threaded, outermost)
        inside = outermost and not isinstance(op, For | While)
        for region in op.regions:
            for nested in region.body:
                self.choose(nested, threaded, inside)

    def loop(self, op: For, threaded: bool, outermost: bool) -> bool:
        """Chooses for one loop; whether threads are then at work in it."""
        loop_facts = self.facts.loops.get(op)
        if loop_facts is None or leaves(op.body):
            return threaded
        inner = [o for region in op.regions for o in region.body if isinstance(o, For | While | If)]
        if loop_facts.kind is LoopKind.PARALLEL and not threaded and not op.carried:
            self.places[op] = "thread"
            self.words.append(f"{op.variable.name}: thread")
            return True
        if outermost and (chunked := chunked_loops(op, self.facts)) is not None:
            self.chunked[op] = chunked
            names = ", ".join(loop.variable.name for loop in chunked.loops)
            self.words.append(f"{names}: thread, in chunks that are joined in order")
            return True
        if loop_facts.kind is LoopKind.PARALLEL and not inner and not privately(loop_facts):
            self.places[op] = "simd"
            self.words.append(f"{op.variable.name}: simd")
        elif loop_facts.reason:
            self.words.append(f"{op.variable.name}: time, because {loop_facts.reason}")
        return threaded
