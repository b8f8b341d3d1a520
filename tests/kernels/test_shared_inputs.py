"""Blocks whose inputs share memory: what overlaps with something that the block updates is refused, in both directions; everything else has
NumPy's numbers. On the CPU and in the emulator."""

import numpy as np
import pytest

import zynml

N = 50

PROGRAM = """
def add(mut x: tensor[N], y: tensor[N]) { compute(mut x, y) { for i in 0..N: x[i] = x[i] * 0.5 + y[i] } }
def both(mut x: tensor[N], mut y: tensor[N]) { compute(mut x, mut y) { for i in 0..N { x[i] = x[i] + 1.0; y[i] = y[i] * 2.0 } } }
def read(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[N - 1 - i] } }
def on_a_copy(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: x[i] = x[i] + y[N - 1 - i] } }
def captured(mut x: tensor[N], y: tensor[N]) { compute(mut x) { for i in 0..N: x[i] = x[i] + y[N - 1 - i] } }
def running(mut x: tensor[N], y: tensor[N]) { compute(mut x, y) @kernel(fused) { for i in 1..N: x[i] = x[i - 1] * 0.5 + y[i] } }
def picked(mut x: tensor[N], y: tensor[N], k: tensor[N, i64]) { compute(mut x, y, k) { for i in 0..N: x[i] = x[i] + y[k[i]] } }
def forward(mut x: tensor[N]) {
    mut later = x[1:]
    compute(mut later, sooner = x[:-1]) { for i in 0..M: later[i] = later[i] + 2.0 * sooner[i] }
}
def backward(mut x: tensor[N]) {
    mut sooner = x[:-1]
    compute(mut sooner, later = x[1:]) { for i in 0..M: sooner[i] = sooner[i] + 2.0 * later[i] }
}
def forward_from_copy(mut x: tensor[N]) {
    mut later = x[1:]
    compute(mut later, sooner = x[:-1].clone()) { for i in 0..M: later[i] = later[i] + 2.0 * sooner[i] }
}
def odd_from_even(mut x: tensor[N]) {
    mut odd = x[1::2]
    compute(mut odd, even = x[::2]) { for i in 0..M: odd[i] = odd[i] + 2.0 * even[i] }
}
def halves(mut m: tensor[M, N]) {
    let half = N / 2
    mut right = m[:, half:]
    compute(mut right, left = m[:, :half]) { for i in 0..R, j in 0..C: right[i, j] = right[i, j] + 2.0 * left[i, j] }
}
def turned(mut m: tensor[N, N]) { compute(mut m, t = m.transpose()) { for i in 0..N, j in 0..N: m[i, j] = m[i, j] + t[i, j] } }
def chained(mut x: tensor[N]): tensor {
    let doubled = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    compute(mut x, doubled) { for i in 0..N: x[i] = x[i] + doubled[N - 1 - i] }
    x
}
def chained_alias(mut x: tensor[N], y: tensor[N]): tensor {
    let doubled = compute(y) { for i in 0..N: out[i] = y[i] * 2.0 }
    compute(mut x, y, doubled) { for i in 0..N: x[i] = y[i] + doubled[i] }
    x
}
def awaited(mut x: tensor[N], y: tensor[N]) {
    let f = compute(mut x, y) @async { for i in 0..N: x[i] = x[i] + y[i] }
    await f
}
def read_beside(x: tensor[N], mut y: tensor[N]): tensor {
    let f = compute(x) @async { for i in 0..N: out[i] = x[i] * 3.0 }
    compute(mut y) { for i in 0..N: y[i] = 0.0 }
    await f
}
"""


@pytest.fixture(scope="module", params=["cpu", "emulator"])
def program(request):
    return zynml.compile(PROGRAM, device=request.param)


def numbers(*shape):
    return np.random.default_rng(7).integers(-8, 9, shape or (N,)).astype(np.float32)


