"""Random nests: windows, guards, steps and orders of loops, evaluated as written in plain Python. The interpreter refuses any access
outside a memory, so these also test that what is proved in bounds is."""

import numpy as np
from helpers import run_block
from hypothesis import given, settings
from hypothesis import strategies as st

sizes = st.integers(1, 6)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, st.integers(1, 3), st.integers(0, 2), st.booleans())
def test_guarded_windows_of_any_stride(extent: int, window: int, stride: int, padding: int, inner_first: bool) -> None:
    x, w = np.arange(1.0, extent + 1), np.arange(1.0, window + 1)
    count = (extent + 2 * padding) // stride + 1
    first, second = ("o", "k") if not inner_first else ("k", "o")
    ranges = {"o": f"o in 0..{count}", "k": "k in 0..K"}
    text = f"""let y = compute(x, w) -> tensor[{count}, f64] {{
        for {ranges[first]}, {ranges[second]} {{
            let p = {stride} * o + k - {padding}
            if p >= 0 and p < N {{ out[o] += x[p] * w[k] }}
        }}
    }}"""
    want = [sum(x[p] * w[k] for k in range(window) if 0 <= (p := stride * o + k - padding) < extent) for o in range(count)]
    assert np.array_equal(run_block(text, x=x, w=w), want)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(-3, 3), st.integers(-3, 3), st.integers(1, 3), st.booleans())
def test_neighbours_inside_the_tensor(extent: int, left: int, right: int, step: int, by_condition: bool) -> None:
    x = np.arange(1.0, extent + 1)
    guard = f"0 <= i + {left} and i + {left} < N and i + {right} >= 0 and i + {right} <= N - 1"
    if by_condition:
        body = f"out[i] = {guard} ? x[i + {left}] - x[i + {right}] : x[i]"
    else:
        body = f"out[i] = x[i]\n if {guard} {{ out[i] = x[i + {left}] - x[i + {right}] }}"
    text = f"let y = compute(x, N) -> tensor[N, f64] {{ for i in 0..N step {step} {{ {body} }} }}".replace("+ -", "- ")
    want = np.zeros(extent)
    for i in range(0, extent, step):
        inside = 0 <= i + left < extent and 0 <= i + right < extent
        want[i] = x[i + left] - x[i + right] if inside else x[i]
    assert np.array_equal(run_block(text, x=x, N=extent), want)


@settings(max_examples=60, deadline=None)
@given(
    sizes,
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from(("clamp(i + {a}, 0, N - 1)", "min(i * {b}, N - 1)", "(i + {a}) % N", "i / {b}", "N - 1 - i / {b}", "i - i % {b}")),
)
def test_indices_that_are_not_affine(extent: int, a: int, b: int, form: str) -> None:
    x = np.arange(1.0, extent + 1)
    index = form.format(a=a, b=b)
    text = f"let y = compute(x, N) {{ for i in 0..N: out[i] = x[i] + x[{index}] }}"
    python = index.replace("/", "//").replace("clamp", "_clamp")
    names = {"_clamp": lambda v, low, high: max(low, min(v, high)), "min": min, "N": extent}
    want = [x[i] + x[_evaluated(python, {**names, "i": i})] for i in range(extent)]
    assert np.array_equal(run_block(text, x=x, N=extent), want)


def _evaluated(text: str, names: dict[str, object]) -> int:
    return eval(text, {"__builtins__": {}}, names)


@settings(max_examples=40, deadline=None)
@given(sizes, st.permutations(["i in 0..N", "j in {low}..{high}"]), st.sampled_from((("0", "i + 1"), ("i", "N"), ("0", "N"))))
def test_triangles_cover_what_they_say(extent: int, order: list[str], bounds: tuple[str, str]) -> None:
    low, high = bounds
    if order[0].startswith("j") and "i" in low + high:
        order = order[::-1]
    loops = ", ".join(order).format(low=low, high=high)
    a = np.arange(1.0, extent * extent + 1).reshape(extent, extent)
    text = f"let y = compute(a, N) -> tensor[N, N, f64] {{ for {loops}: out[i, j] = a[i, j] * 2.0 }}"
    mask = {("0", "i + 1"): np.tril, ("i", "N"): np.triu, ("0", "N"): np.asarray}[bounds]
    assert np.array_equal(run_block(text, a=a, N=extent), mask(a * 2))
