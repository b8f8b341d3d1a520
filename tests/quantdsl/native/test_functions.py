"""Host functions written with the builder: control flow, memory, optionals, enums, calls, failures on the way up."""

import ctypes
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.backends.native.compile import compile_module
from compiler.diagnostics import ZyntaxError
from compiler.hir.layout import new_memory, numpy_dtype, size_of
from compiler.hir.module import OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_expressions import Number, muldiv, select
from compiler.hir.native_types import F32, F64, I1, I8, I16, I32, I64, I128, U8, U64, enum, optional, struct
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from compiler.hir.types import Array, Pointer, Tile
from compiler.hir.verify import verify
from compiler.source import Span
from quantdsl.native.values import match, read_optional, some
from tests.quantdsl.native.both import Both

LEVELS = (OptimizationLevel.O0, OptimizationLevel.O1, OptimizationLevel.O3, OptimizationLevel.OLATENCY)
INTS64 = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1, 2**32, -(2**31)]))


def write_all(program: ModuleBuilder) -> None:
    with program.function("clip", {"x": I64, "low": I64, "high": I64}, [I64]) as b:
        x, low, high = b.parameters
        with b.when(x < low):
            b.ret(low)
        with b.otherwise(), b.when(x > high):
            b.ret(high)
        b.ret(x)
    with program.function("muldiv", {"a": I64, "b": I64, "c": I64}, [I64]) as b:
        b.ret(muldiv(*b.parameters, "nearest_even"))
    with program.function("muldiv_u", {"a": U64, "b": U64, "c": U64}, [U64]) as b:
        b.ret(muldiv(*b.parameters, "floor"))
    with program.function("magnitude", {"a": I32}, [I32]) as b:
        b.ret(abs(b.parameters[0]))
    with program.function("negated", {"a": I8}, [I8]) as b:
        b.ret(-b.parameters[0])
    with program.function("collatz", {"n": I64}, [I64]) as b:
        n, steps = b.variable(b.parameters[0]), b.variable(0)
        with b.repeat():
            with b.when(n.value <= 1):
                b.break_()
            steps.value += 1
            with b.when(n.value % 2 == 0):
                n.value /= 2
                b.continue_()
            n.value = n.value * 3 + 1
        b.ret(steps.value)
    with program.function("factorial", {"n": I64}, [I64]) as b:
        (n,) = b.parameters
        with b.when(n <= 1):
            b.ret(1)
        (below,) = b.call("factorial", n - 1)
        b.ret(n * below)


@pytest.fixture(scope="module")
def run() -> Both:
    program = ModuleBuilder("functions")
    write_all(program)
    return Both(program.module, LEVELS)


@given(x=INTS64, low=INTS64, high=INTS64)
@settings(max_examples=40, deadline=None)
def test_branches_that_return(run: Both, x: int, low: int, high: int) -> None:
    assert run("clip", x, low, high) == (low if x < low else high if x > high else x,)


@given(a=INTS64, b=INTS64, c=INTS64)
@settings(max_examples=60, deadline=None)
def test_a_product_divided_needs_only_its_result_to_fit(run: Both, a: int, b: int, c: int) -> None:
    exact = round(Fraction(a * b, c)) if c else None
    fits = exact is not None and -(2**63) <= exact < 2**63
    found = run("muldiv", a, b, c)
    assert found == ((exact,) if fits else ("0806", "muldiv", 0, (a, b, c)))


def test_a_product_of_the_largest_unsigned() -> None:
    program = ModuleBuilder("p")
    write_all(program)
    run = Both(program.module)
    top = 2**64 - 1
    assert run("muldiv_u", top, top, top) == (top,)
    assert run("muldiv_u", top, top, top - 1)[0] == "0806"
    assert run("muldiv_u", top, 3, 4) == (3 * top // 4,)


def test_negation_and_magnitude_stop_at_the_lowest(run: Both) -> None:
    assert run("magnitude", -(2**31))[:2] == ("0806", "magnitude")
    assert run("magnitude", -(2**31) + 1) == (2**31 - 1,)
    assert run("negated", -128) == ("0806", "negated", 0, (0, -128))
    assert run("negated", -127) == (127,)


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 27, 97, 2**62 + 1])
def test_loops_without_bound_left_and_continued(run: Both, n: int) -> None:
    m, steps = n, 0
    while m > 1:
        steps += 1
        m = m // 2 if m % 2 == 0 else 3 * m + 1
        if m >= 2**63:
            assert run("collatz", n)[:2] == ("0806", "collatz")
            return
    assert run("collatz", n) == (steps,)


@pytest.mark.parametrize("n", [0, 1, 5, 20, 21, 30])
def test_a_failure_deep_in_calls_comes_up(run: Both, n: int) -> None:
    fits = math.factorial(n) < 2**63
    found = run("factorial", n)
    assert found == (math.factorial(n),) if fits else found[:3] == ("0806", "factorial", 1)
    if not fits:
        assert found[3] == (21, math.factorial(20))


