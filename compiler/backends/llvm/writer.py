"""Writes LLVM IR as text: a module that collects functions and metadata, and a function with its blocks and values.

Integer arithmetic with constants is folded as it is written, so that addresses stay short; all else is LLVM's work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from compiler.backends.llvm.types import I1, I32, I64, PTR, LlvmType, constant_text, vector
from compiler.machines.units.dots import DotUnit

_CONSTRAINTS = {"i1": "b", "i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d"}
"""Kinds of registers in assembly."""


class LlvmValue:
    """An operand: its type and its text (`%t3`, `42`, `splat (float 0x...)`). `number` is set for integer constants."""

    __slots__ = ("number", "text", "type")

    def __init__(self, type: LlvmType, text: str, number: int | None = None) -> None:
        self.type, self.text, self.number = type, text, number

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def constant(type: LlvmType, value: int | float) -> LlvmValue:
    return LlvmValue(type, constant_text(value, type), None if type.is_float else int(value))


def poison(type: LlvmType) -> LlvmValue:
    return LlvmValue(type, "poison")


class ModuleWriter:
    """A module under construction. Helper functions (of the math library, of sorting) are made once, on first demand."""

    def __init__(self, name: str, attributes: Sequence[str] = (), native_half: bool = False, backend: str = "CPU") -> None:
        self.name = name
        self.backend = backend
        self.native_half = native_half
        self.native_bfloat = False
        self.native_bytes = False
        self.c_library = True
        """Whether code of the module may call the C library."""
        self.huge_pages = False
        """Whether the system takes advice about pages, as Linux does."""
        self.picks_zero = False
        """Whether `min` and `max` may give a zero of either sign, and comparing and choosing is how the processor computes them."""
        self.dots: tuple[DotUnit, ...] = ()
        """Dot products that the machine has instructions for."""
        self.liberties = True
        """Whether operations on floats have the flags of the program's liberties."""
        self.reorders = True
        """Whether LLVM may find a reduction in what is written, whose order it may change where it knows the operation by name."""
        self.constant_space = 0
        """The address space of tables that are only read."""
        self.attributes = ("nounwind", *attributes)
        self.functions: list[FunctionWriter] = []
        self.declarations: dict[str, str] = {}
        self.types: dict[str, str] = {}
        """Names of types, by what they stand for."""
        self.globals: list[str] = []
        self._metadata: list[str] = []
        self._named: dict[str, list[str]] = {}
        self._helpers: set[str] = set()
        self._numbers: dict[str, int] = {}

    def function(
        self, name: str, result: LlvmType | None, parameters: Sequence[tuple[LlvmType, str]], linkage: str = "", attributes: str = ""
    ) -> "FunctionWriter":
        writer = FunctionWriter(self, name, result, parameters, linkage, attributes)
        self.functions.append(writer)
        return writer

    def declare(self, name: str, signature: str) -> str:
        """An outside function: `declare("free", "void (ptr)")`; its name, ready to call."""
        result, _, parameters = signature.partition(" ")
        self.declarations[name] = f"declare {result} @{name}{parameters}"
        return name

    def type(self, written: str) -> str:
        """A name for a type."""
        return self.types.setdefault(written, f"%parts{len(self.types)}")

    def helper(self, name: str, make: Callable[[str], None]) -> str:
        """`name`, after `make(name)` has written that function, unless it is there already."""
        if name not in self._helpers:
            self._helpers.add(name)
            make(name)
        return name

    def unique(self, base: str) -> str:
        """`base` with the next number behind it."""
        number = self._numbers.get(base, 0)
        self._numbers[base] = number + 1
        return f"{base}.{number}"

    def metadata(self, text: str, distinct: bool = False) -> str:
        """A metadata node; `!{self}` in the text stands for the node's own name. Its name."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {'distinct ' if distinct else ''}{text.replace('!{self}', name)}")
        return name

    def node(self, items: Iterable[str], distinct: bool = False) -> str:
        """A metadata node of these items."""
        return self.metadata("!{" + ", ".join(items) + "}", distinct)

    def named(self, name: str, node: str) -> None:
        """Add a node to a named list of the module: `!llvm.dbg.cu`."""
        self._named.setdefault(name, []).append(node)

    def text(self) -> str:
        types = [f"{name} = type {written}" for written, name in self.types.items()]
        parts = [f"; {self.name}", *types, *self.globals, *self.declarations.values()]
        parts += [function.text() for function in self.functions]
        quoted = " ".join(a if "=" not in a else "=".join(f'"{half}"' for half in a.split("=", 1)) for a in self.attributes)
        parts.append(f"attributes #0 = {{ {quoted} }}")
        parts += [f"!{name} = !{{{', '.join(nodes)}}}" for name, nodes in self._named.items()]
        return "\n".join(parts + self._metadata) + "\n"


class FunctionWriter:
    """A function under construction. `terminated` holds after a branch or return until the next block starts."""

    def __init__(
        self,
        module: ModuleWriter,
        name: str,
        result: LlvmType | None,
        parameters: Sequence[tuple[LlvmType, str]],
        linkage: str,
        attributes: str,
    ) -> None:
        self.module, self.name, self.result, self.linkage, self.attributes = module, name, result, linkage, attributes
        self.parameters = [LlvmValue(type, f"%{text}") for type, text in parameters]
        self.parameter_notes: dict[int, str] = {}
        """Attributes of parameters by number."""
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"
        self.terminated = False
        self.known_bf16: set[str] = set()
        """Values of f32 that a bf16 holds exactly, by their text."""
        self.before_rounding: dict[str, LlvmValue] = {}
        """Vectors that were rounded to bf16, by what they became."""
        self.short_nan: set[str] = set()
        """Values of f32 whose NaNs a bf16 holds exactly, by their text."""
        self.groups: dict[tuple[str, ...], LlvmValue] = {}
        """What was loaded as one, by the texts of the values whose elements take turns in it."""
        self.location = ""
        """The debug location that lines get: `, !dbg !7`."""

    def text(self) -> str:
        notes = [f" {self.parameter_notes[n]}" if n in self.parameter_notes else "" for n in range(len(self.parameters))]
        parameters = ", ".join(f"{p.type}{note} {p.text}" for p, note in zip(self.parameters, notes, strict=True))
        head = f"define {self.linkage + ' ' if self.linkage else ''}{self.result or 'void'} @{self.name}({parameters}) #0"
        head += f" {self.attributes}" if self.attributes else ""
        return "\n".join([f"{head} {{", "entry:", *self._entry, "  br label %start", "start:", *self._lines, "}"])

    # ---- lines and values ----

    def line(self, text: str) -> None:
        if self.terminated:
            self.start(self.label("dead"))
        self._lines.append("  " + text + self.location)

    def value(self, type: LlvmType, expression: str) -> LlvmValue:
        self._count += 1
        name = f"%t{self._count}"
        self.line(f"{name} = {expression}")
        return LlvmValue(type, name)

    def alloca(self, type: LlvmType, count: int = 1, align: int = 0) -> LlvmValue:
        """Stack memory of the whole function."""
        self._count += 1
        name = f"%t{self._count}"
        allocated = f"[{count} x {type}]" if count != 1 else str(type)
        self._entry.append(f"  {name} = alloca {allocated}" + (f", align {align}" if align else ""))
        return LlvmValue(PTR, name)

    def at_entry(self, text: str) -> None:
        """A line in the entry block, behind the allocas made so far."""
        self._entry.append("  " + text)

    # ---- operations ----

    def binary(self, operation: str, a: LlvmValue, b: LlvmValue, flags: str = "") -> LlvmValue:
        a, b = self.same_lanes(a, b)
        return self.value(a.type, f"{operation} {flags + ' ' if flags else ''}{a}, {b.text}")

    def add(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """Sum of addresses or indices: does not overflow."""
        if a.number is not None and b.number is not None:
            return constant(self.same_type(a, b), a.number + b.number)
        if a.number == 0:
            return self.like(b, a)
        if b.number == 0:
            return self.like(a, b)
        return self.binary("add nsw", a, b)

    def sub(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        if a.number is not None and b.number is not None:
            return constant(self.same_type(a, b), a.number - b.number)
        if b.number == 0:
            return self.like(a, b)
        return self.binary("sub nsw", a, b)

    def mul(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        if a.number is not None and b.number is not None:
            return constant(self.same_type(a, b), a.number * b.number)
        for x, y in ((a, b), (b, a)):
            if x.number == 0:
                return constant(self.same_type(a, b), 0)
            if x.number == 1:
                return self.like(y, x)
        return self.binary("mul nsw", a, b)

    def compare(self, predicate: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """`predicate` with its instruction's sort: `slt` for ints, `olt` for floats."""
        a, b = self.same_lanes(a, b)
        word = "fcmp" if a.type.is_float else "icmp"
        return self.value(a.type.of("i1"), f"{word} {predicate} {a}, {b.text}")

    def select(self, condition: LlvmValue, then: LlvmValue, otherwise: LlvmValue) -> LlvmValue:
        then, otherwise = self.same_lanes(then, otherwise)
        if condition.type.lanes:
            then, otherwise = self.splat(then, condition.type.lanes), self.splat(otherwise, condition.type.lanes)
        if condition.number is not None:
            return then if condition.number else otherwise
        return self.with_short_nan(self.value(then.type, f"select {condition}, {then}, {otherwise}"), then, otherwise)

    def with_short_nan(self, result: LlvmValue, *operands: LlvmValue) -> LlvmValue:
        """A result of arithmetic, where a NaN comes from an operand or is the processor's own: noted if a bf16 holds all of these."""
        known = self.short_nan | self.known_bf16 if result.type.element == "float" and self.module.backend == "CPU" else frozenset[str]()
        if known and all(operand.text in known or not operand.text.startswith("%") for operand in operands):
            self.short_nan.add(result.text)
        return result

    def call(self, function: str, type: LlvmType, *arguments: LlvmValue, flags: str = "") -> LlvmValue:
        inside = ", ".join(map(str, arguments))
        return self.value(type, f"call {flags + ' ' if flags else ''}{type} @{function}({inside})")

    def call_void(self, function: str, *arguments: LlvmValue) -> None:
        self.line(f"call void @{function}({', '.join(map(str, arguments))})")

    def intrinsic(self, name: str, *arguments: LlvmValue, flags: str = "") -> LlvmValue:
        """An intrinsic named after its arguments' type: `fma`, `maximum`, `smin`."""
        lanes = max(a.type.lanes for a in arguments)
        arguments = tuple(self.splat(a, lanes) for a in arguments)
        return self.call(f"llvm.{name}.{arguments[0].type.suffix}", arguments[0].type, *arguments, flags=flags)

    def convert(self, operation: str, value: LlvmValue, element: str) -> LlvmValue:
        """`sitofp`, `bitcast`, `zext` ... lane by lane; nothing when the type is that already."""
        type = value.type.of(element)
        return value if type == value.type else self.value(type, f"{operation} {value} to {type}")

    # ---- lanes ----

    def splat(self, value: LlvmValue, lanes: int) -> LlvmValue:
        """The scalar in every lane; a vector is left alone."""
        if value.type.lanes or not lanes:
            return value
        type = value.type.with_lanes(lanes)
        if value.number is not None:
            return constant(type, value.number)
        if value.text.startswith("0x"):
            return LlvmValue(type, f"splat ({value.type} {value.text})")
        first = self.value(type, f"insertelement {type} poison, {value}, i32 0")
        return self.same_number(self.value(type, f"shufflevector {first}, {type} poison, <{lanes} x i32> zeroinitializer"), value)

    def same_number(self, result: LlvmValue, value: LlvmValue) -> LlvmValue:
        """The same number as another value, up to its sign and how often: a bf16 holds both or none."""
        for known in self.known_bf16, self.short_nan:
            if value.text in known:
                known.add(result.text)
        return result

    def same_lanes(self, a: LlvmValue, b: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        lanes = a.type.lanes or b.type.lanes
        return self.splat(a, lanes), self.splat(b, lanes)

    def same_type(self, a: LlvmValue, b: LlvmValue) -> LlvmType:
        return a.type if a.type.lanes else b.type

    def like(self, value: LlvmValue, other: LlvmValue) -> LlvmValue:
        return self.splat(value, other.type.lanes)

    def extract(self, value: LlvmValue, lane: int | LlvmValue) -> LlvmValue:
        index = constant(I32, lane) if isinstance(lane, int) else lane
        return self.value(value.type.with_lanes(0), f"extractelement {value}, {index}")

    def insert(self, into: LlvmValue, value: LlvmValue, lane: int) -> LlvmValue:
        return self.value(into.type, f"insertelement {into}, {value}, i32 {lane}")

    def shuffle(self, a: LlvmValue, b: LlvmValue | None, lanes: Sequence[int]) -> LlvmValue:
        """Lanes of `a`, then of `b`; -1 is any."""
        mask = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        second = b.text if b is not None else "poison"
        return self.value(a.type.with_lanes(len(lanes)), f"shufflevector {a}, {a.type} {second}, <{len(lanes)} x i32> <{mask}>")

    def lane_numbers(self, lanes: int) -> LlvmValue:
        """0, 1, 2, ... as i64."""
        return LlvmValue(vector("i64", lanes), f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>")

    # ---- memory ----

    def load(self, type: LlvmType, pointer: LlvmValue, align: int = 0, notes: str = "") -> LlvmValue:
        return self.value(type, f"load {type}, {pointer}" + (f", align {align}" if align else "") + notes)

    def store(self, value: LlvmValue, pointer: LlvmValue, align: int = 0, notes: str = "") -> None:
        self.line(f"store {value}, {pointer}" + (f", align {align}" if align else "") + notes)

    def offset(self, pointer: LlvmValue, index: LlvmValue, element: LlvmType) -> LlvmValue:
        """Address of element `index`; with a vector of indices, a vector of addresses."""
        if index.number == 0 and not index.type.lanes:
            return pointer
        return self.value(pointer.type.with_lanes(index.type.lanes), f"getelementptr inbounds {element}, {pointer}, {index}")

    # ---- several results ----

    def parts(self, types: Sequence[LlvmType], expression: Callable[[str], str], named: bool = False) -> list[LlvmValue]:
        """The results of an operation that gives several: `expression` makes its text from the type of them all, `named` where it need
        not be written out (assembly with a hundred results would be long)."""
        if len(types) == 1:
            return [self.value(types[0], expression(str(types[0])))]
        written = "{ " + ", ".join(map(str, types)) + " }"
        whole = vector(self.module.type(written) if named else written)
        struct = self.value(whole, expression(str(whole)))
        return [self.value(type, f"extractvalue {struct}, {number}") for number, type in enumerate(types)]

    def assembly(
        self, text: str, results: Sequence[LlvmType], inputs: str, arguments: Sequence[LlvmValue], pure: bool = False, alone: bool = False
    ) -> list[LlvmValue]:
        """Assembly of the target as one instruction: `$0 ...` are the results, then the arguments. `inputs` gives the arguments'
        constraints (`r,l`); results get theirs from their types. It is executed by all threads that come here together, unless what each
        does `alone` is the same."""
        outputs = [f"={_CONSTRAINTS[type.element]}" for type in results]
        constraints = ",".join([*outputs, *([inputs] if inputs else []), *(() if pure else ("~{memory}",))])
        convergent = "" if alone else " convergent"
        call = f'asm {"" if pure else "sideeffect "}"{text}", "{constraints}"({", ".join(map(str, arguments))}){convergent}'
        if not results:
            self.line(f"call void {call}")
            return []
        return self.parts(results, lambda type: f"call {type} {call}", named=True)

    # ---- blocks ----

    def label(self, word: str = "b") -> str:
        self._count += 1
        return f"{word}{self._count}"

    def start(self, label: str) -> None:
        """Begin a block; the one before falls through to it."""
        if not self.terminated:
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")
        self.block, self.terminated = label, False

    def branch(self, label: str, notes: str = "") -> None:
        if not self.terminated:
            self._lines.append(f"  br label %{label}{notes}")
            self.terminated = True

    def branch_if(self, condition: LlvmValue, then: str, otherwise: str, notes: str = "") -> None:
        self.line(f"br {condition}, label %{then}, label %{otherwise}{notes}")
        self.terminated = True

    def ret(self, value: LlvmValue | None = None) -> None:
        self.line(f"ret {value}" if value is not None else "ret void")
        self.terminated = True

    def phi(self, type: LlvmType, incoming: Iterable[tuple[LlvmValue | str, str]]) -> LlvmValue:
        pairs = ", ".join(f"[ {v.text if isinstance(v, LlvmValue) else v}, %{label} ]" for v, label in incoming)
        return self.value(type, f"phi {type} {pairs}")

    @contextmanager
    def when(self, condition: LlvmValue) -> Iterator[None]:
        """Code that runs only where the condition holds."""
        inside, after = self.label("then"), self.label("after")
        self.branch_if(condition, inside, after)
        self.start(inside)
        yield
        self.branch(after)
        self.start(after)

    @contextmanager
    def loop(
        self, low: LlvmValue, high: LlvmValue, step: int = 1, marks: str = "", latch: str | None = None, exit: str | None = None
    ) -> Iterator[LlvmValue]:
        """A counted loop: gives its variable. A body may branch to `latch` (go on) or `exit` (leave)."""
        head, body = self.label("head"), self.label("body")
        latch, exit = latch or self.label("latch"), exit or self.label("exit")
        self.start(self.label("enter"))
        before = self.block
        self.start(head)
        self._count += 1
        following = f"%t{self._count}"
        index = self.phi(I64, [(low, before), (following, latch)])
        self.branch_if(self.compare("slt" if step > 0 else "sgt", index, high), body, exit)
        self.start(body)
        yield index
        self.start(latch)
        self.line(f"{following} = add nsw i64 {index.text}, {step}")
        self.branch(head, marks)
        self.start(exit)

    def true(self, lanes: int = 0) -> LlvmValue:
        return constant(I1.with_lanes(lanes), 1)

    def both(self, a: LlvmValue | None, b: LlvmValue | None) -> LlvmValue | None:
        """The conjunction; None stands for true."""
        if a is None or b is None:
            return b if a is None else a
        return self.binary("and", a, b)


def has_feature(module: ModuleWriter, feature: str) -> bool:
    """Whether the machine that a module is for has a feature."""
    return any(f"+{feature}" in text.removeprefix("target-features=").split(",") for text in module.attributes)
