"""Text round trip: of every declared instruction, of every type, of all that functions and modules say about themselves."""

import contextlib
import math
import random

import pytest

from compiler.diagnostics import Label, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.core import BIT_COUNTS, UNARY
from compiler.hir.equal import equal_functions, equal_modules
from compiler.hir.instructions import INSTRUCTIONS
from compiler.hir.module import (
    ArchFamily,
    CallingConvention,
    FaultSite,
    Form,
    GpuArch,
    GpuModuleMetadata,
    HirExecutionConstraints,
    HirExport,
    HirFunction,
    HirGlobal,
    HirImport,
    HirKernelInfo,
    HirModule,
    LaunchBounds,
    Linkage,
    OptimizationLevel,
)
from compiler.hir.parse import parse_function, parse_module, parse_type
from compiler.hir.tensor_core import FRAGMENTS
from compiler.hir.text import print_function, print_module
from compiler.hir.types import F32, INDEX, Array, Barrier, Fragment, FragmentRole, Mem, Pointer, Ring, Slot, Space, Struct, Tile, Token
from compiler.hir.verify import verify
from compiler.source import Span
from compiler.typed_ast.kernel import KernelType

PARAMETERS = (
    "%A: mem<MxNxf32>, %S: mem<64x64xf32, shared>, %H: mem<64x64xf16, shared>, %G: mem<64x64xf16>, %W: mem<64xu32>, %I: mem<Nxi32>, "
    "%M: index, %N: index, %a: f32, %b: f32, %c: f32, %x: i32, %y: i32, %p: i1, %q: i1, %u: u32, %v: u32"
)
FORM_A = """
%r = const 1.5 : f32
%r = const true : i1
%r = const -3 : i64
%s = slot %a : slot<f32>
%s = slot %a : slot<f32> ; set %s, %b ; %g = get %s : f32
%r = load %A[M-1, 2*N+floor((M+1)/2)] where=%p pad=0.5 : f32
store %A[0, N-1], %a where=%p
%t = alloc : mem<MxNxf64, local, align=64>
%t = global table : mem<3xf32, constant, readonly>
check %p, %x, %y code=0806 site=2
check %p
sort %I axis=0 descending=true
%r = isnan %a : i1
%r = fma %a, %b, %c : f32
%r = select %p, %a, %b : f32
%r = cast %a to=bf16 : bf16
%r = bitcast %a to=u32 : u32
%r = index of=2*M-floor((N+3)/4)+1 : index
%r = inbounds of=M-1 below=N : i1
%r = threads : index
%r, %s = combine argmin %a, %x, %b, %y : f32, i32
for i in 0..N step 2 place=thread order="grouped(16)" pipeline=4 turns=true { }
for i in N..-1 step -1 { break }
for i in 0..N { continue }
%r = for i in 0..N carry(%t = %a) place="warp,lane" { yield %t }
if %p { yield } else { return }
if %p unlikely { return }
%r = if %p likely : f32 { yield %a } else { yield %b }
%r, %s = if %p : f32, i32 { yield %a, %x } else { yield %b, %y }
%r = while carry(%t = %x) { %k = lt %t, %y : i1 ; condition %k } do (%w) { %n = add %w, %y : i32 ; yield %n }
%r = call @f(%a, %x) : f32
call @g()
"""
FORM_HOST = """
%r = checked add %x, %y site=0 : i32
%r = saturating mul %x, %y : i32
%r = narrow %a to=u8 site=0 : u8
%r = quotient %x, %y rounding=nearest_even site=0 : i32
%r = local : ptr<struct<S; a: i64, b: array<3 x i32>>> ; %f = member b %r : ptr<array<3 x i32>> ; %e = element %f, %x site=0 : ptr<i32> \
; %w = read %e : i32 ; write %e, %y ; copy %r, %r ; clear %f
%r = local : ptr<array<3 x i32>> ; %e = element %r, %x site=-1 : ptr<i32>
%e = element %o, %x, %n site=0 : ptr<i32>
%d = read_bytes %B, %n, %n to=u16 order=big site=0 : u16
%d = read_bytes %B, %n, %n to=i64 site=-1 : i64
%z = const 10 : u8 ; %m = match_bytes %B, %n, %n, %z, %z site=0 : u64 ; %l = trailing_zeros %m : u64
%t = attempt @g(%o, %x) ; %k = cycles : i64
%k = heap_mark : i64 ; %r = allocate %n site=0 : ptr<array<open x f64>> ; %s = address %r : i64 ; %t = at_address %s : ptr<array<open x f64>> \
; release %k, %s ; release %k
"""
FORM_B = """
%r = reduce add %t over=[j] reassoc : tile<i:8, f32>
%r, %s = reduce argmax %t, %z over=[i, j] : f32, index
%r = scan max %t over=[j] exclusive=true reverse=true reassoc : tile<i:8, j:16, f32>
%r = contract %t, %t over=[j] : tile<i:8, f32>
%r = contract %t, %t, %a over=[i, j] to=f32 flags=[] : f32
%r = take %t axis=j at=M+3 : tile<i:8, f32>
%r = concat %e, %f axis=i : tile<i:16, f32>
%r = stack %a, %b axis=h : tile<h:2, f32>
%r = pack2 %d over=h : tile<i:8, u32>
%r = convert %t layout="i: 16*warp + lane/4" place=shared : tile<i:8, j:16, f32, in shared>
%r = ring.make : ring<4 x (tile<i:8, j:16, f32>, i32)>
%r = ring.make : ring<4 x (tile<i:8, f32>)> ; ring.put %r, %e ; %g = ring.get %r : tile<i:8, f32> ; ring.free %r
role copy { %r = exp %e : tile<i:8, f32> }
"""
FORM_C = """
%r = thread_idx x : index
%r = block_idx y : index
%r = block_dim z : index
%r = grid_dim x : index
%r = lane : index
%r = warp : index
%r = cluster_rank : index
%r = uniform %x : i32
sync_threads id=1 count=128 arrive=true
sync_threads
fence block
warp_sync
warp_sync %x
cluster_sync
cluster_sync writes=false part=arrive
%s = shared_alloc : mem<4xf32, shared> ; cluster_store %s[2], %a, %x where=%p
grid_sync
fence_async
%r = shared_alloc : mem<256xi32, shared, align=16>
%r = dynamic_shared offset=4*M : mem<64x64xf16, shared, swizzle="128B">
%r = atomic add %A[0, N-1], %a order=acq_rel scope=system : f32
%r = atomic cas %W[0], %u compare=%v : u32
%r = shuffle down %a, %x width=16 : f32
%r = vote ballot %p : i32
%r = vote any %p : i1
%r = match all %x : i32
%r = elect : i1
%r = redux max %x : i32
%m = mma_load row %G[0, 16] : fragment<a, 16x16x16, f16>
%m = mma_load row %G[0, 0] : fragment<a, 16x16x16, f16> ; %n = mma_load col %G[0, 0] : fragment<b, 16x16x16, f16> \
; %k = mma_load row %A[0, 0] : fragment<accumulator, 16x16x16, f32> \
; %r = mma %m, %n, %k layout=row.col : fragment<accumulator, 16x16x16, f32> ; mma_store row %A[0, 0], %r
%r, %s = ldmatrix %H[0, 0] count=2 transpose=true : u32, u32
stmatrix %H[0, 0], %u, %v
%r, %s = load_words %G[0, M] valid=%M count=2 : u32, u32
%r = load_words %G[0, 3] count=1 : u32 ; store_words %H[0, 0], %r
%r = permute_bytes %u, %v order=[0, 4, 2, 7] : u32 ; %s = float_pair %r bits=4 least=-8 dtype=bf16 : u32
async_copy %S[0, 0], %A[0, 0] bytes=4 hint=l2 where=%p
async_commit group=1
async_wait count=2
%r = mbar.make : barrier<4> ; mbar.init %r[0] count=2 ; mbar.arrive %r[3] ; mbar.expect %r[M] bytes=4096 ; mbar.wait %r[M], %x \
; bulk_copy.g2s %S[0, 0], %A[0, N], %r[M] box=[8, 16] multicast=3 ; mbar.arrive %r[1] rank=%x
bulk_copy.s2g %S[0, 0], %A[0, N] box=[8, 16]
bulk_copy.s2g %S[0, 0], %A[0, N] box=[8, 16] step=[2, 1]
bulk_commit
bulk_wait count=1 read=true
wgmma.fence
%r = wgmma.mma %a, %H[0, 0], %H[0, 0], %p shape=[64, 256, 16] transpose_b=true : f32
%r = wgmma.mma %a, %u[], %H[0, 0], %p shape=[64, 256, 16] : f32
wgmma.commit
%r = wgmma.wait %a count=1 : f32
setmaxnreg inc registers=232
"""
PLAIN_BINARY = [f"%r = {name} %{a}, %{b} {flags}: {t}" for name, a, b, flags, t in (
    *((n, "a", "b", "reassoc contract ", "f32") for n in ("add", "sub", "mul", "div", "rem", "min", "max", "pow", "atan2")),
    *((n, "x", "y", "", "i32") for n in ("and", "or", "xor", "shl", "shr")),
    *((n, "a", "b", "", "i1") for n in ("eq", "ne", "lt", "le", "gt", "ge")),
)]  # fmt: skip
OF_BITS = sorted({"not", *BIT_COUNTS})
PLAIN_UNARY = [*(f"%r = {name} %a afn : f32" for name in sorted(set(UNARY) - {*OF_BITS})), *(f"%r = {name} %x : i32" for name in OF_BITS)]


