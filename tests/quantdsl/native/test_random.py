"""Random host functions: native code of several levels against the interpreter, on edge values; results, failures and memory must agree."""

import random

import pytest

from compiler.hir.host import CHECKED, ROUNDINGS, SATURATING
from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, NativeVariable, muldiv, select
from compiler.hir.native_types import F64, I1, I16, I64, U8, struct
from compiler.hir.numbers import limits
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from compiler.hir.types import Array, Pointer
from tests.quantdsl.native.both import Both

INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
LEVELS = (OptimizationLevel.O0, OptimizationLevel.O1, OptimizationLevel.OLATENCY)
ROW = struct("row", flag=I1, small=I16, x=F64)
STATE = struct("state", cells=Array(I64, 5), rows=Array(ROW, 3), count=U8)


class Writer:
    """Writes one random function; `others` may be called."""

    def __init__(self, chooser: random.Random, b: FunctionCode, others: list[str]) -> None:
        self.chooser, self.b, self.others = chooser, b, others
        state, *inputs = b.parameters
        self.state = state
        self.variables: dict[str, list[NativeVariable]] = {dtype: [] for dtype in (*INTS, "f64")}
        for value in inputs:
            self.variables[value.dtype].append(b.variable(value))
        for dtype in self.variables:
            self.variables[dtype].append(b.variable(self.constant(dtype)))

    def constant(self, dtype: str) -> Expr:
        if dtype == "f64":
            return self.b.const(self.chooser.choice([0.0, 1.5, -2.25, 1e19, 3.0]), dtype)
        low, high = limits(dtype)
        chosen = self.chooser.choice([0, 1, 2, 3, 7, -1, low, high, high // 2, self.chooser.randint(low, high)])
        return self.b.const(min(max(chosen, low), high), dtype)

    def number(self, dtype: str, depth: int) -> Expr:
        b, chooser = self.b, self.chooser
        kind = chooser.randrange(9 if depth else 3)
        if kind == 0:
            return self.constant(dtype)
        if kind <= 2:
            if dtype == "i64" and chooser.random() < 0.3:
                return self.state.cells[self.index(5, depth)]
            if dtype == "f64" and chooser.random() < 0.3:
                return self.state.rows[self.index(3, depth)].x
            return chooser.choice(self.variables[dtype]).value
        x, y = self.number(dtype, depth - 1), self.number(dtype, depth - 1)
        if kind == 3:
            return select(self.truth(depth - 1), x, y)
        if dtype == "f64":
            return (
                b.arithmetic(chooser.choice(["add", "sub", "mul", "div"]), x, y)
                if kind < 8
                else self.number("i64", depth - 1).cast("f64")
            )
        if kind >= 6 and chooser.random() < 0.95:  # mostly numbers for which the operation has a result
            x, y = x & 15, (y & 3) | 1
            x = x | 8
        match kind:
            case 4:
                return b.wrapping(chooser.choice(["add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr"]), x, y)
            case 5:
                return b.saturating(chooser.choice(SATURATING), x, y)
            case 6:
                return x.quotient(y, chooser.choice(ROUNDINGS)) if chooser.random() < 0.5 else muldiv(x, y, y, "nearest_even")
            case 7:
                other = chooser.choice([*INTS, "f64"])
                held = self.number(other, depth - 1)
                if other != "f64" and chooser.random() < 0.95:
                    held = held & 127
                return held.narrow(dtype) if other != "f64" or chooser.random() < 0.2 else held.cast(dtype)
            case _:
                return b.arithmetic(chooser.choice(CHECKED), x, y)

    def index(self, count: int, depth: int) -> Expr:
        """Mostly inside."""
        if self.chooser.random() < 0.9:
            return self.b.const(self.chooser.randrange(count), "i64")
        return self.number("i64", max(0, depth - 1)) & 7

    def truth(self, depth: int) -> Expr:
        dtype = self.chooser.choice([*INTS, "f64"])
        return self.b.compare(
            self.chooser.choice(["eq", "ne", "lt", "le", "gt", "ge"]), self.number(dtype, depth), self.number(dtype, depth)
        )

    def statement(self, depth: int) -> None:
        b, chooser = self.b, self.chooser
        dtype = chooser.choice([*INTS, "i64", "f64"])
        match chooser.randrange(10):
            case 0 | 1 | 2:
                variable = chooser.choice(self.variables[dtype])
                variable.value = self.number(dtype, 2)
            case 3:
                at = self.index(5, 1)
                self.state.cells[at] = self.number("i64", 2)
            case 4:
                at = self.index(3, 1)
                self.state.rows[at][chooser.choice(["x"])] = self.number("f64", 2)
                at = self.index(3, 1)
                self.state.rows[at].flag = self.truth(1)
            case 5:
                row = b.local(ROW)
                b.copy(row, self.state.rows[self.index(3, 1)])
                row.small += chooser.choice([1, 9000])
                b.copy(self.state.rows[self.index(3, 1)], row)
            case 6 if depth:
                with b.when(self.truth(1)):
                    self.block(depth - 1)
                with b.otherwise():
                    self.block(depth - 1)
            case 7 if depth:
                with b.loop(chooser.randrange(3), chooser.randrange(6)) as i:
                    chooser.choice(self.variables["i64"]).value = i
                    self.block(depth - 1)
                    with b.when(self.truth(1)):
                        b.break_()
            case 8 if self.others:
                arguments = [self.number(p, 1) for p in ("i64", "u8", "f64")]
                values = b.call(chooser.choice(self.others), self.state, *arguments)
                for value in values:
                    chooser.choice(self.variables[value.dtype]).value = value
            case 9 if depth < 2:
                with b.when(self.truth(1)):
                    self.give()
            case _:
                self.state.count = (self.number("i64", 1) & 255).narrow("u8")

    def block(self, depth: int) -> None:
        for _ in range(self.chooser.randint(1, 4)):
            self.statement(depth)

    def give(self) -> None:
        self.b.ret(self.number("i64", 1), self.number("u8", 1), self.number("f64", 1))


def random_program(seed: int) -> ModuleBuilder:
    chooser, program, names = random.Random(seed), ModuleBuilder(f"random{seed}"), []
    for number in range(3):
        name = f"f{number}"
        parameters = {"s": Pointer(STATE), "a": I64, "b": U8, "x": F64}
        with program.function(name, parameters, [I64, U8, F64], internal=number == 0) as b:
            writer = Writer(chooser, b, list(names))
            writer.block(2)
            writer.block(2)
            writer.give()
        names.append(name)
    return program


@pytest.mark.parametrize("seed", range(40))
def test_native_code_does_what_the_interpreter_does(seed: int) -> None:
    program = random_program(seed)
    module = parse_module(print_module(program.module))
    run, chooser = Both(module, LEVELS), random.Random(seed)
    for _ in range(12):
        state = new_memory(STATE)
        state["cells"] = [chooser.choice([0, 1, -1, 5, 2**63 - 1, -(2**63), 1000]) for _ in range(5)]
        state["rows"]["x"] = [chooser.choice([0.0, 2.5, -1e30, 7.0]) for _ in range(3)]
        state["rows"]["small"] = chooser.choice([0, 20000, 32767])
        a = chooser.choice([0, 1, -1, 2, 100, 2**63 - 1, -(2**63)])
        for name in ("f1", "f2"):
            run(name, state, a, chooser.choice([0, 1, 200, 255]), chooser.choice([0.0, 1.0, -3.5, 1e10]))


def test_enough_of_them_run_to_their_end() -> None:
    ended = failed = 0
    for seed in range(6):
        run = Both(random_program(seed).module)
        for a in (0, 1, 2, 3, 100):
            found = run("f1", new_memory(STATE), a, 1, 1.0)
            ended, failed = ended + (len(found) == 3), failed + (len(found) == 4)
    assert ended >= 5 and failed >= 5
