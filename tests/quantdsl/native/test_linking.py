"""Modules that call each other: linked as machine code, merged for the interpreter, and what linking refuses."""

import math
from typing import Any

import numpy as np
import pytest

from compiler.backends.native.compile import compile_module, link_modules
from compiler.backends.native.facts import from_json, to_json
from compiler.diagnostics import ZyntaxError
from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.control import Attempt
from compiler.hir.merge import merged
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_expressions import minimum
from compiler.hir.native_types import F32, F64, I1, I8, I64, U8, U32, U64, struct
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from compiler.hir.types import Array, Pointer
from compiler.hir.verify import verify

STATE = struct("state", total=I64, calls=I64)
OPAQUE = struct("opaque", bytes=Array(U8, 8))
EVERY = {"a": I8, "b": U32, "c": F64, "d": F32, "e": I1, "f": U64}
LEVELS = [OptimizationLevel.O0, OptimizationLevel.OLATENCY]


def engine() -> HirModule:
    """Calls `on.event` of the program n times, and counts the failures that it caught; `stop` refuses 3."""
    program = ModuleBuilder("engine")
    program.imported("on.event", {"state": Pointer(OPAQUE), "number": I64})
    program.imported("mirror", EVERY, [*EVERY.values(), I64])
    with program.function("clip", {"x": I64}, [I64], internal=True) as b:
        b.ret(minimum(b.parameters[0], 100))
    with program.function("run", {"state": Pointer(OPAQUE), "n": I64}, [I64]) as b:
        state, n = b.parameters
        failures = b.variable(0)
        with b.loop(0, *b.call("clip", n)) as number, b.when(b.attempt("on.event", state, number)):
            failures.value += 1
        b.ret(failures.value)
    with program.function("once", {"state": Pointer(OPAQUE), "number": I64}, [I64]) as b:
        b.call("on.event", *b.parameters)
        b.ret(1)
    with program.function("reflect", EVERY, [*EVERY.values(), I64]) as b:
        b.ret(*b.call("mirror", *b.parameters))
    with program.function("stop", {"number": I64}, [I64]) as b:
        (number,) = b.parameters
        b.require(number != 3, number, code="0807", message="{0} is refused")
        b.ret(number)
    return program.module


def strategy() -> HirModule:
    program = ModuleBuilder("strategy")
    program.imported("stop", {"number": I64}, [I64])
    with program.function("clip", {"x": I64}, [I64], internal=True) as b:
        b.ret(b.parameters[0] * (1 << 60))
    with program.function("on.event", {"state": Pointer(STATE), "number": I64}) as b:
        state, number = b.parameters
        state.calls += 1
        (clipped,) = b.call("clip", *b.call("stop", number))
        state.total += clipped
    with program.function("mirror", EVERY, [*EVERY.values(), I64]) as b:
        b.ret(*b.parameters, -7)
    return program.module


