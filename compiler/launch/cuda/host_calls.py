"""Calls of one block from host code that come back. Host code hands tensors and numbers over, and gets tensors that merely lie where they
were made; else they are as calls from Python (see `repeats`), and machine code answers those that come often."""

from collections.abc import Callable, Mapping
from typing import Any
from weakref import ref

import numpy as np

from compiler.launch.cuda.direct import GPU_CALLS
from compiler.launch.cuda.repeats import Repeats
from compiler.launch.native_calls.host_blocks import MISSED, is_possible, made_target, offsets
from compiler.launch.returning import Returning
from runtime.records import Factory, define
from runtime.tensor import Tensor
from runtime.unawaited import Unawaited
from runtime.unread import UNREAD

Types = tuple[type, ...]

PLAIN = (Tensor, int, float, bool)
"""What machine code takes as it is."""

NOBODY = Unawaited()
"""Work of futures that a block's inputs depend on has been waited for before the block is called."""


@define(eq=False)
class HostCalls:
    """The calls of a block by the types of its values, which may come under any names in any order; None where they are taken anew."""

    _known: dict[tuple[tuple[str, ...], Types], "_CallsOfTypes | None"] = Factory(dict)

    def value(self, values: Mapping[str, Any], program: Callable[[], Any]) -> Any:
        """The block's value, which `program` finds where nothing is known of such a call."""
        given = [*values.values()]
        key = tuple(values), tuple(map(type, given))
        calls = self._known.get(key, MISSED)
        if calls is MISSED:
            calls = self._known[key] = _CallsOfTypes.of(*key)
        return program() if calls is None else calls.value(given, program)

    def answered(self, values: Mapping[str, Any]) -> Any:
        """The block's value where machine code has it at once, else MISSED. All calls come here: nothing but machine code is called."""
        given = [*values.values()]
        calls = self._known.get((tuple(values), tuple(map(type, given))))
        if calls is None or not calls.repeats.answered or UNREAD or GPU_CALLS.calls is not None:
            return MISSED
        return calls.target(*(calls.plain(given) if calls.scalars else given))


@define(eq=False)
class _CallsOfTypes:
    """`scalars`: positions of numbers of NumPy's. `target`: what machine code is put in front of."""

    repeats: Repeats
    target: Any
    scalars: tuple[int, ...]

    @classmethod
    def of(cls, names: tuple[str, ...], types: Types) -> "_CallsOfTypes | None":
        scalars = tuple(position for position, type_ in enumerate(types) if type_ not in PLAIN)
        if Tensor not in types or not all(issubclass(types[position], np.number) for position in scalars):
            return None
        function = Returning({name: position for position, name in enumerate(names)}, len(names))
        target = made_target()
        lies = offsets() if is_possible() else None
        return cls(Repeats(function, NOBODY, ref(target), lies, from_host=True), target, scalars)

    def value(self, given: list[Any], program: Callable[[], Any]) -> Any:
        values = self.plain(given)
        if self.repeats.answered and (value := self.target(*values)) is not MISSED:
            return value
        value = self.repeats.again(values)
        return self.repeats.first(values, given, lambda *_: program()) if value is None else value

    def plain(self, given: list[Any]) -> list[Any]:
        """With Python's numbers for NumPy's."""
        values = [*given]
        for position in self.scalars:
            values[position] = values[position].item()
        return values