def lines_of(block: str) -> list[str]:
    return [line for line in block.splitlines() if line.strip()]


def in_form_a(line: str) -> str:
    return f"func @f({PARAMETERS}) form=A {{ {line.replace(' ; ', ' ')} }}"


def in_form_b(line: str) -> str:
    made = """%t = load %T[i, j] : tile<i:8, j:16, f32> %z = index of=j : tile<j:16, index> %e = load %A[i, 0] : tile<i:8, f32>
    %f = load %A[0, i] : tile<i:8, f32> %d = load %D[i, h] : tile<i:8, h:2, bf16>"""
    extra = "%T: mem<8x16xf32>, %D: mem<8x2xbf16>, "
    return f"func @f({extra}{PARAMETERS}) form=B axes=[i:8, j:16, h:2] {{ {made} {line.replace(' ; ', ' ')} }}"


def in_form_c(line: str) -> str:
    return f"func @f({PARAMETERS}) form=C {{ {line.replace(' ; ', ' ')} }}"


def in_host(line: str) -> str:
    return f'func @f({PARAMETERS}, %o: ptr<array<open x i32>>, %B: ptr<array<open x u8>>, %n: i64) form=A {{ site 0805 "does not fit" {line.replace(" ; ", " ")} }}'


WARP_PRODUCT = f"""func @f({PARAMETERS}) form=C axes=[col:1, half:2, row:1, simd:2] {{
    %z = const 0.0 : tile<col:1, half:2, row:1, simd:2, f32>
    %r = warp_mma %z, %u, %v, %u, %v, %u, %v shape=[16, 8, 16] dtype=bf16 : tile<col:1, half:2, row:1, simd:2, f32> }}"""

