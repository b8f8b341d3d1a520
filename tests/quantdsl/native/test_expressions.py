"""Operators, fields and elements of functions that are being written: which instructions they write, what they compute, what they refuse."""

from collections.abc import Callable

import pytest

from compiler.hir.layout import new_memory
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Number, Optional, Record, all_of, any_of, maximum, minimum, muldiv, select
from compiler.hir.native_types import I1, I64, U8, optional, struct
from compiler.hir.text import print_module
from compiler.hir.types import Array, Pointer
from quantdsl.native.values import read_optional, some
from tests.quantdsl.native.both import Both

LEVEL = struct("level", qty=I64, side=U8)
BOOK = struct("book", count=I64, best=LEVEL, levels=Array(LEVEL, 4), last=optional(I64))


def text_of(write: Callable[[FunctionCode, Record, Expr], None]) -> list[str]:
    """The instructions of a function of a book and an i64."""
    program = ModuleBuilder("m")
    with program.function("f", {"book": Pointer(BOOK), "x": I64}) as b:
        write(b, *b.parameters)
    lines = [line.strip().split(" : ")[0] for line in print_module(program.module).splitlines()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("func"))
    return [line for line in lines[begin + 1 :] if line not in ("}", "return") and not line.startswith("site")]


def test_a_field_changes_by_a_read_a_checked_operation_and_a_write() -> None:
    def write(b: FunctionCode, book: Record, x: Expr) -> None:
        book.best.qty -= x

    assert text_of(write) == [
        "%t0 = member best %book",
        "%t1 = member qty %t0",
        "%t2 = read %t1",
        "%t3 = checked sub %t2, %x site=0",
        "write %t1, %t3",
    ]


def test_an_index_is_written_before_the_address_of_its_array() -> None:
    def write(b: FunctionCode, book: Record, x: Expr) -> None:
        book.levels.unchecked[x & 3].side = 1

    assert text_of(write) == [
        "%t0 = const 3",
        "%t1 = and %x, %t0",
        "%t2 = member levels %book",
        "%t3 = element %t2, %t1 site=-1",
        "%t4 = member side %t3",
        "%t5 = const 1",
        "write %t4, %t5",
    ]


def test_only_unchecked_elements_have_no_check() -> None:
    def write(b: FunctionCode, book: Record, x: Expr) -> None:
        book.levels[x].qty = 0
        book.levels.unchecked[x].qty = 0

    elements = [line for line in text_of(write) if " element " in line]
    assert [line.partition("site=")[2] for line in elements] == ["0", "-1"]


OPERATIONS: dict[str, Callable[[Expr, Expr], Number]] = {
    "add": lambda x, y: x + y,
    "add from the right": lambda x, y: 7 + x,
    "sub": lambda x, y: x - y,
    "sub from the right": lambda x, y: 7 - x,
    "mul": lambda x, y: x * y * 2,
    "div": lambda x, y: x / y,
    "rem": lambda x, y: x % y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "shifts": lambda x, y: (x << 3) >> 1,
    "comparisons": lambda x, y: select((x < y) | (x == 5), 1, select((x >= y) & ~(x != 9), x - 7, 3)),
    "all and any": lambda x, y: select(all_of(x > 0, y > 0, x > y), 1, select(any_of(x < 0, y < 0, x == y), x - 2, 3)),
    "ends": lambda x, y: minimum(x, y) * 100 + maximum(x, 3),
    "muldiv": lambda x, y: muldiv(x, 10, y, "floor"),
    "quotient": lambda x, y: x.quotient(y, "nearest_even"),
}


