"""Where `place` stands while it builds loops: the bodies of loops around each other, and what each knows of the axes."""

from collections.abc import Iterable, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.schedule.table import AxisPlan
from runtime.records import Factory, define, frozen

Target = Store | Reduce | Contract
Accumulators = dict[Target, list[Value]]


class NotPlaceable(Exception):
    """The field has something `place` doesn't know how to put in loops; the message says what."""


@define(eq=False)
class TileRegion:
    """The body of one loop (or of the function): which axes have loops here, how they are written, which are ragged."""

    builder: Builder
    parent: "TileRegion | None" = None
    axes: frozenset[str] = frozenset()
    """Axes whose loop this is the body of."""
    forms: dict[str, Affine] = Factory(dict)
    starts: dict[str, Affine] = Factory(dict)
    """Where the tile of an axis begins."""
    masks: dict[str, Affine] = Factory(dict)
    narrow: dict[str, AxisPlan] = Factory(dict)
    """Plans that hold here instead of the table's: the ends of axes go in smaller tiles."""
    spans: dict[str, tuple[Value, Value]] = Factory(dict)
    """The elements from one on and up to another that an axis to come has here."""
    made: dict[Value, Value] = Factory(dict)
    certain: frozenset[Value] = frozenset()
    """Conditions that hold all over this body."""
    refuted: frozenset[Value] = frozenset()
    """Conditions that hold nowhere in it."""
    inside_of: dict[str, Value] = Factory(dict)
    """Whether places along ragged axes exist, as far as that is computed here."""

    @property
    def looped(self) -> set[str]:
        return set(self.forms)

    @property
    def depth(self) -> int:
        """How many regions are around it."""
        return 0 if self.parent is None else 1 + self.parent.depth

    def inside(self, builder: Builder, axes: Iterable[str]) -> "TileRegion":
        """The body of a loop in this region, over these axes."""
        copies = dict(self.forms), dict(self.starts), dict(self.masks), dict(self.narrow), dict(self.spans)
        return TileRegion(builder, self, frozenset(axes), *copies, certain=self.certain, refuted=self.refuted)

    def find(self, value: Value) -> Value | None:
        region: TileRegion | None = self
        while region is not None:
            if value in region.made:
                return region.made[value]
            region = region.parent
        return None

    def known(self, value: Value) -> Value:
        """What stands for a value that something does stand for."""
        made = self.find(value)
        assert made is not None, f"nothing was made of {value}"
        return made


@frozen(eq=False)
class TileLoop:
    """The loop over tiles `low`, `low + step`... before `high` of an axis, and the targets that it computes: those of `carrying` are
    reductions, whose accumulators go from turn to turn, and so do the running values of the scans, which are `before` at first."""

    plan: AxisPlan
    low: Affine
    high: Affine
    ragged: bool
    group: Sequence[Target]
    carrying: Sequence[Target] = ()
    scans: Sequence[Scan] = ()
    before: Sequence[Value] = ()
    step: int = 1


def by_target(
    values: Sequence[Value], targets: Iterable[Target], like: Mapping[Target, Sequence[Value]]
) -> tuple[Accumulators, list[Value]]:
    """Values that stand one behind the other as those of targets, each with as many as it has in `like`; and what is left."""
    own: Accumulators = {}
    rest = list(values)
    for target in targets:
        count = len(like[target])
        own[target], rest = rest[:count], rest[count:]
    return own, rest
