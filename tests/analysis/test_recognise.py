"""What a field computes, and promises that are kept or broken."""

from nests import kernel, nest, words

from compiler.analysis.dependence import analyse
from compiler.analysis.lift import Refused, lift
from compiler.analysis.promise import check_promise
from compiler.analysis.recognise import FieldFacts, FieldKind, Window, recognise
from compiler.diagnostics import Diagnostic
from compiler.typed_ast.kernel import KernelType

ZERO = frozenset({"out"})
SAME = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<NxMxf32>"
ROW = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
PRODUCT = "M: index; N: index; K: index; A: mem<MxKxf32, readonly>; B: mem<KxNxf32, readonly>; out: mem<MxNxf32>"
SUM = "%o = load %out[{0}] : f32 %s = add %o, %p reassoc store %out[{0}], %s"
MATMUL = f"""for i in 0..M {{ for j in 0..N {{ for k in 0..K {{ %a = load %A[i, k] : f32 %b = load %B[k, j] : f32 %p = mul %a, %b
    {SUM.format("i, j")} }} }} }}"""
BATCHED = f"""for b in 0..B {{ for i in 0..M {{ for j in 0..N {{ for k in 0..K {{ %x = load %P[b, i, k] : f32 %y = load %Q[b, j, k] : f32
    %p = mul %x, %y {SUM.format("b, i, j")} }} }} }} }}"""
BATCHES = "B: index; M: index; N: index; K: index; P: mem<BxMxKxf32, readonly>; Q: mem<BxNxKxf32, readonly>; out: mem<BxMxNxf32>"
WINDOW = f"""for i in 0..H {{ for j in 0..W {{ for r in 0..3 {{ for t in 0..3 {{ %x = load %X[2*i+r, j+2*t-1] pad=0.0 : f32
    %y = load %F[r, t] : f32 %p = mul %x, %y {SUM.format("i, j")} }} }} }} }}"""
WINDOWS = "H: index; W: index; X: mem<(2*H+2)xWxf32, readonly>; F: mem<3x3xf32, readonly>; out: mem<HxWxf32>"
SCORES = "%g = const 0.0 : f32 %a{0} = slot %g : slot<f32> for d{0} in 0..D {{ %q{0} = load %Q[i, d{0}] : f32 \
    %k{0} = load %K[{1}, d{0}] : f32 %p{0} = mul %q{0}, %k{0} %o{0} = get %a{0} : f32 %n{0} = add %o{0}, %p{0} reassoc set %a{0}, %n{0} }} \
    %s{0} = get %a{0} : f32"
ATTENTION = (
    "for i in 0..S { %low = const -inf : f32 %m = slot %low : slot<f32> %zero = const 0.0 : f32 %l = slot %zero : slot<f32>"
    "for j in 0..T { " + SCORES.format(1, "j").replace("%g ", "%g1 ").replace("%g :", "%g1 :").replace("slot %g ", "slot %g1 ")
    + " %mo = get %m : f32 %mn = max %mo, %s1 set %m, %mn }"
    "for t in 0..T { " + SCORES.format(2, "t").replace("%g ", "%g2 ").replace("slot %g ", "slot %g2 ")
    + " %m2 = get %m : f32 %f2 = sub %s2, %m2 %e2 = exp %f2 %lo = get %l : f32 %ln = add %lo, %e2 reassoc set %l, %ln }"
    "for e in 0..E { %r = slot %zero : slot<f32> for u in 0..T { " + SCORES.format(3, "u").replace("%g ", "%g3 ").replace("slot %g ", "slot %g3 ")
    + " %m3 = get %m : f32 %f3 = sub %s3, %m3 %e3 = exp %f3 %l3 = get %l : f32 %w3 = div %e3, %l3 %v3 = load %V[u, e] : f32"
    " %x3 = mul %w3, %v3 %r3 = get %r : f32 %y3 = add %r3, %x3 reassoc set %r, %y3 } %z = get %r : f32 store %out[i, e], %z } }"
)  # fmt: skip
HEADS = "S: index; T: index; D: index; E: index; Q: mem<SxDxf32, readonly>; K: mem<TxDxf32, readonly>; V: mem<TxExf32, readonly>; \
    out: mem<SxExf32>"


def facts(text: str, parameters: str) -> FieldFacts:
    return recognise(lift(nest(text, parameters), ZERO))


def broken(text: str, parameters: str, kind: KernelType) -> tuple[Diagnostic, ...]:
    lowered = kernel(text, parameters, kind)
    try:
        field = lift(lowered.function, ZERO)
    except Refused:
        field = None
    return check_promise(lowered, analyse(lowered.function), field)


def test_a_contraction_names_its_axes_and_layouts() -> None:
    found = facts(MATMUL, PRODUCT)
    (one,) = found.products
    assert found.kind is FieldKind.CONTRACTION
    assert (one.batch, one.m, one.n, one.k, one.transposed_a, one.transposed_b) == ((), ("i",), ("j",), ("k",), False, False)


def test_a_batch_and_a_transposed_operand_are_seen() -> None:
    (one,) = facts(BATCHED, BATCHES).products
    assert (one.batch, one.m, one.n, one.k, one.transposed_a, one.transposed_b) == (("b",), ("i",), ("j",), ("k",), False, True)


