"""Which loops of host functions can run several turns at once, and what stands against it in others."""

from collections.abc import Callable

import pytest

from compiler.analysis.vectorizable import carried
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record
from compiler.hir.native_types import F64, I64, struct
from compiler.hir.types import Array, Pointer

CELL = struct("cell", a=F64, b=F64)
PARAMETERS = {"x": Pointer(Array(F64, 100)), "y": Pointer(Array(F64, 100)), "cells": Pointer(Array(CELL, 100)), "n": I64}
Write = Callable[[FunctionCode, Expr, Expr, Expr, Expr], None]


def found(write: Write, noalias: bool = True, step: int = 1) -> list[str]:
    program = ModuleBuilder("m")
    with program.function("g", {"v": F64}, [F64]) as b:
        b.ret(b.parameters[0])
    with program.function("f", PARAMETERS, attributes=("noalias",) if noalias else ()) as b:
        x, y, cells, _ = b.parameters
        total = b.variable(0.0, "f64")
        b.program.total = total  # type: ignore[attr-defined]
        with b.loop(1, 90, step) as i:
            write(b, x, y, cells, i)
    return [one.words for one in carried(program.module.functions["f"])]


def joined(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    total = b.program.total  # type: ignore[attr-defined]
    total.value += x.unchecked[i] * y.unchecked[i]


def twice(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    joined(b, x, y, cells, i)
    joined(b, y, x, cells, i)


def mixed(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    joined(b, x, y, cells, i)
    total = b.program.total  # type: ignore[attr-defined]
    total.value *= 2.0


def seen(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    joined(b, x, y, cells, i)
    y[i] = b.program.total.value  # type: ignore[attr-defined]


def other(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    total = b.program.total  # type: ignore[attr-defined]
    total.value = total.value * 0.5 + x[i]


def own(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    total = b.program.total  # type: ignore[attr-defined]
    total.value = x[i]
    y[i] = total.value * total.value


def sometimes(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    with b.when(x[i] > 0.0):
        b.program.total.value = x[i]  # type: ignore[attr-defined]


def shifted(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[i] = x[i - 1]


def in_place(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[i] *= 2.0


def apart(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[i] = y[i - 1]


def fields(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    cells[i].a = cells[i + 1].b


def scattered(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[y[i].cast("i64")] = 1.0


def one_place(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[3] = y[i]


def calling(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    b.store(x, i, *b.call("g", y[i]))


def neighbours(b: FunctionCode, x: Record, y: Record, cells: Expr, i: Record) -> None:
    x[i] = 1.0
    x[i + 1] = 2.0


READS, SETS = "one turn reads what another may write", "one turn writes what another may write"
CARRIED = "a turn reads a variable that the turn before set"


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (joined, []),
        (twice, []),
        (mixed, [CARRIED]),
        (seen, [CARRIED]),
        (other, [CARRIED]),
        (own, []),
        (sometimes, ["not every turn sets a variable"]),
        (shifted, [READS]),
        (in_place, []),
        (apart, []),
        (fields, []),
        (scattered, [SETS]),
        (one_place, [SETS]),
        (calling, ["each turn calls `g`"]),
        (neighbours, [SETS]),
    ],
)
def test_what_a_turn_needs_of_another(write: Write, expected: list[str]) -> None:
    assert found(write) == expected


def test_turns_further_apart_than_what_they_touch() -> None:
    assert found(neighbours, step=2) == []
    assert found(neighbours, step=1) == [SETS]


def test_pointers_that_may_be_one() -> None:
    assert found(apart, noalias=False) == [READS]


def test_only_the_innermost_loop_counts() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": Pointer(Array(F64, 100))}) as b:
        (x,) = b.parameters
        with b.loop(0, 10), b.loop(0, 100) as i:
            x[i] *= 2.0
    assert carried(program.module.functions["f"]) == []


def test_a_while_has_no_turns_to_share() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": Pointer(Array(F64, 100))}) as b, b.repeat():
        b.break_()
    assert [one.words for one in carried(program.module.functions["f"])] == ["a `while` ends where its last turn says"]
