"""What the PTX of ordinary kernels must have: parameters, bounds, lines of the source, arithmetic as granted, memory of each kind."""

import pytest
from kernels import compiled, lines, pointwise

from compiler.backends.nvptx.compile import KernelParameter, compile_kernels
from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import BINARY, COMPARE, UNARY
from compiler.hir.gpu import GridIndex, SharedAlloc, SyncThreads
from compiler.hir.memory import GlobalRef
from compiler.hir.module import Form, HirGlobal, HirKernelInfo, HirModule, LaunchBounds
from compiler.hir.types import FLOATS, INDEX, Mem, Space, Tile
from compiler.source import Source, Sources, Span


def test_parameters_are_those_of_the_function_then_the_fault_record() -> None:
    f = FunctionBuilder("f", Form.THREAD)
    x = f.parameter("x", Mem("bf16", ["N"], readonly=True, align=16))
    y = f.parameter("y", Mem("f32", ["N"], noalias=False))
    for name, dtype in (("N", "index"), ("flag", "i1"), ("h", "f16"), ("small", "i8"), ("d", "f64")):
        f.parameter(name, Tile(dtype))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    f.body.store(y, f.body.cast(f.body.load(x, ["t"]), "f32"), ["t"])
    module = compiled(f.finish())
    kinds = (("memory", "x", "bf16", 8), ("memory", "y", "f32", 8), ("number", "N", "index", 8), ("number", "flag", "i1", 1))
    kinds += (("number", "h", "f16", 2), ("number", "small", "i8", 1), ("number", "d", "f64", 8), ("fault", "fault", "u64", 8))
    assert module.entry("f").parameters == tuple(KernelParameter(*kind) for kind in kinds)
    expected = [
        ".param .u64 .ptr .global .align 16 f_param_0,",
        ".param .u64 .ptr .global .align 4 f_param_1,",
        ".param .u64 f_param_2,",
        ".param .u8 f_param_3,",
        ".param .u16 f_param_4,",
        ".param .u8 f_param_5,",
        ".param .u64 f_param_6,",
        ".param .u64 .ptr .global .align 8 f_param_7",
    ]
    found = [line for line in lines(module.text) if line.startswith(".param")]
    assert found == [line.replace(".u64 f_param_6", ".f64 f_param_6") for line in expected]


def test_only_readonly_memory_without_aliases_goes_through_the_other_cache() -> None:
    for readonly, noalias, kind in ((True, True, "ld.global.nc.b32"), (True, False, "ld.global.b32")):
        f = FunctionBuilder("f", Form.THREAD)
        x = f.parameter("x", Mem("f32", ["N"], readonly=readonly, noalias=noalias))
        y = f.parameter("y", Mem("f32", ["N"], noalias=noalias))
        f.parameter("N", INDEX)
        f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
        f.body.store(y, f.body.load(x, ["t"]), ["t"])
        assert f"{kind} %r, [%rd];" in lines(compiled(f.finish()).text)


def test_launch_bounds() -> None:
    function = pointwise("f", lambda b, v: b.add(v[0], v[0]), "f32")
    function.kernel_info = HirKernelInfo(workgroup=(32, 4, 2), launch_bounds=LaunchBounds(256, 3), max_registers=64)
    text = compiled(function).text
    assert all(line in text for line in (".reqntid 32, 4, 2", ".minnctapersm 3", ".maxnreg 64"))
    function.kernel_info = HirKernelInfo(launch_bounds=LaunchBounds(512))
    assert ".maxntid 512" in compiled(function).text
    function.kernel_info = HirKernelInfo(workgroup=(64, 32, 1))
    with pytest.raises(ZyntaxError) as raised:
        compiled(function)
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0502", "`f` asks for 2048 threads a block")
    assert diagnostic.hint == "a block has at most 1024 threads"


def test_products_and_sums_fuse_only_where_granted() -> None:
    for flags, fused in ((("contract",), True), ((), False)):
        function = pointwise("f", lambda b, v, flags=flags: b.add(b.mul(v[0], v[1], flags=flags), v[2], flags=flags), "f32", 3)
        text = compiled(function).text
        assert ("fma.rn.f32" in text) is fused
        assert ("mul.rn.f32" in text and "add.rn.f32" in text) is not fused


