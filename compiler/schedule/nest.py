"""The schedule of last resort, for nests that aren't lifted whole: the written loops stay, and analysis says which may be shared
out to threads and which are handed to the vectoriser. Nothing is reordered but what a monoid may join in chunks."""

from collections.abc import Iterator

from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.control import For, If, While
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.schedule.chunks import Chunked, chunked_loops, leaves
from compiler.schedule.copying import Copying, privately
from compiler.schedule.loop_wishes import no_unrolling_of
from compiler.schedule.table import Unheeded


def marked(nest: HirFunction, facts: NestFacts) -> tuple[HirFunction, tuple[str, ...], tuple[Unheeded, ...]]:
    """The nest with `place` set on its loops, what was chosen in words, and what of the program's annotations isn't followed."""
    choice = _Choice(facts)
    for op in nest.body.body:
        choice.choose(op, threaded=False, outermost=True)
    copy = Copying(nest, choice.places, choice.chunked, {op: privately(facts.loops[op]) for op in choice.places})
    loops = [inner for op in nest.body.body for inner in op.walk() if isinstance(inner, For)]
    unheeded = [each for loop in loops for each in choice.unheeded(loop)]
    return copy.function(), tuple(choice.words), tuple(unheeded)


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
        vectors = loop_facts.kind is LoopKind.PARALLEL and not inner and not privately(loop_facts)
        wished = [o for o in op.walk() if isinstance(o, For) and o.mark("parallel")]
        alone = (vectors and (bool(op.mark("vectorize")) or self.is_row_of_data(op))) or (bool(wished) and op not in wished)
        if loop_facts.kind is LoopKind.PARALLEL and not threaded and not op.carried and not alone:
            self.places[op] = "thread"
            self.words.append(f"{op.variable.name}: thread")
            return True
        if outermost and not alone and (chunked := chunked_loops(op, self.facts)) is not None:
            self.chunked[op] = chunked
            names = ", ".join(loop.variable.name for loop in chunked.loops)
            self.words.append(f"{names}: thread, in chunks that are joined in order")
            return True
        if vectors:
            self.places[op] = "simd"
            self.words.append(f"{op.variable.name}: simd")
        elif loop_facts.reason:
            self.words.append(f"{op.variable.name}: time, because {loop_facts.reason}")
        return threaded

    def is_row_of_data(self, op: For) -> bool:
        """Whether the loop goes along a row that data choose: too little work for threads, again and again."""
        return any(access.is_store and access.data for access in self.facts.nest.accesses if access.loops and access.loops[-1].op is op)

    def unheeded(self, op: For) -> Iterator[Unheeded]:
        """What the program says of a loop and isn't done, with the reason."""
        name, loop_facts = op.written, self.facts.loops.get(op)
        reason = "" if loop_facts is None else loop_facts.reason
        if loop_facts is not None and reason and not loop_facts.conflicts and not op.mark("serial"):
            reason = f"it isn't ruled out that {reason}"
        in_chunks = any(op in chunked.loops for chunked in self.chunked.values())
        if op.mark("parallel") and self.places.get(op) != "thread" and not in_chunks:
            yield Unheeded("parallel", name, reason or "a loop around it is shared out to threads already")
        if op.mark("vectorize") and self.places.get(op) != "simd":
            why = "its turns are joined by a sum" if loop_facts is not None and loop_facts.folds else "its body isn't a straight line"
            yield Unheeded("vectorize", name, reason or why)
        if op.mark("unroll") is not None and (why := "it is cut in chunks" if in_chunks else no_unrolling_of(op)):
            yield Unheeded("unroll", name, why)
