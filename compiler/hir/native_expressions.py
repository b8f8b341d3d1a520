"""Numbers and memory of a native function that is being written, with operators. Each operator writes its instruction at once, so that the
code reads as what it writes:

    order.left -= qty
    with b.when((order.side == BUY) & (order.limit >= price)):
        order.ahead = select(queues, levels[at].qty, 0)

`+ - * / % abs` of ints are checked: a result that the type can't hold stops, with the operands and the line of the program; `/` and `%`
round toward zero. `& | ^ << >> ~` work on bits, and so on truths. A constant takes the type of its neighbour."""

from collections.abc import Sequence

from compiler.hir.build import Builder
from compiler.hir.core import dtype_of
from compiler.hir.host import (
    Address,
    Allocate,
    AtAddress,
    Checked,
    Clear,
    Copy,
    Element,
    HeapMark,
    Local,
    Member,
    Narrow,
    Quotient,
    Read,
    Release,
    Saturating,
    Write,
    pointee,
)
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import FaultSite
from compiler.hir.numbers import limits
from compiler.hir.types import DTYPES, Array, HirType, Pointer, Struct, Tile, is_float, is_signed
from runtime.records import frozen

OUTSIDE = "index {0} in an array of {1}"
"""What a failure says of an index that an array doesn't have."""
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "shl": "<<", "shr": ">>"}


class Expr:
    """A number, a truth, or the address of memory. `hir` is the value in HIR, `code` what writes the function that it belongs to."""

    __slots__ = ("code", "hir")
    code: "InstructionWriter"
    hir: Value

    def __init__(self, code: "InstructionWriter", hir: Value) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "hir", hir)

    @property
    def dtype(self) -> str:
        return dtype_of(self.hir)

    def __bool__(self) -> bool:
        raise TypeError("what a native function computes isn't known while it is written: use `when` or `select`")

    __hash__ = object.__hash__
    __iter__ = None

    # ---- checked ----

    def __add__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("add", self, other)

    def __radd__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("add", other, self)

    def __sub__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("sub", self, other)

    def __rsub__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("sub", other, self)

    def __mul__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("mul", self, other)

    def __rmul__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("mul", other, self)

    def __truediv__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("div", self, other)

    def __mod__(self, other: "Number") -> "Expr":
        return self.code.arithmetic("rem", self, other)

    def __neg__(self) -> "Expr":
        code, dtype = self.code, self.dtype
        if is_float(dtype):
            return code.op("neg", self)
        return code.emit(Checked(operation="sub", left=code.const(0, dtype).hir, right=self.hir, site=code.outside("-({1})", dtype)))

    def __abs__(self) -> "Expr":
        code, dtype = self.code, self.dtype
        if is_signed(dtype) and not is_float(dtype):
            site = code.outside("|{0}|", dtype)
            code.check(code.op("ne", self, code.const(-(1 << (DTYPES[dtype] - 1)), dtype)), self, code="0806", site=site)
        return code.op("abs", self)

    # ---- modulo the type, and at its ends ----

    def wrapping_add(self, other: "Number") -> "Expr":
        return self.code.wrapping("add", self, other)

    def wrapping_sub(self, other: "Number") -> "Expr":
        return self.code.wrapping("sub", self, other)

    def wrapping_mul(self, other: "Number") -> "Expr":
        return self.code.wrapping("mul", self, other)

    def wrapping_neg(self) -> "Expr":
        return self.code.wrapping("sub", 0, self)

    def saturating_add(self, other: "Number") -> "Expr":
        return self.code.saturating("add", self, other)

    def saturating_sub(self, other: "Number") -> "Expr":
        return self.code.saturating("sub", self, other)

    # ---- bits and truths ----

    def __and__(self, other: "Number") -> "Expr":
        return self.code.wrapping("and", self, other)

    def __or__(self, other: "Number") -> "Expr":
        return self.code.wrapping("or", self, other)

    def __xor__(self, other: "Number") -> "Expr":
        return self.code.wrapping("xor", self, other)

    def __lshift__(self, other: "Number") -> "Expr":
        return self.code.wrapping("shl", self, other)

    def __rshift__(self, other: "Number") -> "Expr":
        return self.code.wrapping("shr", self, other)

    def __invert__(self) -> "Expr":
        return self.code.op("not", self)

    def __eq__(self, other: "Number") -> "Expr":  # type: ignore[override]
        return self.code.compare("eq", self, other)

    def __ne__(self, other: "Number") -> "Expr":  # type: ignore[override]
        return self.code.compare("ne", self, other)

    def __lt__(self, other: "Number") -> "Expr":
        return self.code.compare("lt", self, other)

    def __le__(self, other: "Number") -> "Expr":
        return self.code.compare("le", self, other)

    def __gt__(self, other: "Number") -> "Expr":
        return self.code.compare("gt", self, other)

    def __ge__(self, other: "Number") -> "Expr":
        return self.code.compare("ge", self, other)

    # ---- other types, other roundings ----

    def cast(self, to: str) -> "Expr":
        """To a type that holds every number of its own, or to a float; else the bits wrap. `narrow` is the checked one."""
        return self.code.of(self.code.here.cast(self.hir, to))

    def narrow(self, to: str, written: bool = False) -> "Expr":
        """The same number in an int type; a float is cut toward zero. `written`: by the program, with `as`."""
        site = self.code.outside(f"{{0}} as {to}" if written else "{0}", to)
        return self.code.emit(Narrow(value=self.hir, to=to, site=site))

    def quotient(self, divisor: "Number", rounding: str) -> "Expr":
        """self / divisor made whole: `toward_zero nearest_even floor ceil away`."""
        by = self.code.number(divisor, {"i128": "i64", "u128": "u64"}.get(self.dtype, self.dtype))
        site = self.code.site("0806", f"{{0}} / {{1}} has no value in {self.dtype}")
        return self.code.emit(Quotient(left=self.hir, right=by.hir, rounding=rounding, site=site))


