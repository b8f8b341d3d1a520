"""The verifier: each fault alone, in the words it is told in; and that it tells all faults of a module at once."""

import pytest

from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.control import For, If, While, Yield
from compiler.hir.core import Binary, Const
from compiler.hir.instruction import Region, Value
from compiler.hir.module import Form, HirFunction
from compiler.hir.parse import parse_function, parse_module
from compiler.hir.types import F32, INDEX, Tile
from compiler.hir.verify import faults, verify

PARAMETERS = "%A: mem<Nx4xf32>, %S: mem<8xf32, shared>, %N: index, %a: f32, %d: f64, %x: i32, %p: i1"


def of(body: str, form: str = "A", axes: str = "") -> list[str]:
    return faults(parse_function(f"func @f({PARAMETERS}) form={form} {axes} {{ {body} }}"))


@pytest.mark.parametrize(
    "body,words",
    [
        ("%r = add %a, %d : f32", "`add`: operands of f32 and f64"),
        ("%r = and %a, %a : f32", "`and`: bits of a float"),
        ("%r = add %a, %a : f64", "`add` gives f32, but its results are f64"),
        ("%r = sqrt %x : i32", "`sqrt`: a function of floats on i32"),
        ("%r = not %a : f32", "`not`: bits of a float"),
        ("%r = fma %a, %a, %d : f32", "`fma`: operands of f32 and f64"),
        ("%r = select %x, %a, %a : f32", "`select`: a condition of type i32"),
        ("%r = select %p, %a, %d : f32", "`select`: operands of f32 and f64"),
        ("%r = cast %a to=f31 : f32", "`cast`: f31 is no scalar type"),
        ("%r = bitcast %a to=f64 : f64", "`bitcast`: f32 and f64 differ in width"),
        ("%r = combine median %a, %a : f32", "`combine`: no monoid median"),
        ("%r = combine argmin %a, %a : f32", "`combine`: `argmin` without an index"),
        ("%r, %s = combine argmin %a, %x, %x, %a : f32, i32", "`combine`: two elements of different types"),
        ("%r = scan add %a over=[i] : f32", "`scan`: over ['i']: one axis of the operand is wanted"),
        ("%r = contract %a, %a over=[k] : f32", "`contract`: no operand varies along k"),
        ("%r = contract %a, %a, %d : f32", "`contract`: an accumulator of f64 for a result of f32"),
        ("%r = take %a axis=i at=0 : f32", "`take`: %a doesn't vary along i"),
        ("%r = lt %a, %a : f32", "`lt` gives i1, but its results are f32"),
        ("%r = load %A[0] : f32", "`load`: 1 indices for %A of rank 2"),
        ("%r = load %A[0, x] : f32", "`load` names %x of type i32; only an index may stand in an affine form"),
        ("%r = load %A[0, q] : f32", "`load` names q, which is not in scope"),
        ("for i in 0..N { } %r = load %A[0, i] : f32", "`load` names i, which is not in scope"),
        ("for i in 0..N { %q = neg %a : f32 } %r = neg %q : f32", "`neg` uses %q, but it isn't defined before"),
        ("if %p { %q = neg %a : f32 } else { %r = neg %q : f32 }", "`neg` uses %q, but it isn't defined before"),
        ("store %A[0, 0], %d", "`store`: a f64 stored to mem<Nx4xf32>"),
        ("%s = slot %a : slot<f32> set %s, %d", "`set`: a f64 set to slot<f32>"),
        ("%r = load %a[0] : f32", "`load` has an operand of a wrong kind (%a is no memory: f32)"),
        ("%r = neg %A : mem<Nx4xf32>", "`neg`: %A is no number: mem<Nx4xf32>"),
        ("for i in 0..N step 0 { }", "`for`: a step of 0"),
        ("for i in 0..M { }", "`for` names M, which is not in scope"),
        ("%r = for i in 0..N carry(%c = %a) { }", "`for`: a region that gives values doesn't end with `yield`"),
        ("%r = for i in 0..N carry(%c = %a) { yield %d }", "`for`: yields f64 where f32 is carried"),
        ("%r = for i in 0..N carry(%c = %a) { if %p { break } yield %c }", "`break` in a loop that carries values"),
        ("break", "`break` outside a loop"),
        ("for i in 0..N { break %r = neg %a : f32 }", "`break` is not the last of its region"),
        ("if %x { }", "`if` asks %x of type i32; i1 is wanted"),
        ("%r = if %p : f32 { yield %a }", "`if`: results without an else"),
        ("while { } do { }", "`while`: the first region doesn't end with `condition`"),
        ("while { condition %x } do { }", "`condition` asks %x of type i32; i1 is wanted"),
        ("condition %p", "`condition` outside the first region of a `while`"),
        ("yield %a", "`yield` of values outside a loop or `if`"),
        ("return %a", "returns f32 where nothing is declared"),
        ("%t = thread_idx x : index", "`thread_idx` in form A; it needs threads"),
        ("sync_threads", "`sync_threads` in form A; it needs threads"),
        ("%r = ring.make : ring<2 x (f32)>", "`ring.make` in form A; rings are for tiles"),
        ("%r = reduce sum %a over=[] : f32", "`reduce`: no monoid sum"),
        ("%r = reduce add %a over=[i] : f32", "`reduce`: no operand varies along i"),
        ("%t = alloc : mem<Qx4xf32, local>", "the type of %t names Q, which is not in scope"),
        ("%t = alloc : mem<4x4xf32, strides=[1], local>", "%t has 2 dims and 1 strides"),
    ],
)
def test_form_a(body: str, words: str) -> None:
    assert words in of(body)


