"""What host functions may do and cost: ranges of values, bounds of loops, effects with the calls that lead there, the longest way."""

import pytest

from compiler.analysis.host_costs import stack_bytes, worst_case
from compiler.analysis.host_effects import EffectFinding, EffectKind, findings
from compiler.analysis.ranges import MOST_TURNS, Ranges
from compiler.hir.control import For, While
from compiler.hir.module import HirFunction
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_expressions import Expr
from compiler.hir.native_types import F64, I64, U64
from compiler.hir.parse import parse_function, parse_module
from compiler.hir.types import Array, Pointer
from compiler.source import Span
from quantdsl.native.book import ASKS, BIDS, Book
from quantdsl.native.table import NativeTable

# ---- ranges ------------------------------------------------------------------------------------------------------


def value_of(function: HirFunction, name: str) -> Expr:
    return next(r for top in function.body.body for op in top.walk() for r in op.results if r.name == name)


@pytest.mark.parametrize(
    "lines,expected",
    [
        ("%r = const 7 : i64", (7, 7)),
        ("%r = add %b, %b : u8", (0, 255)),
        ("%c = cast %b to=i64 : i64 %r = add %c, %c : i64", (0, 510)),
        ("%c = cast %b to=i64 : i64 %k = const 3 : i64 %r = checked mul %c, %k site=0 : i64", (0, 765)),
        ("%k = const 10 : i64 %r = min %x, %k : i64", (-(2**63), 10)),
        ("%k = const 10 : i64 %z = const 0 : i64 %m = min %x, %k : i64 %r = max %m, %z : i64", (0, 10)),
        ("%k = const 63 : i64 %r = and %x, %k : i64", (0, 63)),
        ("%k = const 10 : i64 %r = rem %x, %k : i64", (-9, 9)),
        ("%k = const 10 : i64 %c = cast %b to=i64 : i64 %r = rem %c, %k : i64", (0, 9)),
        ("%k = const 10 : i64 %c = cast %b to=i64 : i64 %r = div %c, %k : i64", (0, 25)),
        ("%k = const 4 : i64 %c = cast %b to=i64 : i64 %r = shr %c, %k : i64", (0, 15)),
        ("%k = const 3 : i64 %h = const 9 : i64 %r = select %p, %k, %h : i64", (3, 9)),
        ("%r = narrow %x to=i8 site=0 : i8", (-128, 127)),
        ("%r = sub %x, %x : i64", (-(2**63), 2**63 - 1)),
        ("%z = const 2 : i64 %s = slot %z : slot<i64> set %s, %y %c = cast %b to=i64 : i64 set %s, %c %r = get %s : i64", (0, 255)),
        (
            "%z = const 2 : i64 %s = slot %z : slot<i64> %g = get %s : i64 %n = add %g, %z : i64 set %s, %n %r = get %s : i64",
            (-(2**63), 2**63 - 1),
        ),
        ("%r = index of=2*j+1 : index", (1, 21)),
        ("%r = index of=floor((j)/4) : index", (0, 2)),
    ],
)
def test_ranges_follow_from_operands(lines: str, expected: tuple[int, int]) -> None:
    head = 'func @f(%x: i64, %b: u8, %p: i1) form=A { site 0806 "s" %k0 = const 5 : i64 %y = min %k0, %k0 : i64 for j in 0..11 { '
    function = parse_function(head + lines + " } }")
    assert Ranges(function).of(value_of(function, "r")) == expected


@pytest.mark.parametrize(
    "loop,turns",
    [
        ("for i in 0..10", 10),
        ("for i in 10..0", 0),
        ("for i in 0..10 step 3", 4),
        ("for i in 9..-1 step -1", 10),
        ("for i in 9..0 step -4", 3),
        ("for i in 0..b", 255),
        ("for i in b..300", 300),
        ("for i in 0..m", 10),
        ("for i in 0..x", None),
        ("for i in x..10", None),
        (f"for i in 0..{MOST_TURNS}", MOST_TURNS),
        (f"for i in 0..{MOST_TURNS + 1}", None),
    ],
)
def test_turns_of_loops(loop: str, turns: int | None) -> None:
    head = "func @f(%x: index, %b8: u8) form=A { %b = cast %b8 to=index : index %k = const 10 : index %m = min %x, %k : index "
    function = parse_function(f"{head} {loop} {{ }} }}")
    (found,) = [op for op in function.body.body if isinstance(op, For)]
    assert Ranges(function).turns(found) == turns