Number = Expr | int | float | bool
"""A value, or a constant that takes the type of its neighbour."""

Part = str | Number
"""A step of a path: the name of a field, or the index of an element."""


class Record(Expr):
    """A struct or an array in memory. Fields are attributes, or items where the name isn't known; elements are items, with an index that
    is checked but in `levels.unchecked[i]`. A number is read and written; a struct or an array is a `Record` again, as all are declared."""

    __slots__ = ("checks",)
    checks: bool

    def __init__(self, code: "InstructionWriter", hir: Value, checks: bool = True) -> None:
        super().__init__(code, hir)
        object.__setattr__(self, "checks", checks)

    @property
    def unchecked(self) -> "Record":
        return Record(self.code, self.hir, checks=False)

    def __getattr__(self, name: str) -> "Record":
        return self[name]

    def __setattr__(self, name: str, value: "Number | Optional") -> None:
        self[name] = value

    def __getitem__(self, part: "Part") -> "Record":
        if isinstance(part, str) and isinstance(struct := pointee(self.hir), Struct) and isinstance(dict(struct.fields).get(part), Array):
            return ArrayField(self, part)
        return self.code.read(self.code.part(self, part, self.checks))

    def __setitem__(self, part: "Part", value: "Number | Optional") -> None:
        self.code.write(self.code.part(self, part, self.checks), value)


class ArrayField(Record):
    """A field that is an array. Its address is written with that of an element, behind the index."""

    __slots__ = ("name", "record")

    record: Record
    name: str

    def __init__(self, record: Record, name: str, checks: bool = True) -> None:
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "code", record.code)
        object.__setattr__(self, "checks", checks)

    @property
    def hir(self) -> Value:  # type: ignore[override]
        return self.code.part(self.record, self.name).hir

    @property
    def unchecked(self) -> Record:
        return ArrayField(self.record, self.name, checks=False)


@frozen
class Optional:
    """`T?` of a number. `value` means something where `present` holds, and is 0 where it comes from `none`."""

    present: Expr
    value: Expr

    @property
    def parts(self) -> tuple[Expr, Expr]:
        """As a function returns or takes it."""
        return self.present, self.value


class NativeVariable:
    """A variable of a function: `count = b.variable(0)`, then `count.value += 1`."""

    def __init__(self, code: "InstructionWriter", slot: Value, dtype: str) -> None:
        self.code, self.slot, self.dtype = code, slot, dtype

    @property
    def value(self) -> Expr:
        return self.code.of(self.code.here.get(self.slot))

    @value.setter
    def value(self, value: Number) -> None:
        self.code.here.set(self.slot, self.code.number(value, self.dtype).hir)