# ---- memory ------------------------------------------------------------------------------------------------------

INNER = struct("inner", flag=I1, small=I8, half=Tile("f16"), brain=Tile("bf16"), wide=I128)
OUTER = struct("outer", a=I16, rows=Array(INNER, 3), single=F32, double=F64, last=U8)


def test_each_type_goes_to_memory_and_back() -> None:
    program = ModuleBuilder("memory")
    with program.function("turn", {"p": Pointer(OUTER), "i": I64}, [I1, I8, F32, F64, U8]) as b:
        p, i = b.parameters
        row = p.rows[i]
        copy = b.local(INNER)
        b.copy(copy, row)
        b.clear(row)
        row.flag = ~copy.flag
        row.small = -copy.small
        row.half = -copy.half
        row.brain = copy.brain + copy.brain
        row.wide = -copy.wide
        p.single *= 0.5
        b.ret(row.flag, row.small, p.single, p.double, p.last)
    run = Both(program.module, LEVELS)
    held = new_memory(OUTER)
    held["a"], held["single"], held["double"], held["last"] = -5, 3.25, math.pi, 200
    held["rows"]["flag"], held["rows"]["small"] = [1, 0, 1], [7, -8, -128]
    held["rows"]["half"] = [1.5, -0.0, np.inf]
    held["rows"]["brain"] = np.array([0x3FC0, 0x0000, 0x7F80])  # 1.5, 0, inf
    held["rows"]["wide"]["low"] = [1, 2**64 - 1, 0]
    assert run("turn", held, 0) == (False, -7, 1.625, math.pi, 200)
    row = held["rows"][0, 0]
    assert (row["half"], row["brain"], row["wide"]["low"], row["wide"]["high"]) == (-1.5, 0x4040, 2**64 - 1, -1)
    assert run("turn", held, 1) == (True, 8, 0.8125, math.pi, 200)
    assert run("turn", held, 2) == ("0806", "turn", 1, (0, -128))
    assert run("turn", held, 3) == ("0801", "turn", 0, (3, 3))
    assert run("turn", held, -1) == ("0801", "turn", 0, (-1, 3))


def test_a_local_is_zero_each_time() -> None:
    program = ModuleBuilder("locals")
    with program.function("f", {"n": I64}, [I64]) as b:
        total = b.variable(0)
        with b.loop(0, b.parameters[0]):
            cells = b.local(Array(I64, 3))
            cells[1] += 1
            total.value += cells[1]
        b.ret(total.value)
    run = Both(program.module, LEVELS)
    assert [run("f", n) for n in (0, 1, 5)] == [(0,), (1,), (5,)]


def test_optionals_in_memory_and_as_values() -> None:
    state = struct("state", last=optional(F64), count=I64)
    program = ModuleBuilder("optionals")
    with program.function("ema", {"s": Pointer(state), "x": F64, "a": F64}, [F64]) as b:
        s, x, a = b.parameters
        held = read_optional(s.last)
        moved = held.value + a * (x - held.value)
        value = select(held.present, moved, x)
        s.last = some(value)
        b.ret(value)
    with program.function("forget", {"s": Pointer(state)}) as b:
        b.clear(b.parameters[0].last)
    with program.function("last", {"s": Pointer(state)}, [F64]) as b:
        held = read_optional(b.parameters[0].last)
        b.ret(select(held.present, held.value, -1.0))
    run, held = Both(program.module, LEVELS), new_memory(state)
    assert run("last", held) == (-1.0,)
    value = None
    for x in (3.0, 5.0, -1.5, 1e300):
        value = x if value is None else value + 0.25 * (x - value)
        assert run("ema", held, x, 0.25) == (value,)
    assert run("last", held) == (value,)
    assert run("forget", held) == () and run("last", held) == (-1.0,)


def test_results_come_from_functions() -> None:
    program = ModuleBuilder("results")
    with program.function("send", {"qty": I64}, [I1, U64, I32], internal=True) as b:
        (qty,) = b.parameters
        with b.when(qty <= 0):
            b.ret(False, 0, 2)
        b.ret(True, (qty + 1000).narrow("u64"), 0)
    with program.function("f", {"qty": I64}, [I64]) as b:
        ok, value, error = b.call("send", b.parameters[0])
        with b.when(ok):
            b.ret(value.narrow("i64"))
        b.ret(-error.cast("i64"))
    run = Both(program.module, LEVELS)
    assert [run("f", qty) for qty in (-1, 0, 1, 50)] == [(-2,), (-2,), (1001,), (1050,)]
    assert run("f", 2**63 - 1)[:2] == ("0806", "send")


