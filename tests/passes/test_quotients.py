"""A guarded sum of shares is one of weights, divided; a sum of nothing stays 0."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.core import Binary, Reduce
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify
from compiler.passes.quotients import quotients_outside

SHARES = """func @shares(%X: mem<NxMxf64, readonly>, %V: mem<Mxf64, readonly>, %out: mem<Nxf64>, %N: index, %M: index) form=F axes=[i:N, j:M] {
  %none = const -inf : f64
  %zero = const 0.0 : f64
  %row = index of=i : tile<i:N, index>
  %column = index of=j : tile<j:M, index>
  %seen = lt %column, %row : tile<i:N, j:M, i1>
  %x = load %X[i, j] : tile<i:N, j:M, f64>
  %y = select %seen, %x, %none : tile<i:N, j:M, f64>
  %m = reduce max %y over=[j] : tile<i:N, f64>
  %d = sub %x, %m : tile<i:N, j:M, f64>
  %e = exp %d : tile<i:N, j:M, f64>
  %w = select %seen, %e, %zero : tile<i:N, j:M, f64>
  %l = reduce add %w over=[j] reassoc : tile<i:N, f64>
  %p = div TOP, %l : tile<i:N, j:M, f64>
  %v = load %V[j] : tile<j:M, f64>
  %t = mul %p, %v : tile<i:N, j:M, f64>
  %g = select %seen, %t, %zero : tile<i:N, j:M, f64>
  %o = reduce add %g over=[j] reassoc : tile<i:N, f64>
  store %out[i], %o }"""


def test_shares_are_divided_once() -> None:
    field = parse_function(SHARES.replace("TOP", "%e"))
    made = quotients_outside(field)
    verify(made)
    sums = [op for op in made.body.body if isinstance(op, Reduce) and op.monoid == "add"]
    assert not any(isinstance(op.values[0].source, Binary) and op.values[0].source.operator == "div" for op in sums)
    assert [op for op in made.body.body if isinstance(op, Binary) and op.operator == "div" and op.left in sums[-1].results]
    random = np.random.default_rng(1)
    x, v = random.standard_normal((6, 5)), random.standard_normal(5)
    out = np.full(6, 9.0)
    interpret(made, [x, v, out, 6, 5])
    e = np.where(np.arange(5) < np.arange(6)[:, None], np.exp(x), 0)
    wanted = [0.0, *((e @ v)[1:] / e.sum(1)[1:])]
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


@pytest.mark.parametrize("top", ["%x", "%w"])
def test_what_is_no_share_stays(top: str) -> None:
    field = parse_function(SHARES.replace("TOP", top))
    assert quotients_outside(field) is field
