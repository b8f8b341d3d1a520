"""The function that answers calls while it is written: its blocks, what it refers to outside, and how it leaves."""

from collections.abc import Callable
from typing import Any

from compiler.backends.llvm.types import I8, I64, PTR, LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.launch.native_calls.numbers import MOST, WholeNumber, known
from runtime.calls.answering import FORKED

NAME = "zyntax_bound_call"
NULL = LlvmValue(PTR, "null")


class CallCode:
    """`ptr call(ptr function, ptr arguments, i64 count, ptr keywords)`, Python's vectorcall. `objects`: what it refers to, by symbol."""

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self.module = ModuleWriter(NAME, attributes)
        self.w: FunctionWriter = self.module.function(NAME, PTR, [(PTR, "self"), (PTR, "args"), (I64, "count"), (PTR, "keywords")])
        self.objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._otherwise = "otherwise"

    # ---- what it refers to ----

    def object(self, referred: Any) -> LlvmValue:
        """The address of an object of Python's that lives as long as the code."""
        name = self._names.get(id(referred))
        if name is None:
            name = self._names[id(referred)] = f"object{len(self._names)}"
            self.objects[name] = referred
            self.module.globals.append(f"@{name} = external global i8")
        return LlvmValue(PTR, f"@{name}")

    def text(self, words: str) -> LlvmValue:
        """A text of C's."""
        name = f"@text{len(self.module.globals)}"
        self.module.globals.append(f'{name} = private constant [{len(words) + 1} x i8] c"{words}\\00"')
        return LlvmValue(PTR, name)

    def data(self, content: bytes, alignment: int) -> LlvmValue:
        """Memory that holds this and stays the same."""
        name = f"@data{len(self.module.globals)}"
        written = "".join(f"\\{byte:02x}" for byte in content)
        self.module.globals.append(f'{name} = private constant [{len(content)} x i8] c"{written}", align {alignment}')
        return LlvmValue(PTR, name)

    def call(self, name: str, result: LlvmType, *arguments: LlvmValue) -> LlvmValue:
        """A call of a function of Python's, NumPy's or C's."""
        self.module.declare(name, f"{result} ({', '.join(str(a.type) for a in arguments)})")
        return self.w.call(name, result, *arguments)

    def do(self, name: str, *arguments: LlvmValue) -> None:
        """The same where it gives nothing."""
        self.module.declare(name, f"void ({', '.join(str(a.type) for a in arguments)})")
        self.w.call_void(name, *arguments)

    def new_reference(self, referred: LlvmValue) -> LlvmValue:
        self.do("Py_IncRef", referred)
        return referred

    # ---- what every call begins with ----

    def given(self, count: int) -> list[LlvmValue]:
        """The arguments of a call that has so many, and none by name."""
        _, given, held, keywords = self.w.parameters
        self.require(self.w.compare("eq", keywords, NULL))
        # the highest bit says something else
        held = self.w.binary("and", held, constant(I64, (1 << 63) - 1))
        self.require(self.w.compare("eq", held, constant(I64, count)))
        return [self.w.load(PTR, self.at(given, 8 * position)) for position in range(count)]

    def require_empty(self, dictionary: Any) -> None:
        size = self.call("PyDict_Size", I64, self.object(dictionary))
        self.require(self.w.compare("eq", size, constant(I64, 0)))

    def is_unforked(self) -> LlvmValue:
        """Whether this process isn't a copy of another one."""
        self.module.globals.append(f"@{FORKED} = external global i8")
        return self.w.compare("eq", self.w.load(I8, LlvmValue(PTR, f"@{FORKED}")), constant(I8, 0))

    # ---- where it goes ----

    def require(self, condition: LlvmValue) -> None:
        """Goes on where the condition holds; else these are calls for the next code."""
        going = self.w.label("going")
        self.w.branch_if(condition, going, self._otherwise)
        self.w.start(going)

    def require_below(self, number: LlvmValue, most: int = MOST) -> WholeNumber:
        """The number, which is at least 0 and below `most`."""
        self.require(self.w.compare("ult", number, constant(I64, most)))
        return WholeNumber(self.w, number, most)

    def require_same(self, first: WholeNumber | int, second: WholeNumber | int) -> None:
        if self.number(first).value.text != self.number(second).value.text:
            self.require(self.holds("eq", first, second))

    def holds(self, predicate: str, first: WholeNumber | int, second: WholeNumber | int) -> LlvmValue:
        return self.w.compare(predicate, self.number(first).value, self.number(second).value)

    def number(self, number: WholeNumber | int) -> WholeNumber:
        return number if isinstance(number, WholeNumber) else known(self.w, number)

    def product(self, factors: list[WholeNumber], most: int = MOST) -> WholeNumber:
        """The product of numbers that are at least 0, which is below `most`."""
        total, rough = known(self.w, 1).value, self.rough(known(self.w, 1))
        for factor in factors:
            total = self.w.mul(total, factor.value) if total.number == 1 else self.w.binary("mul", total, factor.value)
            rough = self.w.binary("fmul", rough, self.rough(factor))
        if len(factors) > 1 or any(factor.bound > most for factor in factors):
            self.require(self.w.compare("olt", rough, constant(rough.type, float(most))))
        return WholeNumber(self.w, total, most)

    def rough(self, number: WholeNumber) -> LlvmValue:
        """The number as a float, which no product leaves."""
        return self.w.convert("sitofp", number.value, "double")

    def end(self, tail: str, label: str) -> None:
        """The block `label` hands the call on to another function."""
        self.w.start(label)
        parameters = ", ".join(map(str, self.w.parameters))
        self.module.declare(tail, "ptr (ptr, ptr, i64, ptr)")
        self.w.ret(self.w.value(PTR, f"tail call ptr @{tail}({parameters})"))

    def at(self, address: LlvmValue, offset: int) -> LlvmValue:
        return self.w.offset(address, constant(I64, offset), I8)

    def either(self, condition: LlvmValue, then: Callable[[], LlvmValue], otherwise: Callable[[], LlvmValue]) -> LlvmValue:
        """One of two values, of which only that one is computed."""
        w = self.w
        yes, no, joined = w.label("yes"), w.label("no"), w.label("joined")
        incoming = []
        w.branch_if(condition, yes, no)
        for label, make in ((yes, then), (no, otherwise)):
            w.start(label)
            incoming.append((make(), w.block))
            w.branch(joined)
        w.start(joined)
        return w.phi(incoming[0][0].type, incoming)