def test_enums_with_fields_are_matched() -> None:
    event = enum("event", {"none": [], "trade": [("price", I64), ("qty", I64)], "quote": [("bid", I64), ("ask", I64)]})
    assert [name for name, _ in event.fields] == ["tag", "trade.price", "trade.qty", "quote.bid", "quote.ask"]
    program = ModuleBuilder("enums")
    with program.function("value", {"e": Pointer(event)}, [I64]) as b:
        (e,) = b.parameters
        found = b.variable(-1)

        def find(value: Callable[[], Number]) -> Callable[[], None]:
            return lambda: setattr(found, "value", value())

        cases = {
            0: find(lambda: 0),
            1: find(lambda: e["trade.price"] * e["trade.qty"]),
            2: find(lambda: e["quote.ask"] - e["quote.bid"]),
        }
        match(b, e.tag, cases, rest=find(lambda: -2))
        b.ret(found.value)
    run, held = Both(program.module, LEVELS), new_memory(event)
    held["trade.price"], held["trade.qty"], held["quote.bid"], held["quote.ask"] = 7, 6, 10, 13
    found = []
    for tag in range(4):
        held["tag"] = tag
        found += run("value", held)
    assert found == [0, 42, 3, -2]
    held["tag"], held["trade.qty"] = 1, 2**62
    assert run("value", held) == ("0806", "value", 0, (7, 2**62))


def test_sums_of_128_bits_are_kept_in_memory() -> None:
    sums = struct("sums", notional=I128, quantity=I64)
    program = ModuleBuilder("vwap")
    with program.function("trade", {"s": Pointer(sums), "price": I64, "qty": I64}, [F64]) as b:
        s, price, qty = b.parameters
        product = price.cast("i128").wrapping_mul(qty.cast("i128"))
        s.notional += product
        s.quantity += qty
        b.ret(s.notional.cast("f64") / s.quantity.cast("f64"))
    run, held = Both(program.module, LEVELS), new_memory(sums)
    exact, total = 0, 0
    for price, qty in ((2**62, 2**60), (2**61 + 12345, 2**60), (3, 2**61), (-(2**62), 7)):
        exact, total = exact + price * qty, total + qty
        assert run("trade", held, price, qty) == (float(exact) / float(total),)


def test_places_and_words_of_failures_are_kept() -> None:
    program = ModuleBuilder("sites")
    with program.function("f", {"a": I64}, [I64]) as b:
        with b.place(Span("s.qdsl", 10, 20)):
            first = b.parameters[0] + 1
        with b.place(Span("s.qdsl", 30, 40)):
            b.require(first < 100, first, code="0808", message="{0} is too much", hint="take less")
            b.ret(first * 2)
    module = parse_module(print_module(program.module))
    assert print_module(module) == print_module(program.module)
    run = Both(module)
    sites = module.functions["f"].sites
    assert [(s.code, s.span, s.message, s.hint) for s in sites] == [
        ("0806", Span("s.qdsl", 10, 20), "{0} + {1} does not fit in i64", "i64 holds -9223372036854775808 to 9223372036854775807"),
        ("0808", Span("s.qdsl", 30, 40), "{0} is too much", "take less"),
        ("0806", Span("s.qdsl", 30, 40), "{0} * {1} does not fit in i64", "i64 holds -9223372036854775808 to 9223372036854775807"),
    ]
    assert run("f", 99) == ("0808", "f", 1, (100,))
    assert run("f", 98) == (198,)


class CInner(ctypes.Structure):
    _fields_ = [("flag", ctypes.c_bool), ("small", ctypes.c_int8), ("half", ctypes.c_uint16), ("x", ctypes.c_uint64)]


class COuter(ctypes.Structure):
    _fields_ = [
        ("a", ctypes.c_int16),
        ("rows", CInner * 3),
        ("single", ctypes.c_float),
        ("double", ctypes.c_double),
        ("last", ctypes.c_uint8),
    ]


def test_structs_lie_as_in_c() -> None:
    inner = struct("inner", flag=I1, small=I8, half=Tile("f16"), x=U64)
    outer = struct("outer", a=I16, rows=Array(inner, 3), single=F32, double=F64, last=U8)
    for ours, theirs in ((inner, CInner), (outer, COuter)):
        fields = numpy_dtype(ours).fields
        assert fields is not None and size_of(ours) == ctypes.sizeof(theirs)
        assert {name: fields[name][1] for name, _ in ours.fields} == {name: getattr(theirs, name).offset for name, _ in ours.fields}
    assert size_of(INNER) == 32 and size_of(OUTER) == 144, "128 bits lie at multiples of 16 bytes"


