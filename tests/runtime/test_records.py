"""Classes of fields are written by attrs when they are first used, whichever use that is."""

import enum
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Generic, TypeVar

import attrs
import pytest

from runtime.records import Factory, as_plain, define, evolve, field, fields_of, frozen, frozen_in_types


def is_written(cls: type) -> bool:
    return isinstance(vars(cls)["__attrs_attrs__"], tuple)


def classes():
    @frozen
    class Base:
        x: int
        y: tuple[int, ...] = field(default=(), converter=tuple)

    @frozen(kw_only=True)
    class Derived(Base):
        z: list[int] = Factory(list)

    return Base, Derived


def test_a_class_is_written_with_its_bases_when_it_is_used():
    base, derived = classes()
    assert not is_written(base) and not is_written(derived)
    made = derived(1, [2, 3], z=[4])
    assert (made.x, made.y, made.z) == (1, (2, 3), [4])
    assert attrs.asdict(made) == {"x": 1, "y": (2, 3), "z": [4]}
    assert is_written(base) and is_written(derived)


def test_a_base_is_written_without_what_is_derived_from_it():
    base, derived = classes()
    assert base(1) == base(1) and hash(base(1)) == hash(base(1)) and base(1) != base(2)
    assert repr(base(1)).endswith("Base(x=1, y=())") and not is_written(derived)


@pytest.mark.parametrize("use", [attrs.has, attrs.fields, attrs.resolve_types])
def test_attrs_knows_a_class_before_it_is_used(use):
    base, _ = classes()
    assert use(base) and [f.name for f in attrs.fields(base)] == ["x", "y"]