class InstructionWriter:
    """Writes instructions of numbers and memory, one after the other. `here` appends them where the function goes on."""

    def __init__(self, here: Builder) -> None:
        self.here = here
        self.sites: list[FaultSite] = []

    def site(self, code: str, message: str, label: str = "", hint: str | None = None) -> int:
        """The number of a failure's words at the current line; `{0}`, `{1}` are its values."""
        site = FaultSite(code, self.here.span, message, label, hint)
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def of(self, value: Value) -> Record:
        """A value of HIR as an expression."""
        if isinstance(value.type, Pointer) and isinstance(value.type.pointee, Struct | Array):
            return Record(self, value)
        return Expr(self, value)  # type: ignore[return-value]  # a number, of which nobody asks for a field

    def emit(self, instruction: Instruction) -> Record:
        """The result of an instruction that has one."""
        return self.of(self.here.emit(instruction).results[0])

    # ---- numbers ----

    def const(self, value: int | float | bool, type: HirType | str) -> Expr:
        return self.of(self.here.const(value, type))

    def number(self, value: Number, like: Expr | str) -> Expr:
        """A constant as a value of the type of `like`; a value as it is."""
        return value if isinstance(value, Expr) else self.const(value, like if isinstance(like, str) else like.dtype)

    def pair(self, a: Number, b: Number) -> tuple[Expr, Expr]:
        if isinstance(a, Expr):
            return a, self.number(b, a)
        assert isinstance(b, Expr), "two constants"
        return self.number(a, b), b

    def op(self, operator: str, *values: Expr) -> Expr:
        return self.of(self.here.op(operator, *(value.hir for value in values)))

    def arithmetic(self, operation: str, a: Number, b: Number) -> Expr:
        """`add sub mul div rem shl shr`: of ints checked, of floats as IEEE says."""
        x, y = self.pair(a, b)
        if is_float(x.dtype):
            return self.op(operation, x, y)
        computed = f"{{0}} {SIGNS[operation]} {{1}}"
        divides = operation in ("div", "rem")
        site = self.site("0806", f"{computed} has no value in {x.dtype}") if divides else self.outside(computed, x.dtype)
        return self.emit(Checked(operation=operation, left=x.hir, right=y.hir, site=site))

    def outside(self, computed: str, dtype: str) -> int:
        """The site of a result that its type can't hold; `computed` shows it by its operands."""
        low, high = limits(dtype)
        return self.site("0806", f"{computed} does not fit in {dtype}", hint=f"{dtype} holds {low} to {high}")

    def wrapping(self, operation: str, a: Number, b: Number) -> Expr:
        """`add sub mul and or xor shl shr min max`, modulo the type."""
        return self.op(operation, *self.pair(a, b))

    def saturating(self, operation: str, a: Number, b: Number) -> Expr:
        x, y = self.pair(a, b)
        return self.emit(Saturating(operation=operation, left=x.hir, right=y.hir))

    def compare(self, operator: str, a: Number, b: Number) -> Expr:
        return self.op(operator, *self.pair(a, b))

    def check(self, condition: Expr, *values: Expr, code: str, site: int) -> None:
        self.here.check(condition.hir, *(value.hir for value in values), code=code, site=site)

    def require(self, condition: Expr, *values: Expr, code: str, message: str, label: str = "", hint: str | None = None) -> None:
        """Stop where the condition doesn't hold."""
        self.check(condition, *values, code=code, site=self.site(code, message, label, hint))

    # ---- memory ----

    def local(self, type: HirType) -> Record:
        """Memory of this call, all zero."""
        return self.emit(Local(type=Pointer(type)))

    def allocate(self, element: HirType, count: Expr, message: str) -> Record:
        """Memory of this run for so many elements, all zero; stops where there is no room."""
        return self.emit(Allocate(count=count.hir, site=self.site("0804", message), type=Pointer(Array(element, None))))

    def heap_mark(self) -> Expr:
        """How far the heap is filled."""
        return self.emit(HeapMark())

    def release(self, mark: Expr, *kept: Expr) -> None:
        """Frees what was allocated since, but for the memory in which these addresses lie."""
        self.here.emit(Release(mark=mark.hir, kept=tuple(one.hir for one in kept)))

    def address(self, pointer: Expr) -> Expr:
        """Where a pointer points to, as a number."""
        return self.emit(Address(pointer=pointer.hir))

    def at_address(self, address: Number, type: HirType) -> Record:
        return self.emit(AtAddress(value=self.number(address, "i64").hir, type=Pointer(type)))

    def part(self, memory: Expr, part: Part, checks: bool = True) -> Record:
        """The address of a field, by its name, or of an element, by its index."""
        if isinstance(part, str):
            return self.emit(Member(field_=part, pointer=memory.hir))
        site = self.site("0801", OUTSIDE) if checks else -1
        return self.emit(Element(pointer=memory.hir, at=self.number(part, "i64").hir, site=site))

    def row(self, array: Expr, index: Number, count: Number, proved: bool = False) -> Record:
        """The address of an element of an open array that has `count` of them."""
        site = -1 if proved else self.site("0801", OUTSIDE)
        at, of = self.number(index, "i64"), self.number(count, "i64")
        return self.emit(Element(pointer=array.hir, at=at.hir, count=of.hir, site=site))

    def at(self, base: Expr, *path: Part, proved: bool = False) -> Record:
        """The address of a part: names are fields, values and numbers indices, which are checked unless they are `proved` inside."""
        for part in path:
            base = self.part(base, part, not proved)
        return self.of(base.hir)

    def load(self, base: Expr, *path: Part, proved: bool = False) -> Record:
        """The number there."""
        return self.emit(Read(pointer=self.at(base, *path, proved=proved).hir))

    def store(self, base: Expr, *path_and_value: Part, proved: bool = False) -> None:
        """Write a number: `b.store(p, "levels", i, "price", x)`."""
        *path, value = path_and_value
        assert not isinstance(value, str)
        self.write(self.at(base, *path, proved=proved), value)

    def read(self, address: Record) -> Record:
        """The number there; of a struct or an array its address."""
        return address if isinstance(address, Record) else self.emit(Read(pointer=address.hir))

    def write(self, address: Expr, value: "Number | Optional") -> None:
        if isinstance(value, Optional):
            self.store(address, "present", value.present)
            self.store(address, "value", value.value)
            return
        type = pointee(address.hir)
        assert isinstance(type, Tile), f"{type} is no number"
        self.here.emit(Write(pointer=address.hir, value=self.number(value, type.dtype).hir))

    def copy(self, to: Expr, source: Expr) -> None:
        self.here.emit(Copy(to=to.hir, from_=source.hir))

    def clear(self, memory: Expr) -> None:
        self.here.emit(Clear(pointer=memory.hir))

    # ---- variables ----

    def variable(self, initial: Number, dtype: str | None = None) -> NativeVariable:
        """A constant without a type is an i64, a truth an i1."""
        first = self.number(initial, dtype or ("i1" if isinstance(initial, bool) else "i64"))
        return NativeVariable(self, self.here.slot(first.hir), first.dtype)