def test_pointers_that_may_share_memory_are_refused() -> None:
    inner = struct("inner", x=I64)
    outer = struct("outer", a=inner, b=inner, many=Array(inner, 4))
    program = ModuleBuilder("alias")
    with program.function("swap", {"p": Pointer(inner), "q": Pointer(inner)}) as b:
        p, q = b.parameters
        held = p.x
        p.x = q.x
        q.x = held
    with program.function("fields", {"o": Pointer(outer)}) as b:
        (o,) = b.parameters
        b.call("swap", o.a, o.b)
        b.call("swap", o.a, o.many[2])
        b.call("swap", b.local(inner), b.local(inner))
    run, held = Both(program.module, LEVELS), new_memory(outer)
    held["a"]["x"], held["b"]["x"], held["many"]["x"] = 1, 2, [3, 4, 5, 6]
    assert run("fields", held) == ()
    assert (held["a"]["x"], held["b"]["x"], held["many"]["x"][0, 2]) == (5, 1, 2)

    with program.function("elements", {"o": Pointer(outer)}) as b:
        b.call("swap", b.parameters[0].many[1], b.parameters[0].many[2])
    with program.function("loose", {"p": Pointer(inner), "q": Pointer(inner)}, attributes=()) as b:
        b.call("swap", *b.parameters)
    with pytest.raises(ZyntaxError) as error:
        verify(program.module)
    assert [d.message.split(" may ")[1] for d in error.value.diagnostics] == ["share memory, which @swap rules out"] * 2


def test_rows_of_an_open_array_are_counted() -> None:
    event = struct("event", price=I64, qty=I32)
    totals = struct("totals", notional=I64)
    program = ModuleBuilder("rows")
    with program.function("total", {"rows": Pointer(Array(event, None)), "count": I64, "t": Pointer(totals)}, [I64]) as b:
        rows, count, t = b.parameters
        with b.loop(0, count) as i:
            row = b.row(rows, i, count)
            product = row.price * row.qty.cast("i64")
            t.notional += product
        b.ret(t.notional)
    with program.function("one", {"rows": Pointer(Array(event, None)), "count": I64, "i": I64}, [I64]) as b:
        rows, count, i = b.parameters
        b.ret(b.row(rows, i, count).price)
    run, rows = Both(parse_module(print_module(program.module)), LEVELS), new_memory(event, 7)
    rows["price"], rows["qty"] = np.arange(7) * 10**12, [3, -1, 0, 5, 2, 1, 1]
    for count in (0, 1, 7):
        assert run("total", rows, count, new_memory(totals)) == (int((rows["price"] * rows["qty"])[:count].sum()),)
    for count, i in ((7, 6), (1, 0)):
        assert run("one", rows, count, i) == (i * 10**12,)
    for count, i in ((7, 7), (7, -1), (0, 0), (-1, 0), (-1, 5)):
        assert run("one", rows, count, i) == ("0801", "one", 0, (i, count))
    rows["price"][3] = 2**62
    late = new_memory(totals)
    assert run("total", rows, 7, late)[0] == "0806" and late["notional"] == -(10**12), "what was written before it stopped stays"


def test_calls_without_end_stop_before_the_stack_does() -> None:
    program = ModuleBuilder("deep")
    for name in ("even", "odd"):
        program.declare(name, {"n": I64}, [I64])
    for name, other, end in (("even", "odd", 1), ("odd", "even", 0)):
        with program.define(name) as b:
            with b.when(b.parameters[0] == 0):
                b.ret(end)
            (below,) = b.call(other, b.parameters[0].wrapping_sub(1))
            b.ret(below ^ 0)
    for level in LEVELS:
        native = compile_module(program.module, level)
        assert native["even"].run([1000]).results == (1,) and native["odd"].run([1000]).results == (0,)
        fault = native["even"].run([-1]).fault
        assert fault is not None and (fault.code, fault.site, fault.values) == ("0808", -1, ())
        assert native["even"].run([3]).results == (0,)


def test_calls_that_end_their_functions_stop_too() -> None:
    """LLVM would make loops of them, which take no stack."""
    program = ModuleBuilder("endless")
    for name in ("same", "other", "nothing"):
        program.declare(name, {"n": I64}, [] if name == "nothing" else [I64])
    for name, called in (("same", "same"), ("other", "same"), ("nothing", "nothing")):
        with program.define(name) as b:
            results = b.call(called, b.parameters[0].wrapping_add(0))
            b.ret(*results)
    for name in ("ping", "pong"):
        program.declare(name, {"n": I64}, [I64])
    for name, called in (("ping", "pong"), ("pong", "ping")):
        with program.define(name) as b:
            b.ret(*b.call(called, b.parameters[0]))
    for level in LEVELS:
        native = compile_module(program.module, level)
        for name in ("same", "other", "nothing", "ping"):
            fault = native[name].run([4]).fault
            assert fault is not None and (fault.code, fault.site, fault.values) == ("0808", -1, ()), name