@pytest.mark.parametrize(
    "lines,rounds",
    [
        ("%g = get %s : slot %c = lt %g, %most : i1 check %c, %g code=0808 site=0 %n = add %g, %one : i64 set %s, %n", 10),
        ("%g = get %s : slot %n = add %g, %one : i64 set %s, %n %c = lt %g, %most : i1 check %c, %g code=0808 site=0", 10),
        ("%g = get %s : slot %c = lt %g, %x : i1 check %c, %g code=0808 site=0 %n = add %g, %one : i64 set %s, %n", None),
        ("%g = get %s : slot %c = lt %g, %most : i1 check %c, %g code=0808 site=0 %n = add %g, %most : i64 set %s, %n", None),
        ("%g = get %s : slot %c = lt %g, %most : i1 check %c, %g code=0808 site=0", None),
        (
            "%g = get %s : slot if %p { continue } %c = lt %g, %most : i1 check %c, %g code=0808 site=0 %n = add %g, %one : i64 set %s, %n",
            None,
        ),
        ("%g = get %s : slot if %p { %c = lt %g, %most : i1 check %c, %g code=0808 site=0 } %n = add %g, %one : i64 set %s, %n", None),
        ("%g = get %s : slot %c = lt %g, %most : i1 check %c, %g code=0808 site=0 if %p { %n = add %g, %one : i64 set %s, %n }", None),
        ("%g = get %s : slot %c = lt %g, %most : i1 check %c, %g code=0808 site=0 %n = add %g, %one : i64 set %s, %n set %s, %most", None),
    ],
)
def test_rounds_of_a_while_that_counts(lines: str, rounds: int | None) -> None:
    head = 'func @f(%x: i64, %p: i1) form=A { site 0808 "s" %zero = const 0 : i64 %one = const 1 : i64 %most = const 10 : i64 '
    head += "%s = slot %zero : slot<i64> while { %t = const true : i1 condition %t } do { if %p { break } "
    function = parse_function(head + lines.replace(": slot", ": i64") + " } }")
    loop = next(op for op in function.body.body if isinstance(op, While))
    assert Ranges(function).rounds(loop) == rounds


def test_an_inner_loop_is_bounded_by_the_outer() -> None:
    function = parse_function("func @f() form=A { for i in 0..8 { for j in i..8 { for k in 0..i+j { } } } }")
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    assert [Ranges(function).turns(loop) for loop in loops] == [8, 8, 14]


# ---- effects -----------------------------------------------------------------------------------------------------


def program() -> ModuleBuilder:
    made = ModuleBuilder("p")
    made.external("malloc", {"n": I64}, [I64], effects="alloc")
    made.external("puts", {"n": I64}, effects="io")
    made.external("sin", {"x": F64}, [F64], effects="none")
    made.external("mystery", {})
    return made


def spans(finding: EffectFinding) -> list[tuple[str, int | None]]:
    return [(step.function, step.span.start if step.span else None) for step in finding.chain]


def at(place: int) -> Span:
    return Span("s.qdsl", place, place + 1)


def test_calls_lead_to_what_is_found() -> None:
    p = program()
    with p.function("inner", {"n": I64}) as b, b.place(at(1)):
        b.call("puts", 1)
        with b.place(at(2)):
            b.call("malloc", b.parameters[0])
    with p.function("middle", {"n": I64}) as b, b.place(at(3)):
        b.call("inner", b.parameters[0])
    with p.function("other", {"n": I64}) as b, b.place(at(4)):
        b.call("middle", b.parameters[0])
        with b.place(at(5)):
            b.call("mystery")
    with p.function("handler", {"n": I64}) as b, b.place(at(6)), b.when(b.parameters[0] > 0):
        b.call("other", 1)
        with b.place(at(7)):
            b.call("middle", 2)
    found = findings(p.module, "handler")
    assert [(f.kind, f.what, spans(f)) for f in found] == [
        (EffectKind.UNKNOWN, "mystery", [("handler", 6), ("other", 5)]),
        (EffectKind.SYSTEM, "puts", [("handler", 7), ("middle", 3), ("inner", 1)]),
        (EffectKind.ALLOCATION, "malloc", [("handler", 7), ("middle", 3), ("inner", 2)]),
    ]
    assert [f.kind for f in findings(p.module, "inner")] == [EffectKind.SYSTEM, EffectKind.ALLOCATION]


def test_a_pure_function_of_c_is_no_finding() -> None:
    p = program()
    with p.function("f", {"x": F64}, [F64]) as b:
        b.ret(*b.call("sin", b.parameters[0]))
    assert findings(p.module, "f") == ()


def test_a_circle_of_calls_is_found_once() -> None:
    p = program()
    for name in ("even", "odd"):
        p.declare(name, {"n": I64}, [I64])
    for place, (name, other) in enumerate((("even", "odd"), ("odd", "even"))):
        with p.define(name, at(place)) as b:
            b.ret(*b.call(other, b.parameters[0] - 1))
    with p.function("start", {"n": I64}, [I64], span=at(9)) as b:
        b.ret(*b.call("even", b.parameters[0]))
    (found,) = findings(p.module, "start")
    assert (found.kind, found.what) == (EffectKind.RECURSION, "even")
    assert spans(found) == [("start", 9), ("even", 0), ("odd", 1)]
    assert worst_case(p.module, "start") is None


