"""Host functions: memory by address (structs and arrays), and integer arithmetic that stops at what its type can't hold.

A pointer is a parameter, a `local`, an `allocate`, or a part of what another pointer points to; it is never kept in memory, carried by a
loop or returned, so that who may write where is plain from a function's text. What is handed on is an `address`, which `at_address` makes a
pointer again. `site` names the entry of the function's `sites` that a failure
is reported as, and the operands are its values."""

from collections.abc import Iterator

from compiler.hir.core import dtype_of
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
    optional_operand,
)
from compiler.hir.layout import field_type, in_memory, size_of
from compiler.hir.types import DTYPES, Array, HirType, Pointer, Struct, Tile, is_float, is_wide

CHECKED = ("add", "sub", "mul", "div", "rem", "shl", "shr")
SATURATING = ("add", "sub", "mul")
LARGEST_LOCAL = 1 << 16
"""Bytes of a `local`: it lies on the stack."""

MATCHED = 64
"""Bytes that one `match_bytes` compares: a bit of the result each."""

BYTE_ORDERS = ("little", "big")
"""Which byte of an int is the first in memory: its lowest or its highest."""

ROUNDINGS = ("toward_zero", "nearest_even", "floor", "ceil", "away")
"""How a quotient is made whole; `away` is away from zero."""


def pointee(value: Value) -> HirType:
    """What an operand points to, which must be a pointer."""
    assert isinstance(value.type, Pointer), f"{value} is no pointer: {value.type}"
    return value.type.pointee


def _is_int(dtype: str) -> bool:
    return not is_float(dtype) and dtype != "i1"


@instruction("local", InstructionFamily.HOST, Effect.WRITE)
class Local(Instruction):
    """`%p = local : ptr<struct<S; a: i64>>`: memory for the rest of this call; all its bytes are 0, again each time this is reached."""

    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not isinstance(self.type, Pointer) or not in_memory(self.type.pointee):
            yield f"no memory for {self.type}"
        elif size_of(self.type.pointee) > LARGEST_LOCAL:
            yield f"{size_of(self.type.pointee)} bytes on the stack, which has room for {LARGEST_LOCAL} of one value"


@instruction("allocate", InstructionFamily.HOST, Effect.WRITE | Effect.FAULT)
class Allocate(Instruction):
    """`%p = allocate %count site=2 : ptr<array<open x f64>>`: memory for so many elements on the heap of this run, all 0. It stops where
    the run has no room for it. Whoever began the run frees what is left when it ends, however it ends."""

    count: Value = operand()
    site: int = attribute()
    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not isinstance(self.type, Pointer) or not isinstance(self.type.pointee, Array) or self.type.pointee.count is not None:
            yield f"no open array for {self.type}"
        if dtype_of(self.count) != "i64":
            yield f"a count of type {self.count.type}"