SAMPLES = [
    WARP_PRODUCT,
    *map(in_host, lines_of(FORM_HOST)),
    *map(in_form_a, [*lines_of(FORM_A), *PLAIN_BINARY, *PLAIN_UNARY]),
    *map(in_form_b, lines_of(FORM_B)),
    *map(in_form_c, lines_of(FORM_C)),
]


@pytest.mark.parametrize("text", SAMPLES)
def test_samples_round_trip(text: str) -> None:
    function = parse_function(text)
    printed = print_function(function)
    again = parse_function(printed)
    assert print_function(again) == printed
    assert equal_functions(function, again)
    if "call" not in text and "concat" not in text:
        verify(function)


def test_each_declared_instruction_has_a_sample() -> None:
    seen = {op.name for text in SAMPLES for top in parse_function(text).body.body for op in top.walk()}
    assert set(INSTRUCTIONS) - seen == set()


def test_the_printed_form_is_the_documented_one() -> None:
    head = "func @matmul(%A: mem<MxKxbf16>, %B: mem<KxNxbf16>, %C: mem<MxNxf32>, %M: index, %N: index, %K: index)"
    text = (
        f"{head} form=B axes=[i:128, j:256, k:64]"
        + """ {
  for i0 in 0..floor((M+127)/128) place=grid {
    for j0 in 0..floor((N+255)/256) place=grid {
      %z = const 0.0 : tile<i:128, j:256, f32>
      %c = for k0 in 0..floor((K+63)/64) carry(%acc = %z) pipeline=4 roles="copy|compute" {
        %a = load %A[i+128*i0, k+64*k0] pad=0 : tile<i:128, k:64, bf16>
        %b = load %B[k+64*k0, j+256*j0] pad=0 : tile<j:256, k:64, bf16>
        %n = contract %a, %b, %acc over=[k] : tile<i:128, j:256, f32>
        yield %n
      }
      store %C[i+128*i0, j+256*j0], %c
    }
  }
}
"""
    )
    assert print_function(parse_function(text)) == text


