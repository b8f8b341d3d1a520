"""Classes of fields are written by attrs when they are first used, whichever use that is."""

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Generic, TypeVar

import attrs
import pytest
from attrs import Factory, evolve, field

from runtime.records import define, frozen, frozen_in_types


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