@instruction("heap_mark", InstructionFamily.HOST, Effect.READ)
class HeapMark(Instruction):
    """`%m = heap_mark : i64`: how far the heap of this run is filled."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i64")]


@instruction("release", InstructionFamily.HOST, Effect.READ | Effect.WRITE)
class Release(Instruction):
    """`release %m, %a, %b`: frees what was allocated since mark `%m`, but for the memory in which the addresses lie."""

    mark: Value = operand()
    kept: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from (f"an address of type {value.type}" for value in (self.mark, *self.kept) if dtype_of(value) != "i64")


@instruction("address", InstructionFamily.HOST)
class Address(Instruction):
    """`%a = address %p : i64`: where a pointer points to, as a number that can be carried, kept and returned."""

    pointer: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        pointee(self.pointer)
        return [Tile("i64")]


@instruction("at_address", InstructionFamily.HOST)
class AtAddress(Instruction):
    """`%p = at_address %a : ptr<array<open x f64>>`: the pointer whose `address` that is."""

    value: Value = operand()
    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not isinstance(self.type, Pointer):
            yield f"{self.type} is no pointer"
        if dtype_of(self.value) != "i64":
            yield f"an address of type {self.value.type}"


@instruction("member", InstructionFamily.HOST)
class Member(Instruction):
    """`%r = member price %p : ptr<i64>`: the address of a field of the struct at `%p`."""

    field_: str = attribute()
    pointer: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        struct = pointee(self.pointer)
        assert isinstance(struct, Struct), f"{self.pointer} points to no struct"
        return [Pointer(field_type(struct, self.field_))]


@instruction("element", InstructionFamily.HOST, Effect.FAULT)
class Element(Instruction):
    """`%r = element %p, %i site=2 : ptr<i64>`: the address of element `%i`, from 0, of the array at `%p`. An index outside stops; with
    `site=-1` it is known to be inside. An open array has as many elements as `count`, an i64, says."""

    pointer: Value = operand()
    at: Value = operand()
    count: Value | None = optional_operand()
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        array = pointee(self.pointer)
        assert isinstance(array, Array), f"{self.pointer} points to no array"
        return [Pointer(array.element)]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not _is_int(dtype_of(self.at)) or is_wide(dtype_of(self.at)):
            yield f"an index of type {self.at.type}"
        array = pointee(self.pointer)
        if isinstance(array, Array) and (array.count is None) != (self.count is not None):
            yield f"{'no' if self.count is None else 'a'} count for {array}"
        if self.count is not None and dtype_of(self.count) != "i64":
            yield f"a count of type {self.count.type}"


@instruction("read", InstructionFamily.HOST, Effect.READ)
class Read(Instruction):
    """`%v = read %p : i64`: the number at an address."""

    pointer: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [pointee(self.pointer)]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if not isinstance(pointee(self.pointer), Tile):
            yield f"{pointee(self.pointer)} is no number; `copy` takes whole structs and arrays"


@instruction("write", InstructionFamily.HOST, Effect.WRITE)
class Write(Instruction):
    """`write %p, %v`: the number put at an address."""

    pointer: Value = operand()
    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        if pointee(self.pointer) != self.value.type:
            yield f"a {self.value.type} written to {self.pointer.type}"


def _bytes_faults(pointer: Value, at: Value, count: Value) -> Iterator[str]:
    """What is wrong with the operands of an instruction that reads several bytes of an open array."""
    if pointee(pointer) != Array(Tile("u8"), None):
        yield f"bytes of {pointee(pointer)}"
    if dtype_of(at) != "i64":
        yield f"an index of type {at.type}"
    if dtype_of(count) != "i64":
        yield f"a count of type {count.type}"


@instruction("read_bytes", InstructionFamily.HOST, Effect.READ | Effect.FAULT)
class ReadBytes(Instruction):
    """`%v = read_bytes %p, %at, %count to=u32 order=big site=2 : u32`: the int whose bytes begin at byte `%at` of the `%count` u8s at `%p`,
    at any alignment. `order` says which byte of the int is the first: `little` the lowest, `big` the highest. It stops where not all bytes
    are inside; with `site=-1` they are known to be."""

    pointer: Value = operand()
    at: Value = operand()
    count: Value = operand()
    to: str = attribute()
    order: str = attribute("little")
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(self.to)]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _bytes_faults(self.pointer, self.at, self.count)
        if self.to not in DTYPES or not _is_int(self.to) or self.to == "index":
            yield f"{self.to} is no int type"
        if self.order not in BYTE_ORDERS:
            yield f"no order {self.order}"


@instruction("match_bytes", InstructionFamily.HOST, Effect.READ | Effect.FAULT)
class MatchBytes(Instruction):
    """`%m = match_bytes %p, %at, %count, %a, %b site=2 : u64`: bit k says whether byte `%at` + k of the `%count` u8s at `%p` is `%a` or
    `%b`, for 64 bytes. It stops where not all of them are inside; with `site=-1` they are known to be."""

    pointer: Value = operand()
    at: Value = operand()
    count: Value = operand()
    values: tuple[Value, ...] = operands()
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(f"u{MATCHED}")]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _bytes_faults(self.pointer, self.at, self.count)
        if not self.values:
            yield "no values to compare with"
        yield from (f"a {value.type} compared with bytes" for value in self.values if value.type != Tile("u8"))


@instruction("copy", InstructionFamily.HOST, Effect.READ | Effect.WRITE)
class Copy(Instruction):
    """`copy %to, %from`: all bytes of what `%from` points to; the two are of one type, and the same place or apart."""

    to: Value = operand()
    from_: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        if pointee(self.to) != pointee(self.from_):
            yield f"{self.from_.type} copied to {self.to.type}"


@instruction("clear", InstructionFamily.HOST, Effect.WRITE)
class Clear(Instruction):
    """`clear %p`: all bytes of what `%p` points to become 0."""

    pointer: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        pointee(self.pointer)
        yield from ()


@instruction("cycles", InstructionFamily.HOST, Effect.READ | Effect.WRITE)
class Cycles(Instruction):
    """`%c = cycles : i64`: the processor's counter of cycles, which runs on at a steady pace; only differences mean something."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i64")]


