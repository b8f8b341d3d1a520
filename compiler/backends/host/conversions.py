"""Conversions of values to declared types. Whether a type takes a tensor as it is follows from the tensor's layout: what passed before
isn't looked at again."""

from collections.abc import Hashable
from typing import Any

from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.values import convert
from compiler.typed_ast.library import Library
from compiler.typed_ast.types import TensorType, Type
from runtime.records import Factory, define
from runtime.tensor import Tensor

REMEMBERED = 4096
"""Types with layouts that fit them."""


@define(eq=False)
class Conversions:
    """Those of one program. `passed`: types, by their identity and a layout that they took as it was; `changes`: how many values became
    other ones."""

    library: Library
    layouts: RecordLayouts
    passed: dict[tuple[int, Hashable], Type] = Factory(dict)
    changes: int = 0

    def converted(self, value: Any, to: Type) -> Any:
        """The value as the declared type has it. Raises LibraryFault where it doesn't fit."""
        if value.__class__ is not Tensor:
            other = convert(self.library, value, to, False, self.layouts)
            self.changes += other is not value
            return other
        key = id(to), value.layout
        if key in self.passed:
            return value
        found = convert(self.library, value, to, False, self.layouts)
        self.changes += found is not value
        if found is value and to.__class__ is TensorType and to.device is None:
            if len(self.passed) >= REMEMBERED:
                self.passed.clear()
            self.passed[key] = to  # which lives on, so that its identity stays its own
        return found