def test_approximations_only_where_granted() -> None:
    for operator, word in (("exp", "ex2.approx.f32"), ("log", "lg2.approx.f32"), ("tanh", "ex2.approx.ftz.f32"), ("rsqrt", "rsqrt.approx.f32")):
        assert word in compiled(pointwise("f", lambda b, v, o=operator: b.op(o, v[0], flags=("afn",)), "f32")).text
        exact = compiled(pointwise("f", lambda b, v, o=operator: b.op(o, v[0]), "f32")).text
        assert "approx" not in exact.replace("rcp.approx.ftz.f32", "")  # a reciprocal that corrections round
    # f64 has none
    assert "approx" not in compiled(pointwise("f", lambda b, v: b.op("exp", v[0], flags=("afn",)), "f64")).text


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_all_arithmetic_is_selected_and_calls_nothing_outside(arch: str) -> None:
    functions = []
    for dtype in ("f64", "f32", "f16", "bf16", "f8e4m3", "i8", "u16", "i32", "u64"):
        floating = dtype in FLOATS
        for operator in (*UNARY, *BINARY, *COMPARE):
            bits = operator in ("and", "or", "xor", "shl", "shr", "not", "popcount", "leading_zeros", "trailing_zeros")
            of_both = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc")
            only_floats = operator in ("atan2",) or (operator in UNARY and operator not in of_both and not bits)
            if bits if floating else only_floats:
                continue
            count = 1 if operator in UNARY else 2
            functions.append(pointwise(f"{operator}_{dtype}", lambda b, v, o=operator: b.op(o, *v), dtype, count))
    module = compile_kernels(functions, gpu_target(arch))
    assert len(module.entries) == len(functions)
    assert ".extern" not in module.text


def test_indices_are_64_bits_wide() -> None:
    f = FunctionBuilder("f", Form.THREAD)
    y = f.parameter("y", Mem("f32", ["M", "N"]))
    f.parameter("M", INDEX), f.parameter("N", INDEX)
    f.body.emit(GridIndex(operator="block_idx", dim="x"), "b")
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    f.body.store(y, f.body.const(1.0), ["b", "t"])
    found = lines(compiled(f.finish()).text)
    assert any(line.startswith(("mul.lo.s64", "mad.lo.s64")) for line in found)
    assert not any(line.startswith(("mul.lo.s32", "mad.lo.s32")) for line in found)