def test_loops_without_a_bound_and_memory_of_the_heap() -> None:
    text = """module @m version=1 {
      func @f(%n: index) form=A {
        for i in 0..n { }
        while { %t = const true : i1 condition %t } do { }
        %a = alloc : mem<nxf32, local>
        call @gone()
      }
    }"""
    found = findings(parse_module(text), "f")
    assert [(f.kind, f.what) for f in found] == [
        (EffectKind.UNBOUNDED, "for"),
        (EffectKind.UNBOUNDED, "while"),
        (EffectKind.ALLOCATION, "alloc"),
        (EffectKind.UNKNOWN, "gone"),
    ]


def test_containers_do_nothing_of_the_kind() -> None:
    p, table, book = ModuleBuilder("p"), NativeTable(U64, I64, 100), Book(8)
    with p.function("orders", {"t": Pointer(table.type), "key": U64}) as b:
        table.insert(b, *b.parameters)
        table.remove(b, *b.parameters)
    with p.function("quotes", {"book": Pointer(book.type), "x": I64}) as b:
        for side in (BIDS, ASKS):
            book.update(b, b.parameters[0], side, b.parameters[1], b.parameters[1])
            book.depth_to(b, b.parameters[0], side, b.parameters[1])
    assert findings(p.module, "orders") == findings(p.module, "quotes") == ()
    assert worst_case(p.module, "orders") is not None and worst_case(p.module, "quotes") is not None


# ---- costs -------------------------------------------------------------------------------------------------------


def test_the_longest_way_is_counted() -> None:
    p = ModuleBuilder("p")
    with p.function("f", {"x": I64, "y": I64}, [I64]) as b:
        x, y = b.parameters
        with b.place(at(1)):
            total = b.variable(x + y)
        with b.place(at(2)), b.when(x > y), b.place(at(3)):
            total.value = x / y
        with b.otherwise(), b.place(at(4)):
            total.value = x * y
        with b.place(at(5)), b.loop(0, 10):
            total.value += 1
        b.ret(total.value)
    cost = worst_case(p.module, "f")
    assert cost is not None
    where = {span.start for span in cost.lines if span is not None}
    assert where == {1, 2, 3, 5}, "the branch with the division is the longer one"
    assert cost.costliest(1)[0][0] in (at(3), at(5))
    assert cost.instructions == pytest.approx(sum(cost.lines.values()) * 3, abs=3 * 14 + 1)


def test_more_turns_cost_more_and_calls_count() -> None:
    p = ModuleBuilder("p")
    with p.function("one", {"x": I64}, [I64]) as b:
        b.ret(b.parameters[0] + 1)
    costs = []
    for turns in (0, 1, 10):
        with p.function(f"loop{turns}", {"x": I64}) as b, b.loop(0, turns):
            b.call("one", b.parameters[0])
        cost = worst_case(p.module, f"loop{turns}")
        assert cost is not None
        costs.append(cost.instructions)
    one = worst_case(p.module, "one")
    assert one is not None and one.instructions > 0
    assert costs[2] - costs[0] == 10 * (costs[1] - costs[0]) and costs[1] - costs[0] > one.instructions


def test_what_has_no_place_in_the_file_lies_at_the_call() -> None:
    program = ModuleBuilder("m")
    library, here = Span("<library>", 0, 9), Span("p", 20, 30)
    with program.function("made", {"x": F64}, [F64]) as b:
        b.ret(b.parameters[0] / 3.0)
    with program.function("held", {"x": F64}, [F64]) as b, b.place(library):
        b.ret(*b.call("made", b.parameters[0] * 2.0))
    with program.function("f", {"x": F64}, [F64]) as b:
        with b.place(here):
            found = b.call("held", b.parameters[0])
        b.ret(*found)
    cost = worst_case(program.module, "f")
    assert cost is not None and set(cost.lines) <= {here, None} and cost.lines[here] > 13


def test_locals_of_the_deepest_way_are_added_up() -> None:
    p, cells = ModuleBuilder("p"), Array(I64, 10)
    with p.function("leaf", {}) as b:
        b.local(cells)
    with p.function("middle", {}) as b:
        b.local(I64)
        b.call("leaf")
        b.call("leaf")
    with p.function("top", {}) as b:
        b.call("middle")
        b.local(F64)
    p.declare("circle", {})
    with p.define("circle") as b:
        b.call("circle")
    assert [stack_bytes(p.module, name) for name in ("leaf", "middle", "top", "circle")] == [80, 88, 96, None]