def plain(name: str, x: int, y: int) -> int:
    """The same of Python's ints."""
    toward_zero = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return {
        "add": x + y,
        "add from the right": 7 + x,
        "sub": x - y,
        "sub from the right": 7 - x,
        "mul": x * y * 2,
        "div": toward_zero,
        "rem": x - y * toward_zero,
        "neg": -x,
        "abs": abs(x),
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
        "shifts": x << 3 >> 1,
        "comparisons": 1 if x < y or x == 5 else x - 7 if x >= y and x == 9 else 3,
        "all and any": 1 if x > 0 and y > 0 and x > y else x - 2 if x < 0 or y < 0 or x == y else 3,
        "ends": min(x, y) * 100 + max(x, 3),
        "muldiv": x * 10 // y,
        "quotient": round(x / y),
    }[name]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operators_compute_as_ints_do(name: str) -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": I64, "y": I64}, [I64]) as b:
        b.ret(OPERATIONS[name](*b.parameters))
    run = Both(program.module)
    for x in (-9, -5, -1, 0, 3, 5, 9, 40):
        for y in (-4, -1, 2, 3, 7):
            assert run("f", x, y) == (plain(name, x, y),), (x, y)


def test_wrapping_and_saturating_methods_stay_in_the_type() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": I64, "y": I64}, [I64] * 6) as b:
        x, y = b.parameters
        wrapped = (x.wrapping_add(y), x.wrapping_sub(y), x.wrapping_mul(y), x.wrapping_neg())
        b.ret(*wrapped, x.saturating_add(y), x.saturating_sub(y))
    run, top = Both(program.module), 2**63 - 1
    assert run("f", top, 2) == (-(2**63) + 1, top - 2, -2, -top, top, top - 2)
    assert run("f", -(2**63), 1) == (-(2**63) + 1, top, -(2**63), -(2**63), -(2**63) + 1, -(2**63))


def test_what_overflows_stops() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": I64}, [I64]) as b:
        (x,) = b.parameters
        b.ret(abs(x) + x)
    run = Both(program.module)
    assert run("f", -3) == (0,)
    assert run("f", 2**62)[:2] == ("0806", "f") and run("f", -(2**63))[:2] == ("0806", "f")


def test_optionals_are_assigned_and_read_whole() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"book": Pointer(BOOK), "x": I64}, [I1, I64]) as b:
        book, x = b.parameters
        before = read_optional(book.last)
        book.last = some(x)
        with b.when(x < 0):
            book.last = Optional(b.const(False, "i1"), b.const(0, "i64"))
        b.ret(*before.parts)
    run, book = Both(program.module), new_memory(BOOK)
    assert [run("f", book, x) for x in (4, -1, 6)] == [(0, 0), (1, 4), (0, 0)]
    assert (book["last"]["present"], book["last"]["value"]) == (True, 6)


def test_otherwise_belongs_to_the_block_before() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": I64}, [I64]) as b:
        (x,) = b.parameters
        count = b.variable(0)
        with b.when(x > 0):
            count.value += 1
        with b.otherwise():
            count.value -= 1
        with b.when(x > 10):
            count.value += 10
        b.ret(count.value)
    run = Both(program.module)
    assert [run("f", x) for x in (-1, 1, 11)] == [(-1,), (1,), (11,)]


def refused(write: Callable[[FunctionCode, Record, Expr], object]) -> str:
    def written(b: FunctionCode, book: Record, x: Expr) -> None:
        write(b, book, x)

    with pytest.raises((TypeError, AssertionError, AttributeError)) as caught:
        text_of(written)
    return str(caught.value)


def test_numbers_of_the_function_decide_nothing_in_python() -> None:
    message = "what a native function computes isn't known while it is written: use `when` or `select`"
    assert refused(lambda b, book, x: x == 3 and x) == message
    assert refused(lambda b, book, x: 3 if book.count > x else 4) == message
    assert refused(lambda b, book, x: min(x, book.count)) == message
    assert refused(lambda b, book, x: list(x)) == "'Expr' object is not iterable"  # type: ignore[call-overload]
    assert refused(lambda b, book, x: [*book.levels]) == "'ArrayField' object is not iterable"  # type: ignore[misc]


def test_what_has_no_such_part_is_refused() -> None:
    assert refused(lambda b, book, x: x.qty) == "'Expr' object has no attribute 'qty'"  # type: ignore[attr-defined]
    assert refused(lambda b, book, x: setattr(book, "best", 3)) == f"{LEVEL} is no number"
    assert refused(lambda b, book, x: select(x > 0, 1, 2)) == "two constants"
    assert refused(lambda b, book, x: b.otherwise().__enter__()) == "no `when` stands before"