def interpreted(name: str, *arguments: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """The results, and the failures that were caught."""
    module, caught = merged(engine(), strategy()), []
    run = finish(Translator(module.functions[name], module), {}, {"caught": caught})
    return run(*prepare(module.functions[name], arguments)), caught


def test_both_modules_are_well_formed_and_read_back() -> None:
    for module in (engine(), strategy()):
        verify(module)
        assert print_module(parse_module(print_module(module))) == print_module(module)


@pytest.mark.parametrize("level", LEVELS)
def test_failures_of_another_module_are_caught(level: OptimizationLevel) -> None:
    linked = link_modules([compile_module(engine(), level), compile_module(strategy(), level)])
    state = np.zeros(2, np.int64)
    # 0 + 1 + 2 + 4 times 2**60 fits; 3 is refused; from 5 on the sum doesn't fit, from 8 on the product doesn't
    outcome = linked["run"].run([state, 10])
    assert outcome.results == (6,) and outcome.fault is None
    assert list(state) == [7 << 60, 10], "what was written before a failure stays"
    caught = outcome.caught
    assert caught is not None and (caught.module, caught.function, caught.values) == ("strategy", "clip", (9, 1 << 60))
    other = np.zeros(2, np.int64)
    results, failures = interpreted("run", other, 10)
    assert results == (6,) and list(other) == list(state)
    assert [(f.code, f.values) for f in failures] == [
        ("0807", (3,)),
        *(("0806", (7 << 60, n << 60)) for n in (5, 6, 7)),
        *(("0806", (n, 1 << 60)) for n in (8, 9)),
    ]
    assert failures[-1].function == "strategy.clip", "the engine has a clip of its own"


def test_a_failure_goes_through_all_modules() -> None:
    linked = link_modules([compile_module(engine()), compile_module(strategy())])
    outcome = linked["once"].run([np.zeros(2, np.int64), 3])
    assert outcome.fault is not None and outcome.caught is None
    assert (outcome.fault.code, outcome.fault.module, outcome.fault.function, outcome.fault.values) == ("0807", "engine", "stop", (3,))
    site = linked.site(outcome.fault)
    assert site is not None and site.message == "{0} is refused"
    assert linked["once"].run([np.zeros(2, np.int64), 4]).results == (1,)


def test_numbers_of_every_type_cross_over() -> None:
    linked = link_modules([compile_module(strategy()), compile_module(engine())])
    for values in (
        (-128, 2**32 - 1, math.pi, 0.5, True, 2**64 - 1),
        (127, 0, -0.0, -1e30, False, 0),
        (-1, 7, math.inf, 1.0, True, 1 << 63),
    ):
        expected = (*values[:3], float(np.float32(values[3])), *values[4:], -7)
        assert repr(linked["reflect"].run(values).results) == repr(expected)
        assert repr(interpreted("reflect", *values)[0]) == repr(expected)


def test_a_linked_module_needs_no_hir() -> None:
    class Stored:
        def __init__(self, module: HirModule) -> None:
            made = compile_module(module)
            self.object, self.facts = made.object, from_json(to_json(made.facts))

    linked = link_modules([Stored(engine()), Stored(strategy())])
    assert linked["once"].run([np.zeros(2, np.int64), 5]).results == (1,)
    assert "once" in linked and "clip" not in linked


def refusal(*modules: HirModule) -> str:
    with pytest.raises(ZyntaxError) as error:
        link_modules([compile_module(module) for module in modules])
    assert error.value.diagnostics[0].code == "0901"
    return error.value.diagnostics[0].message


def test_what_linking_refuses() -> None:
    assert refusal(engine()) == "engine imports @on.event, which no module exports"
    assert refusal(engine(), engine()) == "two functions are called @run"
    with pytest.raises(ZyntaxError) as error:
        merged(engine())
    assert error.value.diagnostics[0].message == "engine imports @on.event, which no module exports"
    other = ModuleBuilder("strategy")
    with other.function("on.event", {"state": Pointer(STATE), "number": F64}):
        pass
    with other.function("mirror", EVERY, [*EVERY.values(), I64]) as b:
        b.ret(*b.parameters, 0)
    assert refusal(engine(), other.module) == "engine imports @on.event of (ptr, i64), which is exported of (ptr, f64)"
    twin = ModuleBuilder("engine")
    with twin.function("nothing", {}):
        pass
    assert refusal(twin.module, ModuleBuilder("engine").module) == "modules of one name: engine, engine"


def test_nothing_of_the_process_is_found_that_was_not_allowed() -> None:
    program = ModuleBuilder("m")
    program.external("malloc", {"size": I64}, [I64], effects="alloc")
    with program.function("take", {"size": I64}, [I64]) as b:
        b.ret(*b.call("malloc", b.parameters[0]))
    made = compile_module(program.module)

    class Quiet:
        """As if it had never said that it calls malloc."""

        object = made.object
        facts = from_json({**to_json(made.facts), "calls": ["memset"]})

    with pytest.raises(ZyntaxError) as error:
        link_modules([Quiet()])
    assert error.value.diagnostics[0].message == "the code of m calls malloc"
    assert link_modules([made])["take"].run([8]).results != (0,)


def test_an_attempt_of_what_gives_values_is_refused() -> None:
    module = engine()
    loop = next(op for op in module.functions["run"].body.body if op.regions)
    attempt = next(op for op in loop.walk() if isinstance(op, Attempt))
    attempt.function = "stop"
    with pytest.raises(ZyntaxError) as error:
        verify(module)
    assert "attempts @stop, which is one that gives values" in str(error.value)


def test_an_attempt_of_what_cannot_fail() -> None:
    program = ModuleBuilder("m")
    with program.function("nothing", {"p": Pointer(STATE)}, internal=True) as b:
        b.parameters[0].calls = 5
    with program.function("f", {"p": Pointer(STATE)}, [I1]) as b:
        b.ret(b.attempt("nothing", b.parameters[0]))
    state = np.zeros(2, np.int64)
    assert compile_module(program.module)["f"].run([state]).results == (False,) and state[1] == 5


def test_cycles_count_on() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {}, [I64, I64]) as b:
        b.ret(b.cycles(), b.cycles())
    first, second = compile_module(program.module)["f"].run([]).results
    assert second >= first > 0
    run = finish(Translator(program.module.functions["f"], program.module), {})
    first, second = run()
    assert second >= first
