"""Compiled modules as a whole: what they call, what they are told, how they are written."""

import math
import re

import numpy as np
import pytest

from compiler.backends.native.compile import ALLOWED, compile_module
from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import interpret
from compiler.hir.layout import new_memory
from compiler.hir.module import HirExecutionConstraints, HirModule, OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import F32, F64, I1, I8, I64, U64, struct
from compiler.hir.types import Array, Pointer

BIG = struct("big", cells=Array(I64, 1000))


def calling() -> ModuleBuilder:
    program = ModuleBuilder("calling")
    program.external("cbrt", {"x": F64}, [F64], effects="none")
    with program.function("root", {"x": F64}, [F64]) as b:
        b.ret(*b.call("cbrt", b.parameters[0]))
    return program


def test_outside_functions_are_called_and_counted() -> None:
    made = compile_module(calling().module)
    assert made.calls == {"cbrt"}
    assert made["root"].run([27.0]).results == (math.cbrt(27.0),)
    assert compile_module(calling().module, allowed=ALLOWED).calls == {"cbrt"}


def test_a_call_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(ZyntaxError) as error:
        compile_module(calling().module, allowed=frozenset({"memset"}))
    assert error.value.diagnostics[0].message == "the code of calling calls cbrt"


def test_critical_code_is_looked_through_once_more() -> None:
    def module(critical: str, effects: str) -> HirModule:
        program = ModuleBuilder("m")
        program.external("cbrt", {"x": F64}, [F64], effects=effects)
        for name, callee in (("inner", "cbrt"), ("outer", "inner"), ("free", None)):
            told = HirExecutionConstraints(critical_path=name == critical)
            with program.function(name, {"x": F64}, [F64], constraints=told, attributes=("noinline",)) as b:
                b.ret(*(b.call(callee, b.parameters[0]) if callee else b.parameters))
        return program.module

    for critical in ("inner", "outer"):
        with pytest.raises(ZyntaxError) as error:
            compile_module(module(critical, "alloc")).object  # noqa: B018  asking for it compiles
        assert error.value.diagnostics[0].message == f"the code of @{critical} calls cbrt"
    assert compile_module(module("free", "alloc"))["outer"].run([-8.0]).results == (-2.0,)
    assert compile_module(module("outer", "none"))["outer"].run([-8.0]).results == (-2.0,)


def test_the_interpreter_has_no_outside_functions() -> None:
    module = calling().module
    with pytest.raises(ZyntaxError) as error:
        interpret(module.functions["root"], [1.0], module)
    assert error.value.diagnostics[0].code == "0109"


def test_clearing_much_is_a_call_of_memset() -> None:
    program = ModuleBuilder("m")
    with program.function("clear", {"p": Pointer(BIG)}) as b:
        b.clear(b.parameters[0])
    made, held = compile_module(program.module, allowed=ALLOWED), new_memory(BIG)
    held["cells"] = 7
    assert made.calls == {"memset"} and made["clear"].run([held]).results == ()
    assert not held["cells"].any()


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_every_level_gives_the_same(level: OptimizationLevel) -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"p": Pointer(BIG), "n": I64}, [I64, F32, I1, U64, I8]) as b:
        p, n = b.parameters
        total = b.variable(0)
        with b.loop(0, n) as i:
            total.value += p.cells[i]
        found = total.value
        b.ret(found, found.cast("f32"), found > 3, found.cast("u64"), found.narrow("i8"))
    made, held = compile_module(program.module, level), new_memory(BIG)
    held["cells"] = np.arange(1000) - 20
    assert made["f"].run([held, 3]).results == (-57, -57.0, False, 2**64 - 57, -57)
    assert made["f"].run([held, 60]).fault is not None, "570 doesn't fit i8"
    fault = made["f"].run([held, 1001]).fault
    assert fault is not None and (fault.code, fault.values) == ("0801", (1000, 1000))
    assert made.asm and made.object and "define" in made.llvm_unoptimised


def test_parameters_of_every_type_arrive() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"a": I8, "b": U64, "c": I1, "d": F32, "e": F64}, [I8, U64, I1, F32, F64]) as b:
        b.ret(*b.parameters)
    made = compile_module(program.module)
    for values in ((-128, 2**64 - 1, True, 0.5, math.pi), (127, 0, False, -1e30, -0.0)):
        assert repr(made["f"].run(values).results) == repr((*values[:3], float(np.float32(values[3])), values[4]))


def test_what_the_critical_path_is_told() -> None:
    program = ModuleBuilder("m")
    told = HirExecutionConstraints(critical_path=True, inline_always=True)
    with program.function("hot", {"x": I64}, [I64], constraints=told) as b:
        b.ret(b.parameters[0] + 1)
    with program.function("rare", {"x": I64}, [I64], attributes=("cold", "noinline")) as b:
        b.ret(*b.call("hot", b.parameters[0]))
    with program.function("calls", {"x": I64}, [I64]) as b:
        b.ret(*b.call("rare", *b.call("hot", b.parameters[0])))
    made = compile_module(program.module)
    text = made.llvm
    assert re.search(r"define [^\n]*@hot\([^\n]*align 64", text), "the entry is aligned"
    body = text[text.index("@calls(") :].split("\n}")[0]
    assert "@zyn.rare" in body and "@zyn.hot" not in body, "cold code stays away, hot code is taken in"
    assert made["calls"].run([5]).results == (7,)


def test_memory_that_does_not_fit_is_refused() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"p": Pointer(BIG)}) as b:
        b.clear(b.parameters[0])
    made = compile_module(program.module)
    for wrong in (np.zeros(999, np.int64), np.zeros(2000, np.int64)[::2], np.zeros(8001, np.uint8)[1:]):
        with pytest.raises(AssertionError):
            made["f"].run([wrong])


@pytest.mark.parametrize(("likely", "weights"), [(True, "i32 1000, i32 1"), (False, "i32 1, i32 1000"), (None, "")])
def test_branches_tell_llvm_how_likely_they_are(likely: bool | None, weights: str) -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"x": I64}, [I64]) as b:
        (x,) = b.parameters
        with b.when(x > 7, likely=likely):
            b.ret(1)
        b.ret(0)
    module = compile_module(program.module)
    assert [line for line in module.llvm_unoptimised.splitlines() if "branch_weights" in line and "1048575" not in line] == (
        [f'!1 = !{{!"branch_weights", {weights}}}'] if weights else []
    )
    assert [module["f"].run([x]).results for x in (7, 8)] == [(0,), (1,)]
