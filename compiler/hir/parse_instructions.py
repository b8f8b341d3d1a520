"""Reads instructions and regions of the text that `text.py` prints, each by its declaration."""

from collections.abc import Callable
from typing import Any

import attrs

from compiler.hir.affine import Affine
from compiler.hir.control import Attempt, Call, For, If, While
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.instructions import INSTRUCTIONS
from compiler.hir.parse_types import Reader
from compiler.hir.ring import RunRole
from compiler.hir.syntax import NamedField, Syntax, syntax_of
from compiler.hir.types import I1, INDEX, HirType

MAXIMUM_DEPTH = 250
"""Regions inside one another that the parser takes."""


class InstructionReader(Reader):
    """Instructions and their regions on top of tokens and types; the values that are defined so far, by name."""

    def __init__(self, text: str, path: str = "<hir>") -> None:
        super().__init__(text, path)
        self.values: dict[str, Value] = {}
        self.depth = 0
        self.readers: dict[str, Callable[[], Any]] = {
            "text": self.optional_word,
            "integer": self.optional_integer,
            "truth": self.truth,
            "number": self.optional_number,
            "affine": self.optional_affine,
            "type": self.type,
            "texts": lambda: tuple(self.separated(self.word, "[", "]")),
            "integers": lambda: tuple(self.separated(self.integer, "[", "]")),
            "affines": lambda: tuple(self.separated(self.affine, "[", "]")),
        }

    def optional_integer(self) -> int | None:
        return None if self.accept("none") else self.integer()

    def optional_number(self) -> int | float | bool | None:
        return None if self.accept("none") else self.number()

    def optional_word(self) -> str | None:
        if self.kind == "name" and self.accept("none"):
            return None
        return self.word()

    def optional_affine(self) -> Affine | None:
        return None if self.accept("none") else self.affine()

    def setting(self) -> str:
        name = self.name()
        self.expect("=")
        return name

    # ---- values ----

    def define(self, name: str, type_: HirType, token: int) -> Value:
        if name in self.values:
            self.fail(f"%{name} is defined twice", token)
        value = self.values[name] = Value(name, type_)
        return value

    def use(self) -> Value:
        token = self.at
        name = self.take("value", "a value")
        value = self.values.get(name[1:])
        if value is None:
            self.fail(f"{name} is not defined", token)
        return value

    # ---- instructions ----

    def region(self, region: Region) -> None:
        """Instructions up to the brace that ends them."""
        self.depth += 1
        if self.depth > MAXIMUM_DEPTH:
            self.fail(f"more than {MAXIMUM_DEPTH} regions inside one another")
        while not self.accept("}"):
            region.body.append(self.instruction())
        self.depth -= 1

    def instruction(self) -> Instruction:
        results: list[tuple[str, int]] = []
        if self.kinds[self.at] == "value":
            while True:
                results.append((self.take("value", "a result")[1:], self.at - 1))
                if not self.accept(","):
                    break
            self.expect("=")
        token = self.at
        name = self.name()
        match name:
            case "for":
                op, types = self.loop()
            case "if":
                op, types = self.branch()
            case "while":
                op, types = self.repeat()
            case "role":
                op, types = RunRole(role=self.word()), []
                self.expect("{")
                self.region(op.body)
            case "call" | "attempt":
                function = self.function_name()
                arguments = tuple(self.separated(self.use, "(", ")"))
                if name == "attempt":
                    op, types = Attempt(function=function, arguments=arguments), [I1]
                else:
                    types = self.types()
                    op = Call(function=function, arguments=arguments, types=tuple(types))
            case _:
                cls = INSTRUCTIONS.get(name)
                if cls is None:
                    self.fail(f"no instruction is called `{name}`", token)
                op, types = self.plain(cls, name, syntax_of(cls))
        if len(results) != len(types):
            self.fail(f"`{name}` gives {len(types)} values, and {len(results)} are named", token)
        for (result, position), type_ in zip(results, types, strict=True):
            value = self.define(result, type_, position)
            value.source = op
            op.results.append(value)
        return op

    def types(self) -> list[HirType]:
        """`: type, type`, or nothing."""
        if not self.accept(":"):
            return []
        types = [self.type()]
        while self.text == "," and self.kinds[self.at + 1] == "name":
            self.at += 1
            types.append(self.type())
        return types

    def plain(self, cls: type[Instruction], name: str, syntax: Syntax) -> tuple[Instruction, list[HirType]]:
        fields: dict[str, Any] = {"operator": name} if syntax.tabled else {}
        for f in syntax.words:
            fields[f.name] = self.readers[f.kind]()
        self.operands(syntax, fields)
        named = {f.name: f for f in syntax.named}
        flags: list[str] = []
        while self.kind == "name":
            following = self.texts[self.at + 1]
            if following == "=":
                self.named_field(cls, syntax, named, fields)
            elif syntax.flags is not None:  # such an instruction has results, so a colon comes before the next one
                flags.append(self.name())
            else:
                break
        if flags:
            fields["flags"] = tuple(flags)
        types = self.types()
        if syntax.typed == "type":
            if len(types) != 1:
                self.fail(f"`{name}` wants one type after a colon")
            fields["type"] = types[0]
        elif syntax.typed == "types":
            fields["types"] = tuple(types)
        missing = [f.name for f in syntax.named if f.name not in fields and f.default is attrs.NOTHING]
        if missing:
            self.fail(f"`{name}` wants `{missing[0]}=`")
        return cls(**fields), types

    def named_field(self, cls: type[Instruction], syntax: Syntax, named: dict[str, NamedField], fields: dict[str, Any]) -> None:
        token = self.at
        name = self.setting()
        if name in named:
            fields[name] = self.readers[named[name].kind]()
        elif name in syntax.keywords:
            fields[name] = self.use()
        elif name == "flags" and syntax.flags is not None:
            fields[name] = tuple(self.separated(self.word, "[", "]"))
        else:
            self.fail(f"`{cls.mnemonic}` has no `{name}`", token)

    def operands(self, syntax: Syntax, fields: dict[str, Any]) -> None:
        first = True
        for operand in syntax.operands:
            match operand.role:
                case Role.OPERANDS:
                    values: list[Value] = []
                    while self.another(first):
                        first = False
                        values.append(self.use())
                    fields[operand.name] = tuple(values)
                case Role.OPTIONAL:
                    if self.another(first):
                        first = False
                        fields[operand.name] = self.use()
                case _:
                    if not first:
                        self.expect(",")
                    first = False
                    fields[operand.name] = self.use()
                    if operand.index is not None:
                        fields[operand.index] = tuple(self.separated(self.affine, "[", "]"))

    def another(self, first: bool) -> bool:
        """Whether one more operand follows; its comma is taken."""
        if first:
            # A value at the start of the next line is its result, not an operand of this one.
            return self.kind == "value" and self.texts[self.at + 1] != "=" and not self.starts_results()
        return self.accept(",")

    def starts_results(self) -> bool:
        """Whether here begins `%a, %b = ...`, the next instruction."""
        at = self.at
        while self.kinds[at] == "value" and self.texts[at + 1] == ",":
            at += 2
        return self.kinds[at] == "value" and self.texts[at + 1] == "="

    # ---- control ----

    def loop(self) -> tuple[Instruction, list[HirType]]:
        token = self.at
        variable = self.define(self.name(), INDEX, token)
        self.expect("in")
        low = self.affine()
        self.expect("..")
        high = self.affine()
        step = self.integer() if self.accept("step") else 1
        parameters, carried = self.carry()
        place, marks = "time", []
        while self.kind == "name":
            name = self.setting()
            if name == "place":
                place = self.word()
            else:
                marks.append((name, self.mark()))
        self.expect("{")
        op = For(
            carried=tuple(carried), body=Region([variable, *parameters]), low=low, high=high, step=step, place=place, marks=tuple(marks)
        )
        self.region(op.body)
        return op, [value.type for value in carried]

    def mark(self) -> object:
        match self.kind, self.text:
            case "text", _:
                return self.quoted()
            case "name", "affine":
                self.at += 1
                self.expect("(")
                form = self.affine()
                self.expect(")")
                return form
            case "name", "none":
                self.at += 1
                return None
            case "mark", "[":
                return tuple(self.separated(self.mark, "[", "]"))
            case _:
                return self.number()

    def carry(self) -> tuple[list[Value], list[Value]]:
        if not self.accept("carry"):
            return [], []
        pairs = self.separated(self.carried, "(", ")")
        return [p for p, _ in pairs], [v for _, v in pairs]

    def carried(self) -> tuple[Value, Value]:
        token = self.at
        name = self.take("value", "a carried value")
        self.expect("=")
        start = self.use()
        return self.define(name[1:], start.type, token), start

    def branch(self) -> tuple[Instruction, list[HirType]]:
        condition = self.use()
        likely = next((known for word, known in (("likely", True), ("unlikely", False)) if self.accept(word)), None)
        types = self.types()
        op = If(condition=condition, types=tuple(types), likely=likely)
        self.expect("{")
        self.region(op.then)
        if self.accept("else"):
            self.expect("{")
            op.otherwise = Region()
            self.region(op.otherwise)
        return op, types

    def repeat(self) -> tuple[Instruction, list[HirType]]:
        parameters, carried = self.carry()
        op = While(carried=tuple(carried), before=Region(parameters))
        self.expect("{")
        self.region(op.before)
        self.expect("do")
        if self.text == "(":
            names = self.separated(lambda: (self.take("value", "a parameter")[1:], self.at - 1), "(", ")")
            if len(names) != len(carried):
                self.fail("`do` names as many values as are carried")
            op.body.parameters = [self.define(n, v.type, at) for (n, at), v in zip(names, carried, strict=True)]
        self.expect("{")
        self.region(op.body)
        return op, [value.type for value in carried]