@instruction("checked", InstructionFamily.HOST, Effect.FAULT)
class Checked(Instruction):
    """`%r = checked add %a, %b site=1 : i64`: `add sub mul div rem shl shr` of two ints of one type, exactly, or it stops. `div` rounds
    toward zero, `rem` has the dividend's sign; both stop at a zero, `div` also at the lowest number by -1. `shl` is a * 2**b; both shifts
    stop at an amount below 0 or not below the width."""

    operation: str = attribute()
    left: Value = operand()
    right: Value = operand()
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.left.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        left, right = dtype_of(self.left), dtype_of(self.right)
        if self.operation not in CHECKED:
            yield f"no operation {self.operation}"
        if left != right or not _is_int(left):
            yield f"operands of {left} and {right}"
        if is_wide(left) and self.operation in ("div", "rem"):
            yield f"{self.operation} of {left}; `quotient` divides by 64 bits"


@instruction("saturating", InstructionFamily.HOST)
class Saturating(Instruction):
    """`%r = saturating add %a, %b : i64`: `add sub mul` of two ints of one type; a result outside the type becomes its nearest number."""

    operation: str = attribute()
    left: Value = operand()
    right: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.left.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        left, right = dtype_of(self.left), dtype_of(self.right)
        if self.operation not in SATURATING:
            yield f"no operation {self.operation}"
        if left != right or not _is_int(left) or is_wide(left):
            yield f"operands of {left} and {right}"


@instruction("narrow", InstructionFamily.HOST, Effect.FAULT)
class Narrow(Instruction):
    """`%r = narrow %a to=i32 site=1 : i32`: the number in an int type, or it stops where that can't hold it. A float is cut toward zero;
    NaN stops."""

    value: Value = operand()
    to: str = attribute()
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(self.to)]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.to not in DTYPES or not _is_int(self.to):
            yield f"{self.to} is no int type"
        elif is_float(dtype_of(self.value)) and is_wide(self.to):
            yield f"a float to {self.to}"


@instruction("quotient", InstructionFamily.HOST, Effect.FAULT)
class Quotient(Instruction):
    """`%r = quotient %a, %b rounding=nearest_even site=1 : i128`: a / b made whole as `rounding` says (`toward_zero nearest_even floor ceil
    away`). It stops at a zero and where the type can't hold the result. An int of 128 bits is divided by one of 64 with the same
    sign; others by one of their own type. With `site=-1` it is known that there is a result."""

    left: Value = operand()
    right: Value = operand()
    rounding: str = attribute()
    site: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.left.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        left, right = dtype_of(self.left), dtype_of(self.right)
        wanted = {"i128": "i64", "u128": "u64"}.get(left, left)
        if not _is_int(left) or right != wanted:
            yield f"{left} divided by {right}"
        if self.rounding not in ROUNDINGS:
            yield f"no rounding {self.rounding}"
