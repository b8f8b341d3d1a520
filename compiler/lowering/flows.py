"""The types of what reaches the variables and results of a body. A variable that starts from an unsuffixed literal takes the type that
flows in: one walk notes it, the next one uses it."""

from collections.abc import Mapping
from typing import Any

from compiler.lowering.numbers import Number, meet
from compiler.typed_ast.types import DType
from runtime.records import Factory, define, frozen

Key = tuple[Any, ...]


@frozen
class Flow:
    """The type in which all values meet that reach a variable, as a `Number` has it."""

    dtype: DType
    weak: bool
    origin: DType | None


@define(eq=False)
class Flows:
    """`known`: as the walk before saw it; `new`: as this one does."""

    known: Mapping[Key, Flow] = Factory(dict)
    new: dict[Key, Flow] = Factory(dict)

    def before(self, key: Key, dtype: DType) -> Flow:
        """What the walk before saw; at first a weak `dtype`."""
        return self.known.get(key, Flow(dtype, True, None))

    def join(self, key: Key, number: Number) -> Flow:
        """The number reaches it: its type joins those before."""
        have = self.new.get(key)
        numbers = [number] if have is None else [Number(have.dtype, weak=have.weak, origin=have.origin), number]
        flow = self.new[key] = Flow(*meet(*numbers))
        return flow
