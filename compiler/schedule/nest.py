"""The schedule of last resort, for nests that aren't lifted whole: the written loops stay, and analysis says which may be shared
out to threads and which are handed to the vectoriser. Nothing is reordered."""

from attrs import evolve

from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.affine import Affine
from compiler.hir.clone import rebuilt
from compiler.hir.control import Break, Continue, For, If, Return, While
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.module import HirFunction


def marked(nest: HirFunction, facts: NestFacts) -> tuple[HirFunction, tuple[str, ...]]:
    """The nest with `place` set on its loops, and what was chosen in words."""
    places: dict[For, str] = {}
    words: list[str] = []
    for op in nest.body.body:
        _choose(op, facts, places, words, threaded=False)
    copy = _Copy(places)
    made = evolve(nest, body=copy.region(nest.body))
    return made, tuple(words)


def _choose(op: Instruction, facts: NestFacts, places: dict[For, str], words: list[str], threaded: bool) -> None:
    if isinstance(op, For):
        found = facts.loops.get(op)
        inner = [o for region in op.regions for o in region.body if isinstance(o, For | While)]
        free = found is not None and found.kind is LoopKind.PARALLEL and not found.private and not found.workspaces
        if free and not threaded and not op.carried and not _leaves(op.body):
            places[op] = "thread"
            words.append(f"{op.variable.name}: thread")
            threaded = True
        elif free and not inner and not _leaves(op.body) and not any(isinstance(o, If) for o in op.body.body):
            places[op] = "simd"
            words.append(f"{op.variable.name}: simd")
        elif found is not None and found.reason:
            words.append(f"{op.variable.name}: time, because {found.reason}")
    for region in op.regions:
        for nested in region.body:
            _choose(nested, facts, places, words, threaded)


def _leaves(region: Region) -> bool:
    """Whether control may leave the loop of this region."""
    for op in region.body:
        if isinstance(op, Break | Continue | Return):
            return True
        if not isinstance(op, For | While) and any(_leaves(inner) for inner in op.regions):
            return True
    return False


class _Copy:
    """A copy of a region in which chosen loops have a place. Values outside are shared, those inside made anew under their names."""

    def __init__(self, places: dict[For, str]) -> None:
        self.places = places
        self.values: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def region(self, region: Region) -> Region:
        parameters = [self._fresh(parameter) for parameter in region.parameters]
        return Region(parameters, [self.instruction(op) for op in region.body])

    def instruction(self, op: Instruction) -> Instruction:
        regions = {
            name: None if getattr(op, name) is None else self.region(getattr(op, name))
            for name in op.fields(Role.REGION, Role.OPTIONAL_REGION)
        }
        changes = {"place": self.places[op]} if isinstance(op, For) and op in self.places else {}
        made = rebuilt(op, self.value, _same, regions, **changes)
        made.results = [self._fresh(result, made) for result in op.results]
        return made

    def _fresh(self, value: Value, source: Instruction | None = None) -> Value:
        made = Value(value.name, value.type, source)
        self.values[value] = made
        return made


def _same(form: Affine) -> Affine:
    return form