@pytest.mark.parametrize(
    "body,words",
    [
        ("%s = slot %a : slot<f32>", "`slot` in form F; slots are for form A and threads"),
        ("for t in 0..N { break }", "`break` in form F; only loops in time can be left"),
        ("%t = load %A[i, 0] : tile<i:8, f32>", "%t gives axis i the extent 8, the function N"),
        ("%t = load %A[i, 0] : f32", "`load` gives tile<i:N, f32>, but its results are f32"),
        ("%t = load %A[i, 0] : tile<i:N, f32> store %A[0, 0], %t", "`store`: axis i of %t isn't in the index"),
        ("%z = const 0.0 : tile<w:4, f32>", "%z varies along w, which is no axis of the function"),
        ("%r = lane : index", "`lane` in form F; it needs threads"),
    ],
)
def test_form_f(body: str, words: str) -> None:
    assert words in of(body, "F", "axes=[i:N, j:4]")


@pytest.mark.parametrize(
    "body,words",
    [
        ("%r = thread_idx w : index", "`thread_idx`: dimension w: not one of x, y, z"),
        ("fence galaxy", "`fence`: scope galaxy: not one of thread, block, device, system"),
        ("sync_threads id=16", "`sync_threads`: barrier 16: a block has barriers 0 to 15"),
        ("sync_threads count=33", "`sync_threads`: a barrier of 33 threads: not a multiple of 32"),
        ("%s = shared_alloc : mem<4xf32>", "`shared_alloc`: mem<4xf32> is not in shared memory"),
        ("%s = shared_alloc : mem<Nxf32, shared>", "`shared_alloc`: shared memory of an extent that isn't constant"),
        (
            "%r = atomic nand %A[0, 0], %a : f32",
            "`atomic`: operation nand: not one of add, sub, min, max, and, or, xor, exchange, cas, inc, dec",
        ),
        ("%r = atomic and %A[0, 0], %a : f32", "`atomic`: bits of a float"),
        ("%r = atomic inc %A[0, 0], %a : f32", "`atomic`: `inc` on f32: only on u32"),
        ("%r = atomic add %A[0, 0], %d : f32", "`atomic`: a f64 on mem<Nx4xf32>"),
        ("%r = atomic cas %A[0, 0], %a : f32", "`atomic`: `compare` belongs to `cas`, and `cas` needs it"),
        ("%r = atomic add %A[0, 0], %a order=late : f32", "`atomic`: order late: not one of relaxed, acquire, release, acq_rel, seq_cst"),
        ("%r = atomic add %A[0], %a : f32", "`atomic`: 1 indices for %A of rank 2"),
        ("%r = shuffle left %a, %x : f32", "`shuffle`: mode left: not one of idx, up, down, xor"),
        ("%r = shuffle up %a, %x width=5 : f32", "`shuffle`: a width of 5: not a power of two up to 32"),
        ("%r = shuffle up %a, %N : f32", "`shuffle`: a lane of type index: i32 is wanted"),
        ("%r = vote any %x : i1", "`vote`: a predicate of type i32: i1 is wanted"),
        ("%r = redux add %a : f32", "`redux`: a f32: only i32 and u32"),
        ("async_copy %S[0], %A[0, 0] bytes=3", "`async_copy`: 3 bytes: 4, 8 or 16"),
        ("async_copy %A[0, 0], %S[0]", "`async_copy`: copies go from global to shared memory"),
        ("async_copy %S[0], %A[0, 0] hint=l9", "`async_copy`: cache hint l9: not one of default, l1, l2, streaming"),
        ("%r = mma_load diagonal %A[0, 0] : fragment<a, 16x16x16, f32>", "`mma_load`: layout diagonal: not one of row, col"),
        ("%r = mma_load row %A[0, 0] : fragment<a, 16x16x16, f16>", "`mma_load`: a fragment of f16 from mem<Nx4xf32>"),
        ("%r = mma %a, %a, %a : f32", "`mma`: %a is f32, where a fragment of role a is wanted"),
        ("%r, %s, %t = ldmatrix %S[0] count=3 : u32, u32, u32", "`ldmatrix`: 3 matrices: 1, 2 or 4"),
        ("setmaxnreg inc registers=7", "`setmaxnreg`: 7 registers: 24 to 256 by 8"),
        ("%b = mbar.make : barrier<2> mbar.wait %b[2], %x", "`mbar.wait`: barrier 2 of 2"),
        ("mbar.arrive %x[0]", "`mbar.arrive`: %x is i32, not a barrier"),
    ],
)
def test_form_c(body: str, words: str) -> None:
    assert words in of(body, "C")


