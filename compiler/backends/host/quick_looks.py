"""A quick look at what Python gives for a struct of tensors, numbers and lists of such structs: where each part is of its class, and each
tensor laid out as one that passed before, the value is taken. One Python function is written for a type, so that a model of hundreds of
tensors costs some 20 microseconds a call."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from compiler.backends.host.layouts import RecordLayouts
from compiler.typed_ast.types import BOOL, F64, I64, ListType, StructType, TensorType, Type
from runtime.records import Factory, define
from runtime.tensor import Tensor

Look = Callable[[Any], Any]
"""Gives a value as a type has it. Raises Missed where it has to be looked at properly."""

_TESTS = {
    I64: "{0}.__class__ is int and -0x8000000000000000 <= {0} < 0x8000000000000000",
    F64: "{0}.__class__ is float",
    BOOL: "{0}.__class__ is bool",
}


class Missed(Exception):
    """A value that has to be looked at properly."""


@define(eq=False)
class QuickLooks:
    """`passed`: types, by their identity and a layout that they took as it was."""

    layouts: RecordLayouts
    passed: Mapping[tuple[int, Hashable], Type]
    known: dict[int, tuple[Type, Look]] = Factory(dict)

    def of(self, to: Type) -> Look:
        known = self.known.get(id(to))
        if known is None:
            known = self.known[id(to)] = to, _Writer(self).written(to)
        return known[1]

    def has_passed(self, to: Type) -> Callable[[Hashable, list[Hashable]], bool]:
        """Whether a type took a layout, which is noted as the latest then: it is the same object for most tensors of a layout."""
        passed, own = self.passed, id(to)

        def look(layout: Hashable, latest: list[Hashable]) -> bool:
            has_passed = passed.get((own, layout)) is to
            if has_passed:
                latest[0] = layout
            return has_passed

        return look


class _Writer:
    """The text of one function, and what it names."""

    def __init__(self, looks: QuickLooks) -> None:
        self.looks = looks
        self.lines: list[str] = []
        self.named: dict[str, Any] = {"Tensor": Tensor, "Missed": Missed, "list": list, "int": int, "float": float, "bool": bool}
        self.names = 0

    def written(self, to: Type) -> Look:
        result = self.look(to, "value")
        text = "\n    ".join(["def look(value):", *self.lines, f"return {result}"])
        exec(compile(text, "<look>", "exec"), self.named)
        look: Look = self.named["look"]
        return look

    def name(self, value: Any = None) -> str:
        self.names += 1
        name = f"v{self.names}"
        if value is not None:
            self.named[name] = value
        return name

    def require(self, test: str) -> None:
        self.lines.append(f"if not ({test}): raise Missed")

    def look(self, to: Type, given: str) -> str:
        """Writes the look at a part; what stands for it as the type has it."""
        match to:
            case TensorType():
                latest, passed, there = self.name([None]), self.name(self.looks.has_passed(to)), self.name()
                self.require(f"{given}.__class__ is Tensor and ({there} := {given}.remote) is not None")
                self.require(f"({there} := {there}.layout) is {latest}[0] or {passed}({there}, {latest})")
                return given
            case StructType(name=name, arguments=()):
                case = (self.looks.layouts.cases(to) or {})[name]
                kind = self.name(case.values)
                self.require(f"{given}.__class__ is {kind}")
                parts = [self.name() for _ in case.parts]
                if parts:
                    self.lines.append(f"{', '.join(parts)}, = {given}")
                made = [self.look(type_, part) for part, (_, type_) in zip(parts, case.parts, strict=True)]
                return given if made == parts else f"{kind}(({', '.join(made)},))"
            case ListType(element=element):
                # types may hold lists of themselves: elements are thought of when there are some
                look = self.name(lambda value: self.looks.of(element)(value))
                self.require(f"{given}.__class__ is list")
                return f"[{look}(each) for each in {given}]"
            case _ if to in _TESTS:
                self.require(_TESTS[to].format(given))
                return given
        self.lines.append("raise Missed")
        return given
