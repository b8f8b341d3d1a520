"""What host instructions become in the source that the interpreter runs: calls of `host_memory.py`."""

from compiler.emulator.writer import Writer
from compiler.hir.core import dtype_of
from compiler.hir.host import (
    Address,
    Allocate,
    AtAddress,
    Checked,
    Clear,
    Copy,
    Cycles,
    Element,
    HeapMark,
    Local,
    MatchBytes,
    Member,
    Narrow,
    Quotient,
    Read,
    ReadBytes,
    Release,
    Saturating,
    Write,
    pointee,
)
from compiler.hir.instruction import Instruction
from compiler.hir.layout import offset_of, size_of
from compiler.hir.types import Array, Pointer, Struct


def host_statement(to: Writer, op: Instruction, indent: int) -> bool:
    """Write one of these instructions; False when it is none."""
    inputs = [to.of(value) for value in op.operand_values]

    def give(text: str) -> None:
        to.write(indent, f"{to.bind(op.result)} = {text}")

    def site(number: int) -> str:
        return to.constant(None if number < 0 else (to.function.sites[number].code, number, to.function.name))

    match op:
        case Local():
            assert isinstance(op.type, Pointer)
            give(f"host_memory({size_of(op.type.pointee)})")
        case Allocate():
            array = pointee(op.result)
            assert isinstance(array, Array)
            give(f"host_memory({size_of(array.element)} * {inputs[0]})")
        case HeapMark():
            give("0")
        case Release():
            pass  # memory goes with the last address of it
        case Address() | AtAddress():
            give(inputs[0])
        case Member():
            struct = pointee(op.pointer)
            assert isinstance(struct, Struct)
            give(f"({inputs[0]}[0], {inputs[0]}[1] + {offset_of(struct, op.field_)})")
        case Element():
            array = pointee(op.pointer)
            assert isinstance(array, Array)
            count = array.count if op.count is None else inputs[2]
            give(f"host_element({inputs[0]}, {inputs[1]}, {count}, {size_of(array.element)}, {site(op.site)})")
        case Read():
            give(f"host_read_{dtype_of(op.result)}({inputs[0]})")
        case Write():
            to.write(indent, f"host_write_{dtype_of(op.value)}({inputs[0]}, {inputs[1]})")
        case ReadBytes():
            give(f"host_read_bytes({', '.join(inputs)}, {op.to!r}, {op.order!r}, {site(op.site)})")
        case MatchBytes():
            give(f"host_match_bytes({', '.join(inputs[:3])}, ({', '.join(inputs[3:])},), {site(op.site)})")
        case Copy():
            to.write(indent, f"host_copy({inputs[0]}, {inputs[1]}, {size_of(pointee(op.to))})")
        case Clear():
            to.write(indent, f"host_clear({inputs[0]}, {size_of(pointee(op.pointer))})")
        case Cycles():
            give("host_cycles()")
        case Checked():
            give(f"host_checked({op.operation!r}, {dtype_of(op.left)!r}, {inputs[0]}, {inputs[1]}, {site(op.site)})")
        case Saturating():
            give(f"host_saturating({op.operation!r}, {dtype_of(op.left)!r}, {inputs[0]}, {inputs[1]})")
        case Narrow():
            give(f"host_narrow({inputs[0]}, {op.to!r}, {site(op.site)})")
        case Quotient():
            give(f"host_quotient({dtype_of(op.left)!r}, {inputs[0]}, {inputs[1]}, {op.rounding!r}, {site(op.site)})")
        case _:
            return False
    return True
