"""Where sums may run beside the maximum they read, and why not elsewhere."""

import pytest

from compiler.hir.parse import parse_function
from compiler.passes.online import NotOnline, Online, online

HEAD = "func @f(%X: mem<NxMxf32, readonly>, %V: mem<MxKxf32, readonly>, %out: mem<Nxf32>, %N: index, %M: index, %K: index) form=F \
axes=[i:N, j:M, e:K] {"
X = "%x = load %X[i, j] : tile<i:N, j:M, f32>  %m = reduce max %x over=[j] : tile<i:N, f32>"
EXP = "%d = sub %x, %m : tile<i:N, j:M, f32>  %e1 = exp %d : tile<i:N, j:M, f32>"
SUM = "%s = reduce add {0} over=[j] {1} : tile<i:N, f32>  store %out[i], %s }}"


def found(*lines: str) -> Online | NotOnline:
    return online(parse_function("\n".join([HEAD, X, *lines])), "j")


def test_the_sum_of_a_softmax_is_online() -> None:
    rule = found(EXP, SUM.format("%e1", "reassoc"))
    assert isinstance(rule, Online)
    assert (rule.maximum.results[0].name, [op.results[0].name for op in rule.rescaled], rule.scale, rule.exponential) == (
        "m",
        ["s"],
        None,
        "exp",
    )


def test_a_product_with_values_under_a_scale_is_online() -> None:
    rule = found(
        "%c = const 0.5 : f32  %d = sub %x, %m : tile<i:N, j:M, f32>  %h = mul %d, %c : tile<i:N, j:M, f32>",
        "%e1 = exp2 %h : tile<i:N, j:M, f32>  %v = load %V[j, e] : tile<j:M, e:K, f32>",
        "%r = contract %e1, %v over=[j] to=f32 reassoc contract : tile<i:N, e:K, f32>  %t = reduce add %r over=[e] reassoc : tile<i:N, f32>",
        "store %out[i], %t }",
    )
    assert isinstance(rule, Online)
    assert ([op.results[0].name for op in rule.rescaled], rule.scale is not None, rule.exponential) == (["r"], True, "exp2")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((EXP, SUM.format("%e1", "")), "`%s` along `j` is no sum that may be reassociated"),
        (("%d = sub %x, %m : tile<i:N, j:M, f32>", SUM.format("%d", "reassoc")), "something free of the maximum is added"),
        ((EXP, "%q = mul %e1, %e1 : tile<i:N, j:M, f32>", SUM.format("%q", "reassoc")), "the maximum is in both factors of a product"),
        ((EXP, "%q = div %x, %e1 : tile<i:N, j:M, f32>", SUM.format("%q", "reassoc")), "the maximum is in a divisor"),
        ((EXP, "%q = add %e1, %x : tile<i:N, j:M, f32>", SUM.format("%q", "reassoc")), "something free of the maximum is added"),
        ((EXP, "%q = sqrt %e1 : tile<i:N, j:M, f32>", SUM.format("%q", "reassoc")), "the maximum is used other than in exp(x - maximum)"),
        ((SUM.format("%x", "reassoc"),), "nothing along `j` depends on the maximum"),
    ],
)  # fmt: skip
def test_the_rule_says_why_it_does_not_hold(lines: tuple[str, ...], reason: str) -> None:
    rule = found(*lines)
    assert isinstance(rule, NotOnline)
    assert rule.reason == reason


def test_another_axis_has_no_maximum() -> None:
    function = parse_function("\n".join([HEAD, X, EXP, SUM.format("%e1", "reassoc")]))
    assert online(function, "e").reason == "there is no maximum along `e`"  # type: ignore[union-attr]
