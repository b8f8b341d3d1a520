"""Which names a compute block takes from outside."""

import pytest

from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.walk import walk
from zynml.parse import parse_source


@pytest.mark.parametrize(
    ("block", "free"),
    [
        ("compute(a) { for i in 0..n { out[i] = a[i] * scale } }", ("n", "scale")),
        ("compute(a) { for i in 0..n { var s = s + 1.0\n out[i] = s } }", ("n", "s")),
        ("compute(a) { for i in 0..n { var s = 1.0\n out[i] = s } }", ("n",)),
        ("compute(a) { for i in 0..n { if a[i] > 0.0 { var s = 1.0 }\n out[i] = s } }", ("n", "s")),
        ("compute(a) { for i in 0..i { out[i] = a[i] } }", ("i",)),
        ("compute(a) { for i in 0..n, j in 0..i { out[i, j] = a[i] } }", ("n",)),
        ("compute(a, b = c + d) -> tensor[M, 2 * K] { for i in 0..M { out[i, 0] = b[i] } }", ("M", "K")),
        ("compute(a) -> (y: tensor[M], k: tensor[M]) { for i in 0..M { y[i] = a[i]\n k[i] = out } }", ("M", "out")),
        ("compute(a) @kernel(reduce, mean, axis=d) @tile(r=t) { for i in 0..n { yield a[i] } }", ("d", "t", "n")),
        ("compute(a) @kernel(custom) { shared var bins[w]\n for b in 0..w { bins[b] = f(a[b]) } }", ("w", "f")),
        ("compute(a) { for i in 0..n { let (p, q) = pair(a[i])\n out[i] = p + q } }", ("n", "pair")),
    ],
)
def test_free_names_are_those_that_the_block_does_not_declare(block: str, free: tuple[str, ...]) -> None:
    program = parse_source(Source("program.zynml", f"let r = {block}"))
    [compute] = [node for node in walk(program) if isinstance(node, nodes.Compute)]
    assert free_names(compute) == free
