"""What the verifier says of host functions that are wrong."""

import numpy as np
import pytest

from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I64, struct
from compiler.hir.parse import parse_function
from compiler.hir.types import Pointer
from compiler.hir.verify import faults
from tests.quantdsl.native.both import Both

STRUCT = "struct<S; a: i64, b: array<3 x i32>>"
HEAD = f"func @f(%s: ptr<{STRUCT}>, %o: ptr<array<open x i64>>, %x: i64, %y: i32, %w: i128, %d: f64, %p: i1)"


@pytest.mark.parametrize(
    "line,words",
    [
        ("%r = checked add %x, %y site=0 : i64", "`checked`: operands of i64 and i32"),
        ("%r = checked add %d, %d site=0 : f64", "`checked`: operands of f64 and f64"),
        ("%r = checked pow %x, %x site=0 : i64", "`checked`: no operation pow"),
        ("%r = checked div %w, %w site=0 : i128", "`checked`: div of i128; `quotient` divides by 64 bits"),
        ("%r = checked add %x, %x site=1 : i64", "`checked` names site 1, and the function has 1"),
        ("%r = saturating div %x, %x : i64", "`saturating`: no operation div"),
        ("%r = saturating add %w, %w : i128", "`saturating`: operands of i128 and i128"),
        ("%r = narrow %x to=f32 site=0 : f32", "`narrow`: f32 is no int type"),
        ("%r = narrow %d to=i128 site=0 : i128", "`narrow`: a float to i128"),
        ("%r = quotient %w, %w rounding=floor site=0 : i128", "`quotient`: i128 divided by i128"),
        ("%r = quotient %x, %x rounding=down site=0 : i64", "`quotient`: no rounding down"),
        ("%r = div %w, %w : i128", "`div`: `div` of i128; `quotient` divides by 64 bits"),
        ("%r = cast %d to=i128 : i128", "`cast`: f64 to i128; go through f64 or 64 bits"),
        ("%r = cast %w to=f32 : f32", "`cast`: i128 to f32; go through f64 or 64 bits"),
        (
            "%m = member b %s : ptr<array<3 x i32>> %r = read %m : array<3 x i32>",
            "`read`: array<3 x i32> is no number; `copy` takes whole structs and arrays",
        ),
        ("%m = member a %s : ptr<i64> write %m, %y", "`write`: a i32 written to ptr<i64>"),
        ("%m = member a %s : ptr<i64> copy %s, %m", f"`copy`: ptr<i64> copied to ptr<{STRUCT}>"),
        ("%r = element %o, %x site=0 : ptr<i64>", "`element`: no count for array<open x i64>"),
        ("%r = element %o, %x, %y site=0 : ptr<i64>", "`element`: a count of type i32"),
        ("%r = element %o, %d, %x site=0 : ptr<i64>", "`element`: an index of type f64"),
        ("%r = local : ptr<array<9000 x i64>>", "`local`: 72000 bytes on the stack, which has room for 65536 of one value"),
        ("%r = local : ptr<ptr<i64>>", "`local`: no memory for ptr<ptr<i64>>"),
        (f"%r = if %p : ptr<{STRUCT}> {{ yield %s }} else {{ yield %s }}", "`if` hands on %r; a pointer stays where it is made"),
        ("return %s", "`return` hands on %s; a pointer stays where it is made"),
    ],
)
def test_mistakes_are_named(line: str, words: str) -> None:
    assert words in faults(parse_function(f'{HEAD} form=A {{ site 0806 "s" {line} }}'))


def test_a_field_that_is_not_there() -> None:
    found = faults(parse_function(f"{HEAD} form=A {{ %r = member z %s : ptr<i64> }}"))
    assert found == ["`member` has an operand of a wrong kind ('z')"]


def test_kernels_have_none_of_it() -> None:
    text = "func @f() form=A kernel=[entry=true, kind=custom] { %r = local : ptr<i64> }"
    assert faults(parse_function(text)) == ["`local` is for host functions, which have form A"]


def test_a_function_may_end_in_branches_that_return() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"s": Pointer(struct("S", a=I64)), "x": I64}, [I64]) as b:
        s, x = b.parameters
        with b.when(x > 0):
            b.ret(1)
        with b.otherwise():
            with b.when(x == 0):
                b.ret(0)
            with b.otherwise():
                b.ret(s.a)
    run = Both(program.module)
    assert [run("f", np.array([7]), x) for x in (5, 0, -5)] == [(1,), (0,), (7,)]