TYPES = [
    *(Tile(d) for d in ("i1", "u8", "bf16", "f8e4m3", "index")),
    Tile("f32", (("i", 8), ("j", Affine.of("N") * 2 + 1)), "shared"),
    Mem("f32", ()),
    Mem("index", ("N", 4)),
    Mem("f32", ("max", "x", "inde", 3, Affine.of("N").ceildiv(2), Affine.of("N") - 1)),
    Mem("i1", (4, "N"), strides=("N", Affine.of("N") * 2), space=Space.SHARED, align=128, noalias=False, readonly=True, swizzle="128B"),
    Slot("f64"),
    Ring(3, (Tile("f32", (("i", 4),)), Tile("i32"))),
    Barrier(),
    Barrier(4),
    Token(),
    *FRAGMENTS,
    Fragment(FragmentRole.A, 16, 8, 4, "f64"),
    Pointer(Tile("f32")),
    Pointer(Mem("f32", (3,)), Space.CONSTANT),
    Struct("S", (("a", F32), ("b", Pointer(INDEX)))),
    Struct("Empty", ()),
    Array(Struct("S", (("a", Array(Tile("i128"), 0)), ("b", Tile("u128")))), 4096),
    Pointer(Array(F32, None)),
]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_types_round_trip(type_) -> None:
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize("value", ["0.1", "1e-45", "1e+300", "-0.0", "inf", "-inf", "3.0", "5e-324"])
def test_float_constants_are_exact(value: str) -> None:
    function = parse_function(f"func @f() form=A {{ %r = const {value} : f64 }}")
    again = parse_function(print_function(function)).body.body[0].value
    assert again == float(value) and isinstance(again, float) and math.copysign(1, again) == math.copysign(1, float(value))


def test_nan_stays_nan() -> None:
    function = parse_function("func @f() form=A { %r = const nan : f64 }")
    assert math.isnan(function.body.body[0].value)
    assert equal_functions(function, parse_function(print_function(function)))


def full_module() -> HirModule:
    function = HirFunction(
        "kernel",
        form=Form.THREAD,
        axes={"i": Affine.of(4)},
        results=(),
        kernel_info=HirKernelInfo(
            False,
            KernelType.MATMUL,
            GpuArch(ArchFamily.SM, 90, "a"),
            LaunchBounds(256, 2),
            1024,
            128,
            {Space.GLOBAL, Space.SHARED},
            (16, 16, 1),
            (Affine.of("N").ceildiv(16), Affine.of("N"), Affine.of(1)),
            (2, 1, 1),
            3,
            8,
            False,
            "tf32",
        ),
        constraints=HirExecutionConstraints(True, True, True, True, True, OptimizationLevel.OLATENCY),
        linkage=Linkage.INTERNAL,
        calling_convention=CallingConvention.KERNEL,
        attributes=("hot", "two words"),
        link_name="the_kernel",
        previous_version="kernel.1",
        sites=(
            FaultSite("0801", Span("a b.zynml", 3, 9), 'index {0} of "A"\n\\ is {1}', "here", "try é"),
            FaultSite("0806", None, "division by zero"),
            FaultSite("0411", None, "barrier", others=(Label(Span("a", 1, 2), "here"), Label(Span("b c", 3, 4), 'there "x"'))),
        ),
    )
    external = HirFunction("out", results=(F32, INDEX), linkage=Linkage.EXTERNAL, kernel_info=HirKernelInfo())
    return HirModule(
        "m",
        {"kernel": function, "out": external},
        {"table": HirGlobal("table", Mem("f32", (3,)), (1.0, -0.0, math.inf))},
        {"S": Struct("S", (("a", F32),))},
        (HirImport("f", "other"),),
        (HirExport("k", "kernel"),),
        3,
        frozenset({"other", "b c"}),
        GpuModuleMetadata(
            (GpuArch(ArchFamily.SM, 80), GpuArch(ArchFamily.GFX, 90, "a")), (8, 6), (9, 0), {"tma"}, ("kernel",), ("out",), ("table",)
        ),
    )


