"""Kernels of little work begin in tier 0, and have tier 1's code when it is made: the same bits before, during and after."""

import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import zynml
from compiler.launch import tiers
from runtime.tensor import Tensor

PRODUCT = """
def product(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
"""
OTHERS = """
def soft(x: tensor[M, N]): tensor {
    compute(x) {
        for i in 0..M {
            var top = -inf
            for j in 0..N: top = max(top, x[i, j])
            var sum = 0.0
            for j in 0..N: sum += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / sum
        }
    }
}
def curve(x: tensor[M, N]): tensor { compute(x) { for i in 0..M, j in 0..N: out[i, j] = tanh(x[i, j]) * x[i, j] + 0.5 } }
def sums(x: tensor[M, N]): tensor { compute(x) { for i in 0..M { var s = 0.0; for j in 0..N: s += x[i, j]; out[i] = s } } }
"""


@pytest.fixture
def held(monkeypatch):
    """Tiers as users have them, but nothing is done beside the program until `tiers.finish`."""
    monkeypatch.setenv("ZYNTAX_TIER", "auto")
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    monkeypatch.setattr(tiers, "wake", lambda: None)
    tiers.finish()
    yield
    tiers.finish()


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def expected(name, values):
    (x, *others) = (value.astype(np.float64) for value in values)
    match name:
        case "product":
            return x @ others[0]
        case "soft":
            raised = np.exp(x - x.max(axis=1, keepdims=True))
            return raised / raised.sum(axis=1, keepdims=True)
        case "curve":
            return np.tanh(x) * x + 0.5
    return x.sum(axis=1)


CALLS = [
    ("product", (65, 67), (67, 33)),
    ("product", (3, 1000), (1000, 31)),
    ("product", (1, 1), (1, 1)),
    ("soft", (33, 101)),
    ("curve", (7, 1003)),
    ("sums", (31, 257)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1]}")
def test_the_bits_are_the_same_before_during_and_after_the_swap(held, call, dtype):
    name, *shapes = call
    values = [numbers(*shape, dtype=dtype) for shape in shapes]
    text = PRODUCT + OTHERS
    if dtype is np.float64:
        text = re.sub(r"tensor\[([A-Z, ]+)\]", r"tensor[\1, f64]", text)
    before = getattr(zynml.compile(text), name)
    first = [before(*values), before(*values)]
    assert not tiers.is_idle() or name in ("soft", "sums")
    np.testing.assert_allclose(first[0], expected(name, values), rtol=2e-5, atol=2e-5)
    improving = threading.Thread(target=tiers.finish)
    improving.start()
    during = [before(*values)]
    while not tiers.is_idle():
        during.append(before(*values))
    improving.join()
    after = [before(*values) for _ in range(3)]
    alone = [getattr(zynml.compile(text, tier=tier), name)(*values) for tier in (0, 1)]
    for other in (*first, *during, *after, *alone):
        np.testing.assert_array_equal(other.view(np.uint8), first[0].view(np.uint8))


def test_each_kernel_says_in_which_tier_it_begins(held, tmp_path, monkeypatch):
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from zynml.language import language

    text = PRODUCT + "def both(x: tensor[M, K]) { product(x, x) }\n"
    said = []

    def run(size, **options):
        source = Source("p.zynml", text)
        session = language.open(source, CompileOptions(explain_tiers=said.append, **options), Sources(source), lambda warning: None)
        session.host.functions["product"](Tensor(numbers(size, size)), Tensor(numbers(size, size)))
        tiers.finish()
        told = [*said]
        said.clear()
        return told

    begun, improved = run(16)
    assert begun == "p.zynml:3:5: tier 0 first: 4096 inner steps"
    assert improved.startswith("p.zynml:3:5: tier 1 from here on: made in ")
    assert run(300) == ["p.zynml:3:5: tier 1 at once: 27000000 inner steps are worth it"]
    assert run(16, tier="1") == ["p.zynml:3:5: tier 1 at once: as it was asked for"]
    assert run(16, tier="0") == ["p.zynml:3:5: tier 0, as it was asked for"]


def test_a_tier_that_there_is_not(monkeypatch):
    with pytest.raises(ValueError) as wrong:
        zynml.compile(PRODUCT, tier=2)
    assert str(wrong.value) == "tier=2: tiers are auto, 0, 1"
    monkeypatch.setenv("ZYNTAX_TIER", "best")
    with pytest.raises(zynml.ZynMLError) as error:
        zynml.compile(PRODUCT).product(numbers(2, 2), numbers(2, 2))
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0505", "ZYNTAX_TIER=best can't be: a kernel begins in one of auto, 0, 1")


def test_what_goes_wrong_beside_the_program_is_raised_by_the_next_call(held, monkeypatch):
    from compiler.backends.cpu.native import NativeKernel

    function = zynml.compile(PRODUCT).product
    function(numbers(5, 5), numbers(5, 5))

    def broken(kernel):
        raise MemoryError("no room for code")

    monkeypatch.setattr(NativeKernel, "improve", broken)
    tiers.finish()
    with pytest.raises(zynml.ZynMLError) as error:
        function(numbers(5, 5), numbers(5, 5))
    assert error.value.diagnostics[0].code == "0804"


BEGIN = f"""
import os, signal, sys
import numpy as np
import zynml
from compiler.launch import tiers
function = zynml.compile({PRODUCT!r}).product
x = np.arange(9, dtype=np.float32).reshape(3, 3)
assert (function(x, x) == x @ x).all()
"""

ENDS = {
    "ends": ("", 0, ""),
    "forks": (
        """
child = os.fork()
for turn in range(3):
    assert (function(x, x) == x @ x).all()
if not child:
    tiers.finish()
    assert (function(x, x) == x @ x).all() and tiers.is_idle()
    sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 3)
""",
        0,
        "",
    ),
    "is interrupted": ("signal.raise_signal(signal.SIGINT)", -2, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_with_work_left(end, tmp_path):
    rest, status, last = ENDS[end]
    known = {**os.environ, "ZYNTAX_TIER": "auto", "ZYNTAX_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", BEGIN + rest], env=known, capture_output=True, text=True)
    # what runs a text meanwhile has Python forget that it was interrupted, and it ends with 1
    assert done.returncode in (status, 1 if last else status), done.stderr
    assert done.stderr.strip().splitlines()[-1:] == ([last] if last else [])
    if last:
        return
    again = subprocess.run([sys.executable, "-c", BEGIN.replace("import tiers", "import numbered") + "print(*sys.modules)"], env=known,
                           capture_output=True, text=True, check=True)  # fmt: skip
    assert "llvmlite" not in again.stdout.split()