def test_windows_tell_stride_dilation_and_padding() -> None:
    found = facts(WINDOW, WINDOWS)
    assert found.kind is FieldKind.CONVOLUTION
    assert found.products[0].windows == (Window("i", "r", 2, 1, 0), Window("j", "t", 1, 2, 1))


def test_attention_is_two_products_joined_by_a_softmax() -> None:
    found = facts(ATTENTION, HEADS)
    assert found.kind is FieldKind.ATTENTION
    assert found.attention is not None
    assert found.attention.maximum is not None
    assert (found.attention.scores.k, found.attention.weighted.n) == (("d1",), ("e",))


def test_maps_permutations_and_reductions_are_told_apart() -> None:
    assert (
        facts("for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32 %y = exp %x store %out[i, j], %y } }", SAME).kind is FieldKind.MAP
    )
    turned = SAME.replace("out: mem<NxMxf32>", "out: mem<MxNxf32>")
    assert facts("for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32 store %out[j, i], %x } }", turned).kind is FieldKind.PERMUTE
    total = "for i in 0..N { for j in 0..M { %p = load %X[i, j] : f32 " + SUM.format("i") + " } }"
    assert facts(total, ROW).kind is FieldKind.REDUCTION


def test_kept_promises_say_nothing() -> None:
    assert broken(MATMUL, PRODUCT, KernelType.MATMUL) == ()
    assert broken(BATCHED, BATCHES, KernelType.BATCHED_MATMUL) == ()
    assert broken(WINDOW, WINDOWS, KernelType.CONV2D) == ()
    assert broken(ATTENTION, HEADS, KernelType.ATTENTION) == ()
    assert broken(ATTENTION, HEADS, KernelType.FUSED) == ()


def test_a_batched_product_is_no_matmul() -> None:
    (found,) = broken(BATCHED, BATCHES, KernelType.MATMUL)
    assert words(found) == [
        "ZYN0403: `@kernel(matmul)` promises a sum over one index of products of two tensors, and this is a batched_matmul",
        "`b` indexes both tensors and is kept",
        "hint: write `@kernel(batched_matmul)`, or leave the kind out: it is inferred",
    ]


def test_a_matmul_is_no_batched_one() -> None:
    (found,) = broken(MATMUL, PRODUCT, KernelType.BATCHED_MATMUL)
    assert words(found) == [
        "ZYN0403: `@kernel(batched_matmul)` promises a matrix product for each element of a batch, and this is a matmul",
        "no index is a batch: none is in both tensors and in the result",
        "hint: write `@kernel(matmul)`, or leave the kind out: it is inferred",
    ]


def test_a_sum_is_not_elementwise() -> None:
    text = "for i in 0..N { for j in 0..M { %p = load %X[i, j] : f32 " + SUM.format("i") + " } }"
    (found,) = broken(text, ROW, KernelType.ELEMENTWISE)
    assert words(found) == [
        "ZYN0403: `@kernel(elementwise)` promises each element from inputs at its own place, and this is a reduction",
        "`j` is in no index of the write: its iterations are joined by a sum",
        "hint: leave the kind out: it is inferred",
    ]


def test_a_map_is_no_matmul_and_a_matmul_no_convolution_nor_attention() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32 %y = exp %x store %out[i, j], %y } }"
    assert [d.label for d in broken(text, SAME, KernelType.MATMUL)] == ["no loop sums up products of two tensors"]
    assert [d.label for d in broken(MATMUL, PRODUCT, KernelType.CONV2D)] == [
        "`k` is summed over, but shares no index with an axis of the result"
    ]
    assert [d.label for d in broken(MATMUL, PRODUCT, KernelType.ATTENTION)] == ["there is one sum of products, attention has two"]


def test_a_window_is_no_matmul() -> None:
    assert [d.label for d in broken(WINDOW, WINDOWS, KernelType.MATMUL)] == ["`i` and `r` index one axis together"]


def test_an_iteration_on_scalars_is_elementwise() -> None:
    text = """for i in 0..N { %x = load %X[i] : f32 %s = slot %x : slot<f32> for t in 0..8 { %o = get %s : f32 %q = mul %o, %o %a = add %q, %x
        set %s, %a } %r = get %s : f32 store %out[i], %r }"""
    assert broken(text, "N: index; X: mem<Nxf32, readonly>; out: mem<Nxf32>", KernelType.ELEMENTWISE) == ()


def test_a_nest_without_a_field_is_judged_from_its_loops() -> None:
    text = "for i in 0..N { %x = load %X[i] : f32 %z = const 0.0 : f32 %p = gt %x, %z : i1 check %p store %out[i], %x }"
    (found,) = broken(text, "N: index; X: mem<Nxf32, readonly>; out: mem<Nxf32>", KernelType.MATMUL)
    assert words(found) == [
        "ZYN0403: `@kernel(matmul)` promises a sum over one index of products of two tensors",
        "no loop sums up products of two tensors",
        "hint: leave the kind out: it is inferred",
    ]


def test_attention_is_seen_when_all_extents_are_equal() -> None:
    text = ATTENTION
    for size in "TDE":
        text = text.replace(f"0..{size}", "0..S")
    square = "S: index; Q: mem<SxSxf32, readonly>; K: mem<SxSxf32, readonly>; V: mem<SxSxf32, readonly>; out: mem<SxSxf32>"
    found = facts(text, square)
    assert found.attention is not None
    assert (found.attention.scores.k, found.attention.weighted.k) == (("d1",), ("j",))