def test_all_that_a_module_says_round_trips() -> None:
    module = full_module()
    text = print_module(module)
    again = parse_module(text)
    assert print_module(again) == text
    assert equal_modules(module, again)


def test_equality_sees_each_difference() -> None:
    base = "func @f(%a: f32, %b: f32, %N: index) form=A { %r = sub %a, %b : f32 for i in 0..N { } }"
    function = parse_function(base)
    changes = [
        ("@f", "@g"),
        ("%a, %b", "%b, %a"),
        ("sub", "add"),
        ("0..N", "1..N"),
        ("%r", "%s"),
        ("form=A", "form=C"),
        ("{ }", "{ break }"),
    ]
    for old, new in changes:
        assert not equal_functions(function, parse_function(base.replace(old, new)))
    assert not equal_functions(
        parse_function("func @f() form=A { %r = const 0.0 : f32 }"), parse_function("func @f() form=A { %r = const -0.0 : f32 }")
    )


@pytest.mark.parametrize(
    "text,message,found",
    [
        ("func @f() form=A { %r = foo %a : f32 }", "no instruction is called `foo`", "foo"),
        ("func @f() form=A { %r = neg %a : f32 }", "%a is not defined", "%a"),
        ("func @f(%a: f32, %a: f32) form=A { }", "%a is defined twice", "%a"),
        ("func @f(%a: f33) form=A { }", "no type is called `f33`", "f33"),
        ("func @f(%a: mem<4xf33>) form=A { }", "`f33` is no scalar type", "4"),
        ("func @f() form=Z { }", "no form is called `Z`", "Z"),
        ("func @f() form=A { return", "expected a name, found the end of the text", ""),
        ("func @f(%a: f32) form=A { neg %a : f32 }", "`neg` gives 1 values, and 0 are named", "neg"),
        ("func @f(%a: f32) form=A { %r = neg %a wide=3 : f32 }", "`unary` has no `wide`", "wide"),
        ("func @f() form=A { for i in 0..$ { } }", "expected a name, found `$`", "$"),
        ("func @f() form=A { } func", "expected the end of the text, found `func`", "func"),
        ('func @f() form=A link_name="\\q" { }', "this text has an escape that JSON doesn't know", '"\\q"'),
        ("func @f() form=A { for i in 0..2 step a { } }", "expected an integer, found `a`", "a"),
        ("func @f(%x: i32) form=A { %r = cast %x : f32 }", "`cast` wants `to=`", ":"),
    ],
)
def test_errors_point_into_the_text(text: str, message: str, found: str) -> None:
    with pytest.raises(ZyntaxError) as error:
        parse_function(text, "x.hir")
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0101", message)
    assert diagnostic.span is not None and diagnostic.span.path == "x.hir"
    if found not in (":",):
        assert text[diagnostic.span.start : diagnostic.span.end] == found


def test_a_thousand_regions_deep_is_refused() -> None:
    with pytest.raises(ZyntaxError):
        parse_function("func @f(%p: i1) form=A {" + "if %p { " * 1000 + "} " * 1000 + "}")


def test_damaged_texts_are_refused_in_words_or_read() -> None:
    chooser = random.Random(5)
    pieces = [
        "{",
        "}",
        "%a",
        "=",
        ",",
        ":",
        "..",
        "tile<",
        "mem<4x",
        ">",
        "[",
        "]",
        "-",
        "floor((",
        "ptr<f32, q>",
        "nan",
        '"',
        "1e999",
        "none",
        "@f",
        "",
    ]
    for _ in range(1500):
        text = chooser.choice(SAMPLES)
        at = chooser.randrange(len(text))
        damaged = text[:at] + chooser.choice(pieces) + text[at + chooser.randrange(6) :]
        with contextlib.suppress(ZyntaxError):
            verify(parse_function(damaged))