def test_tiles_have_constant_extents() -> None:
    assert of("", "B", "axes=[i:N]") == ["axis i of form B has the extent N, which isn't constant"]
    assert of("", "F", "axes=[i:M]") == ["the extent of axis i names M, which is no size of the function"]
    assert of("", "A", "axes=[i:4]") == ["form A has no axes"]


def test_names_are_unique() -> None:
    a = Value("a", F32)
    function = HirFunction("f", [a, Value("a", F32)])
    assert faults(function) == ["the name a is given twice"]
    function = HirFunction("f", [a], form=Form.TILE, axes={"a": Affine.of(3)})
    assert faults(function) == ["the name a is given twice"]


def test_a_use_of_another_functions_value_is_seen() -> None:
    stranger = Value("a", F32)
    op = Binary(operator="add", left=stranger, right=stranger)
    op.results.append(Value("r", F32, op))
    function = HirFunction("f", [Value("a", F32)], Region([], [op]))
    assert faults(function) == ["`add` uses %a, but another value has its name"] * 2


def test_the_body_of_a_while_sees_what_its_condition_computed() -> None:
    verify(parse_function(f"func @f({PARAMETERS}) form=A {{ while {{ %q = not %p : i1 condition %q }} do {{ %r = not %q : i1 }} }}"))


def test_a_loop_needs_its_variable() -> None:
    loop = For(low=Affine.of(0), high=Affine.of(3))
    assert "a loop's variable is the first parameter of its region, of type index" in faults(HirFunction("f", body=Region([], [loop])))
    bad = For(low=Affine.of(0), high=Affine.of(3), body=Region([Value("i", F32)]))
    assert "a loop's variable is the first parameter of its region, of type index" in faults(HirFunction("f", body=Region([], [bad])))


def test_parameters_match_what_is_carried() -> None:
    const = Const(value=0.0, type=F32)
    zero = Value("z", F32, const)
    const.results.append(zero)
    inner = Value("c", Tile("f64"))
    loop = For(carried=(zero,), low=Affine.of(0), high=Affine.of(3), body=Region([Value("i", INDEX), inner], [Yield(values=(zero,))]))
    loop.results.append(Value("r", F32, loop))
    assert faults(HirFunction("f", body=Region([], [const, loop]))) == ["`for` carries f32 into parameters of f64"]


def test_instructions_without_results_have_none() -> None:
    op = If(condition=Value("p", Tile("i1")))
    op.results.append(Value("r", F32, op))
    assert "`if` gives nothing, but its results are f32" in faults(HirFunction("f", [op.condition], Region([], [op])))
    assert "`while`: the first region doesn't end with `condition`" in faults(HirFunction("f", body=Region([], [While()])))


def test_all_faults_of_a_module_come_at_once() -> None:
    module = parse_module("""module @m version=1 {
      export @x = @nowhere
      gpu archs=[sm_90a] ptx=[8, 6] capability=[9, 0] entries=[ghost]
      func @f(%a: f32) form=A results=[f32] { %r = call @g(%a) : f64 return %r }
      func @g(%a: i32) form=A results=[f32] { call @h() return }
    }""")
    with pytest.raises(ZyntaxError) as error:
        verify(module)
    assert {d.code for d in error.value.diagnostics} == {"0901"}
    assert [d.message for d in error.value.diagnostics] == [
        "in @f: calls @g with f32, which takes i32",
        "in @f: @g doesn't give f64",
        "in @f: returns f64 where f32 is declared",
        "in @g: calls @h, which is not in the module",
        "in @g: returns nothing where f32 is declared",
        "@nowhere is exported, but not in the module",
        "the GPU data name @ghost, which is not in the module",
    ]