def test_lines_of_the_source_are_in_the_ptx() -> None:
    text = "let x = 1\nlet y = compute(x) {\n    out[i] = x[i] + x[i]\n}\n"
    f = FunctionBuilder("f", Form.THREAD)
    x, out = f.parameter("x", Mem("f32", ["N"], readonly=True)), f.parameter("out", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    f.body.span = Span("dir/a.zynml", text.index("out[i]"), text.index("\n}"))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    value = f.body.load(x, ["t"])
    f.body.store(out, f.body.add(value, value), ["t"])
    function = f.finish()
    ptx = compile_kernels(function, gpu_target("sm_90a"), Sources(Source("dir/a.zynml", text))).text
    assert '.file 1 "dir/a.zynml"' in lines(ptx)
    assert ".loc 1 3 5" in " ".join(lines(ptx))
    assert ".target sm_90a\n" in ptx
    assert ".loc" not in compiled(function).text


def test_a_table_of_literals_lies_in_constant_memory() -> None:
    mem = Mem("f16", (3,), space=Space.CONSTANT, readonly=True)
    f = FunctionBuilder("f", Form.THREAD)
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    table = f.body.emit(GlobalRef(name_="table", type=mem)).result
    f.body.store(f.parameter("out", Mem("f16", (3,))), f.body.load(table, ["t"]), ["t"])
    module = HirModule("m", globals={"table": HirGlobal("table", mem, (1.0, -2.0, 0.5))})
    module.add(f.finish())
    ptx = compile_kernels(module, gpu_target("sm_80")).text
    assert ".const .align 16 .b8 zyn_table_table[6] = {0, 60, 0, 192, 0, 56};" in lines(ptx)
    assert "ld.const" in ptx


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_table_of_large_angles_lies_there_too(dtype: str) -> None:
    found = lines(compiled(pointwise("f", lambda b, v: b.op("cos", v[0]), dtype)).text)
    assert any(line.startswith(".const .align 8 .b8 zyn_two_over_pi[") for line in found)
    assert any(line.startswith("ld.const.b64") for line in found)
    assert not any(line.startswith("cvta") for line in found)


def test_a_table_larger_than_constant_memory_is_global() -> None:
    mem = Mem("f32", (16385,), space=Space.CONSTANT, readonly=True)
    f = FunctionBuilder("f", Form.THREAD)
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    table = f.body.emit(GlobalRef(name_="table", type=mem)).result
    f.body.store(f.parameter("out", Mem("f32", (16385,))), f.body.load(table, ["t"]), ["t"])
    module = HirModule("m", globals={"table": HirGlobal("table", mem, tuple(range(16385)))})
    module.add(f.finish())
    ptx = compile_kernels(module, gpu_target("sm_80")).text
    assert ".global .align 16 .b8 zyn_table_table[65540]" in ptx and "ld.const" not in ptx


def shared(elements: int) -> FunctionBuilder:
    f = FunctionBuilder("f", Form.THREAD)
    s = f.body.emit(SharedAlloc(type=Mem("f32", (elements,), space=Space.SHARED)), "s").result
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    f.body.store(s, f.body.const(1.0), ["t"])
    f.body.emit(SyncThreads())
    f.body.store(f.parameter("out", Mem("f32", (128,))), f.body.load(s, [127 - Affine.of("t")]), ["t"])
    return f


def test_shared_memory_past_48_kib_is_dynamic() -> None:
    small = compiled(shared(12288).finish()).entry("f")
    assert (small.shared_bytes, small.dynamic_bytes) == (49152, 0)
    module = compiled(shared(12289).finish())
    assert (module.entry("f").shared_bytes, module.entry("f").dynamic_bytes) == (0, 50176)
    assert ".extern .shared .align 1024 .b8 zyn_dynamic_shared[];" in module.text


@pytest.mark.parametrize(("arch", "limit"), [("sm_75", 65536), ("sm_80", 166912), ("sm_86", 101376), ("sm_90a", 232448), ("sm_120", 101376)])
def test_more_shared_memory_than_the_target_has_is_refused(arch: str, limit: int) -> None:
    assert compiled(shared(limit // 4).finish(), arch).entry("f").dynamic_bytes == limit
    with pytest.raises(ZyntaxError) as raised:
        compiled(shared(limit // 4 + 1).finish(), arch)
    (diagnostic,) = raised.value.diagnostics
    (use,) = diagnostic.notes
    assert use.endswith(f" takes {limit + 4} bytes")
    message = f"a block needs {limit + 4} bytes of shared memory; `{arch}` has {limit}"
    assert (diagnostic.code, diagnostic.message, diagnostic.hint) == ("0503", message, f"make {use.split()[0]} smaller")


def test_vectors_of_16_bytes_are_loaded_and_stored_whole() -> None:
    f = FunctionBuilder("f", Form.THREAD, {"simd": 4})
    x = f.parameter("x", Mem("f32", ["N"], readonly=True, align=16))
    y = f.parameter("y", Mem("f32", ["N"], align=16))
    f.parameter("N", INDEX)
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    place = Affine.of("t") * 4 + "simd"
    value = f.body.load(x, [place])
    f.body.store(y, f.body.add(value, value), [place])
    found = lines(compiled(f.finish()).text)
    assert any(line.startswith(("ld.global.nc.v4.b32 {", "ld.global.nc.v2.b64 {")) for line in found)
    assert any(line.startswith(("st.global.v4.b32 [", "st.global.v2.b64 [")) for line in found)


def test_names_that_ptx_does_not_take_are_changed_and_stay_apart() -> None:
    functions = [pointwise(name, lambda b, v: b.add(v[0], v[0]), "f32") for name in ("a-b", "a.b", "1x", "é")]
    module = compile_kernels(functions, gpu_target("sm_75"))
    assert [entry.symbol for entry in module.entries] == ["a_b", "a_b_1", "_1x", "_"]
    assert module.entry("a.b").symbol == "a_b_1"


def test_host_instructions_are_refused() -> None:
    from compiler.hir.control import Call

    f = FunctionBuilder("f", Form.THREAD)
    f.body.emit(Call(function="g"))
    with pytest.raises(ZyntaxError) as raised:
        compiled(f.finish())
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0109", "the instruction `call` isn't supported yet by the NVPTX back end")


def test_a_kernel_of_every_target_is_deterministic() -> None:
    for arch in PTX_VERSIONS:
        first, second = (compiled(pointwise("f", lambda b, v: b.op("exp", v[0]), "f64"), arch).text for _ in range(2))
        assert first == second


@pytest.mark.parametrize(("arch", "native"), [("sm_89", False), ("sm_90", True)])
@pytest.mark.parametrize(("dtype", "pair"), [("f8e4m3", "e4m3x2"), ("f8e5m2", "e5m2x2")])
def test_floats_of_8_bits_are_rounded_once_and_by_an_instruction_that_has_them(arch: str, native: bool, dtype: str, pair: str) -> None:
    text = compiled(pointwise("f", lambda b, v: b.add(v[0], v[0]), dtype), arch).text
    assert (f"cvt.rn.f16x2.{pair}" in text) is native
    assert text.count(f"cvt.rn.satfinite.{pair}.f32") == int(native)