def assign(record: Record, **fields: Number | Optional) -> None:
    """Write some fields of a struct."""
    for name, value in fields.items():
        record[name] = value


def select(condition: Expr, then: Number, otherwise: Number) -> Expr:
    """One of two values, both of which are computed."""
    code = condition.code
    x, y = code.pair(then, otherwise)
    return code.of(code.here.select(condition.hir, x.hir, y.hir))


def minimum(a: Number, b: Number) -> Expr:
    return _code(a, b).wrapping("min", a, b)


def maximum(a: Number, b: Number) -> Expr:
    return _code(a, b).wrapping("max", a, b)


def all_of(*conditions: Expr) -> Expr:
    """Whether all hold; each is computed."""
    return _joined("and", conditions)


def any_of(*conditions: Expr) -> Expr:
    return _joined("or", conditions)


def muldiv(a: Expr, b: Number, c: Number, rounding: str) -> Expr:
    """a * b / c in the type of a, through 128 bits: only the result must fit."""
    code, dtype = a.code, a.dtype
    y, z = code.number(b, a), code.number(c, a)
    wide = "i128" if is_signed(dtype) else "u128"
    words = {"code": "0806", "message": f"{{0}} * {{1}} / {{2}} has no value in {dtype}"}
    code.require(z != 0, a, y, z, **words)
    product = a.cast(wide).wrapping_mul(y.cast(wide))
    divisor = z.cast(wide.replace("128", "64"))
    whole = code.emit(Quotient(left=product.hir, right=divisor.hir, rounding=rounding, site=-1))
    low, high = limits(dtype)
    fits = whole <= high
    code.require(fits & (whole >= low) if low else fits, a, y, z, **words)
    return whole.cast(dtype)


def _code(*values: Number) -> InstructionWriter:
    return next(value.code for value in values if isinstance(value, Expr))


def _joined(operation: str, conditions: Sequence[Expr]) -> Expr:
    joined, *others = conditions
    for condition in others:
        joined = joined.code.op(operation, joined, condition)
    return joined