def test_frozen_ones_stay_and_others_change():
    base, derived = classes()
    for made in (base(1), derived(1)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            made.x = 2
    assert evolve(base(1), x=2) == base(2)

    @define
    class Changing:
        x: int = 0

    made = Changing()
    made.x = 3
    assert made == Changing(3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(made)


def test_what_a_class_says_itself_is_kept():
    @define(eq=False)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("mine", True, 7)


def test_identity_counts_where_equality_is_not_wanted():
    @frozen(eq=False)
    class Alone:
        x: int

    first, second = Alone(1), Alone(1)
    assert first != second and len({first, second}) == 2


T = TypeVar("T")


@frozen
class Kept(Generic[T]):
    x: int
    y: str = "a"


@frozen
class Empty:
    pass


def test_an_object_that_was_pickled_is_equal_though_it_is_the_first_of_its_class():
    script = "import pickle, sys; first, second = pickle.loads(bytes.fromhex(sys.argv[1])); print(first == second, len({first, second}), first)"
    for made, text in ((Kept(1), "Kept(x=1, y='a')"), (Empty(), "Empty()")):
        pickled = pickle.dumps((made, type(made)(*attrs.astuple(made))))
        done = subprocess.run([sys.executable, "-c", script, pickled.hex()], capture_output=True, text=True, cwd=Path(__file__).parents[2])
        assert done.stdout == f"True 1 {text}\n", done.stderr


def test_objects_are_pickled():
    assert pickle.loads(pickle.dumps(Kept(1, "b"))) == Kept(1, "b")


def test_patterns_take_fields_by_place():
    match Kept(1, "b"):
        case Kept(x, y):
            assert (x, y) == (1, "b")


def test_wrong_arguments_are_told_as_by_attrs():
    base, _ = classes()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        base()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        base()


def test_threads_write_a_class_once():
    for _ in range(20):
        _, derived = classes()
        start, made = threading.Barrier(4), []

        def use(derived=derived, start=start, made=made):
            start.wait()
            made.append(derived(1, z=[2]))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [derived(1, z=[2])] * 4


@frozen_in_types(kw_only=True)
class _Base:
    place: int = 0


@frozen_in_types(kw_only=True)
class _Leaf(_Base):
    name: str
    parts: tuple[object, ...] = attrs.field(default=(), converter=tuple)


def test_what_is_frozen_in_types_alone_compares_and_travels_as_frozen_ones() -> None:
    leaf = _Leaf(name="a", parts=[1, 2], place=3)  # type: ignore[arg-type]
    assert leaf == _Leaf(name="a", parts=(1, 2), place=3) != _Leaf(name="b")
    assert hash(leaf) == hash(_Leaf(name="a", parts=(1, 2), place=3)) and leaf.parts == (1, 2)
    assert pickle.loads(pickle.dumps(leaf)) == leaf
    assert attrs.evolve(leaf, name="c") == _Leaf(name="c", parts=(1, 2), place=3)
    assert [field.name for field in attrs.fields(_Leaf)] == ["place", "name", "parts"]


# ---- objects that are made before their class is written ----


def plain_classes():
    @frozen
    class Point:
        x: int
        _y: int = 0
        names: tuple[str, ...] = field(default=(), converter=tuple)
        seen: list[int] = field(factory=list, repr=False)
        more: dict[str, int] = Factory(dict)

    @define
    class Cell:
        value: int = 3
        kept: list[int] = Factory(list)

    @frozen_in_types
    class Place:
        path: str
        start: int

    return Point, Cell, Place


def test_the_first_objects_of_a_plain_class_are_made_without_attrs():
    point, cell, place = plain_classes()
    first = point(1, y=2, names=["a"])
    assert (first.x, first._y, first.names, first.seen, first.more) == (1, 2, ("a",), [], {})
    assert vars(point(5)) == {"x": 5, "_y": 0, "names": (), "seen": [], "more": {}}
    assert point(1).seen is not point(1).seen
    assert (cell().value, cell(4).value, cell(kept=[1]).kept) == (3, 4, [1])
    assert (place("p", start=2).path, place("p", 2).start) == ("p", 2)
    assert not any(map(is_written, (point, cell, place)))
    match place("p", 7):
        case place(_, start):
            assert start == 7
    held = cell()
    held.value = 9
    assert held.value == 9


USES = {
    "compared": lambda early, late: early == late and (early != late) is False,
    "hashed": lambda early, late: len({early, late}) == 1,
    "shown": lambda early, late: repr(early) == repr(late) and repr(early).endswith("Point(x=1, _y=2, names=(), more={})"),
    "evolved": lambda early, late: evolve(early, x=1) == late,
    "taken apart": lambda early, late: attrs.asdict(early) == attrs.asdict(late),
    "pickled": lambda early, late: vars(early) == early.__getstate__() == vars(late),
}


@pytest.mark.parametrize("use", USES)
def test_objects_from_before_are_as_those_from_after(use):
    @frozen
    class Point:
        x: int
        _y: int = 0
        names: tuple[str, ...] = field(default=(), converter=tuple)
        seen: list[int] = field(factory=list, repr=False, eq=False)
        more: tuple[int, ...] = field(default=(), repr=lambda held: "{}")

    early = Point(1, 2)
    assert not is_written(Point)
    if use != "hashed":
        assert USES[use](early, Point(1, 2))
    attrs.fields(Point)
    assert is_written(Point)
    assert USES[use](early, Point(1, 2))
    assert USES[use](Point(1, 2), early)


@pytest.mark.parametrize("change", [lambda point: setattr(point, "x", 2), lambda point: delattr(point, "x")])
def test_frozen_objects_from_before_stay_as_they_are(change):
    point, _, _ = plain_classes()
    early = point(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        change(early)
    assert early.x == 1


@pytest.mark.parametrize("arguments", [(), (1, 2, (), [], {}, 6)])
@pytest.mark.parametrize("named", [{}, {"z": 1}, {"x": 1, "y": 2, "w": 3}])
def test_wrong_arguments_have_the_message_of_attrs(arguments, named):
    early, _, _ = plain_classes()
    late, _, _ = plain_classes()
    attrs.fields(late)
    with pytest.raises(TypeError) as first:
        early(*arguments, **named)
    with pytest.raises(TypeError) as second:
        late(*arguments, **named)
    assert str(first.value) == str(second.value)


def test_objects_that_may_change_have_no_hash():
    _, cell, _ = plain_classes()
    with pytest.raises(TypeError, match="unhashable type: 'Cell'"):
        hash(cell())
    assert cell() == cell() and cell() != cell(5)


def test_many_objects_are_made_without_attrs():
    _, _, place = plain_classes()
    made = [place("p", number) for number in range(150)]
    assert not is_written(place)
    assert [each.start for each in made] == list(range(150))
    assert made[0] == place("p", 0) and hash(made[0]) == hash(place("p", 0)) and made[0] != made[1]


def test_order_is_asked_of_objects_from_before():
    @frozen(order=True)
    class Ranked:
        rank: int

    assert sorted([Ranked(3), Ranked(1), Ranked(2)]) == [Ranked(1), Ranked(2), Ranked(3)]
    assert Ranked(1) < Ranked(2) <= Ranked(2) and Ranked(3) > Ranked(2) >= Ranked(2)


def test_records_are_declared_and_made_without_attrs():
    text = """
import sys
from runtime.records import Factory, as_plain, define, evolve, field, frozen
@frozen
class Point:
    x: int
    y: tuple = field(default=(), converter=tuple)
@define
class Cell:
    points: list = Factory(list)
assert Cell([Point(1, [2])]).points[0].y == (2,)
assert "attr" not in sys.modules
assert evolve(Point(1), x=2).x == 2
assert Point(1) == Point(1) != Point(2) and len({Point(1), Point(1), Point(2)}) == 2
assert "attr" not in sys.modules
assert repr(Point(1)) == "Point(x=1, y=())"
cell = Cell()
cell.points = [Point(number, [number]) for number in range(100)]
assert cell.points[99] == Point(99, (99,)) and cell.points[99].y == (99,)
assert "attr" not in sys.modules
import attrs
assert attrs.asdict(cell.points[3]) == {"x": 3, "y": (3,)} and attrs.fields(Cell).points.name == "points"
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def derived_classes():
    @frozen_in_types
    class Node:
        place: int
        kind: str = field(default="node", repr=False)

    @frozen_in_types
    class Leaf(Node):
        kind: str = "leaf"
        parts: tuple[int, ...] = field(default=(), converter=tuple, metadata={"role": "parts"})

    @define(eq=False, kw_only=True)
    class Step:
        results: list[int] = Factory(list)

    @define(eq=False, kw_only=True)
    class Add(Step):
        first: int
        total: int = field(init=False)

        def __attrs_post_init__(self) -> None:
            self.total = self.first + sum(self.results)

    return Node, Leaf, Step, Add


def test_objects_of_derived_classes_are_made_without_attrs_as_with_it():
    _, leaf, _, add = derived_classes()
    _, late_leaf, _, late_add = derived_classes()
    attrs.fields(late_leaf), attrs.fields(late_add)
    for arguments, named in (((1,), {}), ((1, "x", [2]), {}), ((), {"kind": "y", "place": 3})):
        assert vars(leaf(*arguments, **named)) == vars(late_leaf(*arguments, **named))
        assert list(vars(leaf(*arguments, **named))) == [each.name for each in attrs.fields(late_leaf)]
    assert vars(add(first=2, results=[3, 4])) == vars(late_add(first=2, results=[3, 4])) == {"results": [3, 4], "first": 2, "total": 9}
    assert not is_written(leaf) and not is_written(add)
    assert leaf.__match_args__ == late_leaf.__match_args__ and add.__match_args__ == late_add.__match_args__
    for wrong in ({"first": 1, "total": 2}, {"results": []}):
        with pytest.raises(TypeError) as late:
            late_add(**wrong)
        with pytest.raises(TypeError) as early:
            add(**wrong)
        assert str(early.value) == str(late.value)


def test_fields_are_told_without_attrs_in_its_order():
    for early, late in zip(derived_classes(), derived_classes(), strict=True):
        told = fields_of(early)
        assert not is_written(early)
        assert [(each.name, each.type) for each in told] == [(each.name, each.type) for each in attrs.fields(late)]
    assert fields_of(derived_classes()[1])[2].metadata == {"role": "parts"}
    assert [each.name for each in fields_of(_Leaf)] == ["place", "name", "parts"]


def test_hashes_and_comparisons_stay_when_a_class_is_written():
    early = {derived_classes()[1](1): "a"}
    (key,) = early
    attrs.fields(type(key))
    assert early[type(key)(1)] == "a" and type(key)(1) == key != type(key)(2)

    @frozen
    class Alone:
        x: int

    @frozen
    class Other:
        x: int

    held = {Alone(1): 1, Other(1): 2}
    attrs.fields(Alone)
    assert held[Alone(1)] == 1 and held[Other(1)] == 2 and Alone(1) != Other(1)


# ---- objects whose `__init__` is written without attrs ----

MANY = 60


def varied_classes():
    @frozen
    class Point:
        x: int
        _y: int = 0
        names: tuple[str, ...] = field(default=(), converter=tuple)
        seen: list[int] = field(factory=list, repr=False)
        total: int = field(init=False, default=7)

    @define(eq=False, kw_only=True)
    class Step:
        first: int
        parts: tuple[int, ...] = field(factory=list, converter=tuple)
        sum: int = field(init=False)

        def __attrs_post_init__(self) -> None:
            self.sum = self.first + len(self.parts)

    @frozen_in_types
    class Empty:
        pass

    return Point, Step, Empty


CALLS = [
    (0, (1,), {}),
    (0, (1, 2, ["a"]), {}),
    (0, (), {"x": 3, "y": 4, "seen": [5]}),
    (1, (), {"first": 3}),
    (1, (), {"first": 3, "parts": [1, 2]}),
    (2, (), {}),
]


@pytest.mark.parametrize("which, arguments, named", CALLS)
def test_later_objects_are_as_the_first_and_as_those_of_attrs(which, arguments, named):
    early, late = varied_classes()[which], varied_classes()[which]
    attrs.fields(late)
    made = [early(*arguments, **named) for _ in range(MANY)]
    assert not is_written(early)
    of_attrs = late(*arguments, **named)
    for each in (made[0], made[-1]):
        assert vars(each) == vars(of_attrs)
        if which != 1:  # of which two are never equal, and whose text has its address
            assert repr(each) == repr(of_attrs)
    attrs.fields(early)
    assert vars(early(*arguments, **named)) == vars(made[-1])


@pytest.mark.parametrize("which, arguments, named", [(0, (), {}), (0, (1, 2, (), [], 5), {}), (0, (1,), {"x": 2}), (1, (3,), {}), (2, (1,), {})])
def test_wrong_arguments_of_later_objects_have_the_message_of_attrs(which, arguments, named):
    early, late = varied_classes()[which], varied_classes()[which]
    attrs.fields(late)
    right = next((places, names) for number, places, names in CALLS if number == which)
    for _ in range(MANY):
        early(*right[0], **right[1])
    assert not is_written(early)
    with pytest.raises(TypeError) as first:
        early(*arguments, **named)
    with pytest.raises(TypeError) as second:
        late(*arguments, **named)
    assert str(first.value) == str(second.value)


def test_assignments_convert_before_and_after_a_class_is_written():
    step = varied_classes()[1]
    made = [step(first=1) for _ in range(MANY)][-1]
    made.parts, made.first = [4, 5], 2
    assert (made.parts, made.first) == ((4, 5), 2) and not is_written(step)
    attrs.fields(step)
    made.parts = [6]
    assert made.parts == (6,) and step(first=1, parts=[2]).parts == (2,)


def test_patterns_where_fields_of_some_bases_are_given_by_place():
    base, derived = classes()
    late = classes()[1]
    attrs.fields(late)
    made = derived(x=1)
    assert not is_written(derived) and derived.__match_args__ == late.__match_args__
    match made:
        case base(x):
            assert x == 1


def test_every_class_of_ours_is_as_attrs_would_write_it():
    root = Path(__file__).parents[2]
    known = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("record_twins.py"))], capture_output=True, text=True, cwd=root, env=known)
    *differences, count = done.stdout.splitlines() or [""]
    assert (differences, done.stderr) == ([], "")
    assert int(count) > 800


def test_an_object_that_holds_itself_is_shown_with_dots():
    @define
    class Cell:
        held: object = None

    cell = Cell()
    cell.held = [cell]
    early = repr(cell)
    attrs.fields(Cell)
    assert early == repr(cell) == "Cell(held=[...])"


def test_what_json_has_of_records():
    class Kind(enum.Enum):
        ONE = "one"

    @frozen
    class Part:
        kind: Kind
        names: frozenset[str] = frozenset()

    @frozen
    class Whole:
        parts: tuple[Part, ...]
        by_name: dict[str, Part]

    whole = Whole((Part(Kind.ONE),), {"a": Part(Kind.ONE, frozenset(["b"]))})
    part = {"kind": "one", "names": []}
    assert as_plain(whole) == {"parts": [part], "by_name": {"a": {"kind": "one", "names": ["b"]}}}
    assert not is_written(Part) and not is_written(Whole)