def refused(function, *values):
    before = [value.copy() for value in values]
    with pytest.raises(zynml.ZynMLError) as failure:
        function(*values)
    assert failure.value.codes == ("ZYN0813",)
    for value, old in zip(values, before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.parametrize("name", ["add", "both", "captured", "running", "awaited", "chained_alias"])
def test_one_array_for_two_parameters_is_refused(program, name):
    x = numbers()
    refused(program.functions[name], x, x)


@pytest.mark.parametrize("name", ["add", "both", "captured", "running", "awaited"])
def test_views_that_overlap_are_refused_in_both_directions(program, name):
    x = numbers(N + 1)
    refused(program.functions[name], x[1:], x[:-1])
    refused(program.functions[name], x[:-1], x[1:])
    refused(program.functions[name], x[1:], x[::-1][:-1])


def test_a_block_with_checked_indices_is_refused_before_it_runs(program):
    x = numbers()
    refused(program.picked, x, x, np.arange(N)[::-1].copy())


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_slices_of_the_program_that_overlap_are_refused(program, name):
    refused(program.functions[name], numbers())


def test_a_matrix_and_its_transpose_are_refused(program):
    refused(program.turned, numbers(8, 8))


def test_a_copy_holds_the_elements_from_before_the_block(program):
    x, before = numbers(), numbers().astype(np.float64)
    program.forward_from_copy(x)
    np.testing.assert_array_equal(x, np.append(before[:1], before[1:] + 2 * before[:-1]))


def test_views_that_interleave_are_separate_inputs(program):
    x, before = numbers(2 * N), numbers(2 * N).astype(np.float64)
    program.add(x[::2], x[1::2])
    np.testing.assert_array_equal(x[::2], before[::2] * 0.5 + before[1::2])
    np.testing.assert_array_equal(x[1::2], before[1::2])
    x = numbers(2 * N)
    program.odd_from_even(x)
    np.testing.assert_array_equal(x[1::2], before[1::2] + 2 * before[::2])
    x = numbers(2 * N)
    program.both(x[::2], x[1::2])
    np.testing.assert_array_equal(x[::2], before[::2] + 1)
    np.testing.assert_array_equal(x[1::2], before[1::2] * 2)


def test_rows_columns_and_halves_of_a_matrix_are_separate_inputs(program):
    m, before = numbers(N, N), numbers(N, N).astype(np.float64)
    program.add(m[3], m[4])
    program.add(m[:, 0], m[:, 1])
    before[3] = before[3] * 0.5 + before[4]
    before[:, 0] = before[:, 0] * 0.5 + before[:, 1]
    np.testing.assert_array_equal(m, before)
    program.halves(m)
    before[:, N // 2 :] += 2 * before[:, : N // 2]
    np.testing.assert_array_equal(m, before)
    refused(program.add, m[3], m[:, 4])


def test_inputs_that_are_only_read_may_share_memory(program):
    x = numbers()
    np.testing.assert_array_equal(program.read(x, x), x + x[::-1])
    np.testing.assert_array_equal(program.on_a_copy(x, x), x + x[::-1])
    np.testing.assert_array_equal(program.on_a_copy(x[1:], x[:-1]), x[1:] + x[:-1][::-1])
    np.testing.assert_array_equal(x, numbers())


def test_a_block_before_reads_the_elements_of_then(program):
    x, before = numbers(), numbers().astype(np.float64)
    np.testing.assert_array_equal(program.chained(x), before + 2 * before[::-1])
    x = numbers()
    np.testing.assert_array_equal(program.read_beside(x, x), before * 3)


def test_elements_of_one_input_that_share_memory_are_not_updated(program):
    x = np.lib.stride_tricks.as_strided(numbers(3), (N,), (0,))
    with pytest.raises(zynml.ZynMLError, match="`x` can't be updated: several of its elements share memory") as failure:
        program.add(x, numbers())
    assert failure.value.codes == ("ZYN0807",)


def test_a_read_only_array_is_not_updated(program):
    x = numbers()
    x.flags.writeable = False
    with pytest.raises(zynml.ZynMLError, match="`x` can't be updated: its memory is read-only") as failure:
        program.add(x, numbers())
    assert failure.value.codes == ("ZYN0807",)


def test_a_list_is_not_updated():
    program = zynml.compile("mut xs = [1.0, 2.0]\ncompute(mut xs) { for i in 0..N: xs[i] = xs[i] * 2.0 }\n")
    with pytest.raises(zynml.ZynMLError) as failure:
        program.run()
    assert str(failure.value) == (
        "error[ZYN0203]: `xs` can't be updated: it is a list\n"
        " --> <program>:2:1\n"
        "  |\n"
        "2 | compute(mut xs) { for i in 0..N: xs[i] = xs[i] * 2.0 }\n"
        "  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: `tensor(xs)` makes a tensor of it"
    )


ASSIGNMENTS = {
    "x[1:] = x[:-1]": lambda x: np.append(x[:1], x[:-1]),
    "x[:-1] = x[1:]": lambda x: np.append(x[1:], x[-1:]),
    "x[1:] = x[:-1] + 1.0": lambda x: np.append(x[:1], x[:-1] + 1),
    "x[1:] += x[:-1]": lambda x: np.append(x[:1], x[1:] + x[:-1]),
    "x[:-1] -= x[1:]": lambda x: np.append(x[:-1] - x[1:], x[-1:]),
    "x[::-1] = x": lambda x: x[::-1],
    "x[:] = x[::-1]": lambda x: x[::-1],
    "x += x[::-1]": lambda x: x + x[::-1],
    "x *= x[0]": lambda x: x * x[0],
    "x[:] += x[1]": lambda x: x + x[1],
}


@pytest.mark.parametrize("text", ASSIGNMENTS)
def test_assignments_compute_their_right_side_first(text):
    program = zynml.compile(f"def changed(given: tensor[N]): tensor {{ mut x = given.clone()\n {text}\n x }}")
    np.testing.assert_array_equal(program.changed(numbers()), ASSIGNMENTS[text](numbers().astype(np.float64)))


MATRIX_ASSIGNMENTS = {
    "m += m.transpose()": lambda m: m + m.T,
    "m[:, :] = m.transpose()": lambda m: m.T,
    "m[1:, 1:] = m[:-1, :-1] * 2.0": lambda m: np.block([[m[:1]], [m[1:, :1], m[:-1, :-1] * 2]]),
    "m[0] = m[:, 0]": lambda m: np.vstack([m[:, 0], m[1:]]),
    "m[:, 0] += m[0]": lambda m: np.column_stack([m[:, 0] + m[0], m[:, 1:]]),
}


@pytest.mark.parametrize("text", MATRIX_ASSIGNMENTS)
def test_assignments_of_matrices_compute_their_right_side_first(text):
    program = zynml.compile(f"def changed(given: tensor[N, N]): tensor {{ mut m = given.clone()\n {text}\n m }}")
    np.testing.assert_array_equal(program.changed(numbers(9, 9)), MATRIX_ASSIGNMENTS[text](numbers(9, 9).astype(np.float64)))


def test_tensors_that_lie_on_the_emulator_are_asked_too():
    program = zynml.compile("""
def updated(given: tensor[N], share: bool): tensor {
    mut x = given.to_device("emulator")
    let y = x if share else x.clone()
    compute(mut x, y) { for i in 0..N: x[i] = x[i] + y[N - 1 - i] }
    x
}
""")
    x = numbers()
    np.testing.assert_array_equal(np.asarray(program.updated(x, False)), x + x[::-1])
    with pytest.raises(zynml.ZynMLError) as failure:
        program.updated(x, True)
    assert failure.value.codes == ("ZYN0813",)
