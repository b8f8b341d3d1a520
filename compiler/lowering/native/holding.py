"""Moves values between SSA numbers, cells and memory, whatever their type."""

from collections.abc import Iterator, Mapping

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.layout import size_of
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Record
from compiler.hir.types import Array, Pointer, Tile, is_float
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.values import Cells, InMemory, Location, ScalarValue, Text, Value, Whole
from compiler.source import Span
from compiler.typed_ast.types import BOOL, Type

LARGEST_VALUE = 1 << 16
"""Bytes of a container that a function may hold itself: it lies on the stack."""


class Holding:
    """`b` is the function being written."""

    def __init__(self, b: FunctionCode, layouts: Layouts) -> None:
        self.b, self.layouts = b, layouts

    def span(self) -> Span | None:
        return self.b.here.span

    def refuse(self, code: str, message: str, hint: str | None = None, span: Span | None = None) -> ZyntaxError:
        return ZyntaxError(Diagnostic(code, message, span or self.span(), hint=hint))

    def not_supported(self, what: str, hint: str, span: Span | None = None) -> ZyntaxError:
        return self.layouts.rules.not_supported(what, span or self.span(), hint)

    # ---- numbers ----

    def constant(self, value: int | float | bool, type: Type) -> ScalarValue:
        number = self.layouts.number(type)
        assert number is not None, f"a `{type}` is no number"
        return ScalarValue(type, self.b.const(value, number))

    def truth(self, value: Expr) -> ScalarValue:
        return ScalarValue(BOOL, value)

    def numbers(self, value: Value) -> Iterator[Expr]:
        """The numbers of a value in the order of `Layouts.leaves`."""
        match value:
            case ScalarValue():
                yield value.value
            case Whole(parts=parts):
                for part in parts:
                    yield from self.numbers(part)
            case InMemory(pointer=pointer):
                yield pointer
            case Text():
                raise self.layouts.rules.not_supported("text that is kept", None, "use an enum, or a number")

    def carried(self, value: Value) -> Iterator[Expr]:
        """The numbers of a value as variables hold and functions return them: addresses for pointers."""
        for number in self.numbers(value):
            yield self.b.address(number) if isinstance(number.hir.type, Pointer) else number

    def of_numbers(self, type: Type, numbers: Iterator[Expr]) -> Value:
        """The value that is made of these numbers."""
        if self.layouts.in_memory(type):
            number = next(numbers)
            is_pointer = isinstance(number.hir.type, Pointer)
            return InMemory(type, self.b.of(number.hir) if is_pointer else self.b.at_address(number, self.layouts.memory(type)))
        if self.layouts.number(type) is not None:
            return ScalarValue(type, next(numbers))
        return Whole(type, tuple(self.of_numbers(part, numbers) for _, part in self.layouts.parts(type)))

    def zero(self, type: Type) -> Value:
        """All bytes 0: `none`, an empty ring, a number of 0."""
        if self.layouts.in_memory(type):
            memory = self.layouts.memory(type)
            if isinstance(memory, Array) and memory.count is None:
                return InMemory(type, self.b.at_address(0, memory))
            return self.room(type)
        number = self.layouts.number(type)
        if number is not None:
            return ScalarValue(type, self.b.const(_zero_of(number), number))
        return Whole(type, tuple(self.zero(part) for _, part in self.layouts.parts(type)))

    # ---- what has parts ----

    def make(self, type: Type, parts: Mapping[str, Value]) -> Value:
        """A value from those of its parts that are given; the others are all zero."""
        if not self.layouts.in_memory(type):
            return Whole(type, tuple(parts[name] if name in parts else self.zero(part) for name, part in self.layouts.parts(type)))
        place = self.room(type)
        for name, value in parts.items():
            self.write(self.part_place(place, name), value)
        return place

    def part(self, value: Value, name: str) -> Value:
        match value:
            case Whole(type=type, parts=parts):
                return parts[self._at(type, name)]
            case InMemory():
                return self.read(self.part_place(value, name))
        raise AssertionError(f"no parts: {value}")

    def part_place(self, location: Location, name: str) -> Location:
        """Where a part of a variable is kept."""
        type = dict(self.layouts.parts(location.type))[name]
        if isinstance(location, InMemory):
            return InMemory(type, self.b.at(location.pointer, name))
        start = 0
        for part, found in self.layouts.parts(location.type):
            count = sum(1 for _ in self.layouts.leaves(found))
            if part == name:
                return Cells(type, location.cells[start : start + count])
            start += count
        raise AssertionError(f"`{location.type}` has no part {name}")

    def _at(self, type: Type, name: str) -> int:
        return [part for part, _ in self.layouts.parts(type)].index(name)

    # ---- variables ----

    def variable(self, value: Value) -> Location:
        """A variable that begins with a value."""
        if isinstance(value, InMemory):
            return self.own(value)
        return Cells(value.type, tuple(self.b.variable(number) for number in self.carried(value)))

    def own(self, value: InMemory) -> InMemory:
        """A place of this value that nobody else changes."""
        if value.fresh:
            return InMemory(value.type, value.pointer)
        place = self.room(value.type)
        self.b.copy(place.pointer, value.pointer)
        return InMemory(value.type, place.pointer)

    def kept(self, value: Value) -> Value:
        """A value that stays what it is whatever is assigned later."""
        return self.own(value) if isinstance(value, InMemory) else value

    def room(self, type: Type) -> InMemory:
        """Memory of this call, all zero."""
        memory = self.layouts.memory(type)
        if size_of(memory) > LARGEST_VALUE:
            hint = f"functions hold up to {LARGEST_VALUE} bytes; keep it as `state`"
            raise self.not_supported(f"a variable of {size_of(memory)} bytes in a function", hint)
        return InMemory(type, self.b.local(memory), fresh=True)

    def read(self, location: Location) -> Value:
        """What a variable holds now. What is kept in memory isn't copied: the value is the place."""
        if isinstance(location, Cells):
            return self.of_numbers(location.type, iter([cell.value for cell in location.cells]))
        if self.layouts.in_memory(location.type):
            return InMemory(location.type, location.pointer)
        return self.of_numbers(location.type, self._read(location.type, location.pointer))

    def _read(self, type: Type, pointer: Record) -> Iterator[Expr]:
        if self.layouts.number(type) is not None:
            yield self.b.load(pointer)
            return
        for name, part in self.layouts.parts(type):
            yield from self._read(part, self.b.at(pointer, name))

    def write(self, location: Location, value: Value) -> None:
        """Change a variable; the value has its type."""
        if isinstance(location, Cells):
            for cell, number in zip(location.cells, self.carried(value), strict=True):
                cell.value = number
        elif isinstance(value, InMemory):
            self.b.copy(location.pointer, value.pointer)
        elif isinstance(value, Whole):
            for (name, _), part in zip(self.layouts.parts(location.type), value.parts, strict=True):
                self.write(InMemory(part.type, self.b.at(location.pointer, name)), part)
        else:
            self.b.store(location.pointer, *self.numbers(value))


def _zero_of(number: Tile) -> int | float | bool:
    return False if number.dtype == "i1" else 0.0 if is_float(number.dtype) else 0
