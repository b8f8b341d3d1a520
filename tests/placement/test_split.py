"""One block on several devices: `@device([...]) @parallel(data)`."""

import gc

import numpy as np
import pytest

import zynml

TWO = '@device(["emulator:sm_80", "emulator:sm_90a"]) @parallel(data)'
THREE = '@device(["emulator:sm_80", "cpu", "emulator:sm_90a"]) @parallel(data)'
GPUS = '@device(["cuda:0", "cuda:1"]) @parallel(data)'

PRODUCT = """def f(A: tensor[M, K], B: tensor[K, N]): tensor {
    compute(A, B) DEVICES {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s + 1.0
    }
}"""
SOFTMAX = """def f(x: tensor[R, C], shift: f32): tensor {
    compute(x, shift) DEVICES @kernel(fused) {
        let top = reduce(max, x, axis=1)
        for i in 0..R, j in 0..C: out[i, j] = exp(x[i, j] - top[i] + shift)
    }
}"""
ROWS = "def f(x: tensor[R, C]): tensor { compute(x) DEVICES @kernel(KIND, axis=1) { for i in 0..R, j in 0..C: yield x[i, j] } }"
COLUMNS = "def f(x: tensor[R, C]): tensor { compute(x) DEVICES { for i in 0..R, j in 0..C: out[j] += x[i, j] } }"
TRANSPOSE = "def f(x: tensor[R, C]): tensor { compute(x) DEVICES { for i in 0..R, j in 0..C: out[j, i] = x[i, j] } }"
TABLE = """def f(table: tensor[T, C], rows: tensor[R, i64]): tensor {
    compute(table, rows) DEVICES { for i in 0..R, j in 0..C: out[i, j] = table[rows[i], j] }
}"""
SEVERAL = """def f(x: tensor[R, C]) {
    compute(x) -> (doubled: tensor[R, C], total: tensor[R]) DEVICES {
        for i in 0..R:
            var s = 0.0
            for j in 0..C:
                doubled[i, j] = 2.0 * x[i, j]
                s += x[i, j]
            total[i] = s
    }
}"""
FLAT = "def f(x, y): tensor { compute(x, y) DEVICES { for i in 0..n: out[i] = x[i] - 2.0 * y[i] } }"
AXIS = "def f(x: tensor[R, C]): tensor { compute(x) DEVICES { for i in 0..R, j in 0..C: out[i, j] = 2.0 * x[i, j] } }"


def program(text: str, devices: str = TWO) -> zynml.CompiledProgram:
    return zynml.compile(text.replace("DEVICES", devices))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("devices", [TWO, THREE])
def test_a_product_of_any_number_of_rows(rows: int, devices: str) -> None:
    a, b = numbers(rows, 5), numbers(5, 3)
    result = program(PRODUCT, devices).f(a, b)
    assert result.shape == (rows, 3)
    # 5 terms in f32, each rounded once
    np.testing.assert_allclose(np.asarray(result), a.astype(np.float64) @ b.astype(np.float64) + 1.0, rtol=1e-5, atol=1e-5)


def test_rows_that_are_fused_are_split_with_their_temporaries() -> None:
    x = numbers(5, 33)
    wide = x.astype(np.float64)
    expected = np.exp(wide - wide.max(axis=1, keepdims=True) + 0.5)
    # `exp` is accurate to 2 ulp, of an argument that is rounded
    np.testing.assert_allclose(np.asarray(program(SOFTMAX).f(x, 0.5)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("reduce, +", lambda x: x.sum(axis=1)),
        ("reduce, max", lambda x: x.max(axis=1)),
        ("scan, +", lambda x: x.cumsum(axis=1)),
        ("sort", lambda x: np.sort(x, axis=1)),
    ],
)
def test_what_works_on_each_row(kind: str, expected) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (5, 6))
    result = program(ROWS.replace("KIND", kind).replace("C]", "C, i32]", 1)).f(x.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(result), expected(x))


NUMBER = "def f(x: tensor[N, TYPE]) { compute(x) DEVICES @kernel(reduce, OP) { for i in 0..N: yield x[i] } }"


@pytest.mark.parametrize("extent", [1, 2, 5])
@pytest.mark.parametrize(
    ("operator", "dtype", "expected"),
    [
        ("+", "i32", lambda x: x.sum()),
        ("*", "i32", lambda x: x.prod()),
        ("min", "i32", lambda x: x.min()),
        ("max", "f32", lambda x: x.max()),
        ("and", "bool", lambda x: x.all()),
        ("or", "bool", lambda x: x.any()),
    ],
)
def test_numbers_are_combined_once_more(operator: str, dtype: str, expected, extent: int) -> None:
    x = np.array([3, -7, 0, 5, 2])[:extent].astype({"i32": np.int32, "f32": np.float32, "bool": bool}[dtype])
    assert program(NUMBER.replace("TYPE", dtype).replace("OP", operator), THREE).f(x) == expected(x)


def test_sums_of_ints_wrap_and_nan_wins() -> None:
    x = np.array([2**62, 2**62, 5], np.int64)
    assert program(NUMBER.replace("TYPE", "i64").replace("OP", "+"), THREE).f(x) == -(2**63) + 5
    numbers_ = np.array([1, np.nan, 3], np.float32)
    for operator in ("max", "min"):
        assert np.isnan(program(NUMBER.replace("TYPE", "f32").replace("OP", operator), THREE).f(numbers_))


def test_a_sum_and_no_rows() -> None:
    assert program(NUMBER.replace("TYPE", "f32").replace("OP", "+"), THREE).f(numbers(0)) == 0.0
    with pytest.raises(zynml.ZynMLError) as caught:
        program(NUMBER.replace("TYPE", "f32").replace("OP", "max"), THREE).f(numbers(0))
    assert caught.value.codes == ("ZYN0803",)


def test_rows_and_a_number_of_all_rows() -> None:
    text = """def f(x: tensor[R, C]) {
        compute(x) -> (rows: tensor[R], total: f32) DEVICES {
            var t = 0.0
            for i in 0..R:
                var s = 0.0
                for j in 0..C: s += x[i, j]
                rows[i] = s
                t += s
            total = t
        }
    }"""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    rows, total = program(text).f(x)
    np.testing.assert_array_equal(np.asarray(rows), x.sum(axis=1))
    assert total == x.sum()


def test_an_input_is_cut_along_the_axis_that_the_results_first_index_runs_along() -> None:
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(np.asarray(program(COLUMNS).f(x)), x.sum(axis=0))
    np.testing.assert_array_equal(np.asarray(program(TRANSPOSE).f(x)), x.T)
    np.testing.assert_array_equal(np.asarray(program(TRANSPOSE).f(x[:, ::-2])), x[:, ::-2].T)


def test_another_axis_is_split() -> None:
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(np.asarray(program(AXIS, TWO.replace("data", "data, axis=1")).f(x)), 2 * x)


def test_a_table_goes_whole_to_each_device() -> None:
    table, rows = numbers(4, 3), np.array([3, 0, 0, 2, 1])
    np.testing.assert_array_equal(np.asarray(program(TABLE).f(table, rows)), table[rows])


def test_the_fault_of_a_range_is_told_with_the_indices_of_the_whole() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        program(TABLE).f(numbers(4, 3), np.array([3, 0, 0, 2, 9]))
    assert caught.value.diagnostics[0].message == "index 9 is out of range: axis 0 of `table` has 4 elements"


def test_several_results_are_joined_each() -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    doubled, total = program(SEVERAL).f(x)
    np.testing.assert_array_equal(np.asarray(doubled), 2 * x)
    np.testing.assert_array_equal(np.asarray(total), x.sum(axis=1))


@pytest.mark.parametrize("shape", [(5,), (5, 3), (3, 2, 2), (1, 4)])
def test_one_index_over_tensors_of_any_rank(shape: tuple[int, ...]) -> None:
    x, y = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.ones(shape, np.float32)
    np.testing.assert_array_equal(np.asarray(program(FLAT).f(x, y)), x - 2)


def test_sizes_that_do_not_agree_are_told_for_the_whole() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        program("def f(x, y): tensor { compute(x, y) DEVICES { for i in 0..n: out[i] = x[i] - y[i] } }").f(numbers(5), numbers(4))
    assert [fault.code for fault in caught.value.diagnostics] == ["0802"]


@pytest.mark.parametrize("stated", ["", "-> tensor[n] "])
def test_an_int_that_is_the_size(stated: str) -> None:
    text = f"def f(x: tensor, n: int): tensor {{ compute(x) {stated}DEVICES {{ for i in 0..n: out[i] = 3.0 * x[i] }} }}"
    for extent in (5, 7):
        np.testing.assert_array_equal(np.asarray(program(text).f(np.arange(extent, dtype=np.float32), 5)), 3.0 * np.arange(5))


def test_extents_that_the_type_states_in_numbers() -> None:
    text = "def f(x: tensor[5, 3]): tensor[5, 3] { compute(x) DEVICES { for i in 0..R, j in 0..C: out[i, j] = 2.0 * x[i, j] } }"
    x = numbers(5, 3)
    np.testing.assert_array_equal(np.asarray(program(text).f(x)), 2 * x)


def test_a_chain_of_split_blocks() -> None:
    text = """def f(x: tensor[R, C]): tensor {
        let y = compute(x) DEVICES { for i in 0..R, j in 0..C: out[i, j] = 2.0 * x[i, j] }
        compute(y) DEVICES { for i in 0..R, j in 0..C: out[i, j] = y[i, j] + 1.0 }
    }"""
    x = numbers(5, 3)
    np.testing.assert_array_equal(np.asarray(program(text).f(x)), 2 * x + 1)


def test_a_future(machine) -> None:
    text = f"let x = arange(0, 5)\nlet f = compute(x) @async {TWO} {{ for i in 0..N: out[i] = x[i] + 1.0 }}\nprintln(await f)\n"
    assert machine.run(text).output == "tensor([1.0, 2.0, 3.0, 4.0, 5.0], shape=[5], dtype=f32)\n"


def test_explain_shows_what_each_device_gets(machine) -> None:
    text = machine.open(PRODUCT.replace("DEVICES", TWO) + "\nlet x = arange(0, 3)\n" + f"let y = compute(x) {TWO} {{ for i in 0..N: out[i] = x[i] }}\n")
    assert text.native_explained().splitlines()[-2:] == [
        "compute (program.zynml:2:5)  split over emulator:sm_80, emulator:sm_90a along axis 0: each gets a range of `A` along its axis 0; all of `B`",
        "compute (program.zynml:10:9)  split over emulator:sm_80, emulator:sm_90a along axis 0: each gets a range of `x` along its axis 0",
    ]


def test_a_split_block_is_joined_with_no_other() -> None:
    text = """def f(x: tensor[N]): tensor {
        let y = compute(x) DEVICES { for i in 0..N: out[i] = 2.0 * x[i] }
        compute(y) { for i in 0..N: out[i] = y[i] + 1.0 }
    }"""
    assert "it is split over devices" in program(text).emit("fusion")


# ---- on GPUs ----

ADDED = "let z = compute(x, y) " + GPUS + " { for i in 0..N, j in 0..M: out[i, j] = x[i, j] + y[i, j] }\n"


def test_a_device_of_the_list_that_is_not_here(machine) -> None:
    text = f"let x = ones(4, 2)\nlet y = ones(4, 2)\n{ADDED}"
    assert machine.fails(text) == (
        "error[ZYN0501]: there is no device `cuda:1` here\n"
        " --> program.zynml:3:23\n"
        "  |\n"
        "3 | let z = compute(x, y) "
        '@device(["cuda:0", "cuda:1"]) @parallel(data) { for i in 0..N, j in 0..M: out[i, j] = x[i, j] + y[i, j] }\n'
        "  |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ this block is to run there\n"
        "note: this machine has 1 CUDA device, numbered from 0; devices here: cpu, cuda:0\n"
        'hint: `--device cpu` runs the program on the CPU; `@device(["cuda:0", "cuda:1"], fallback="cpu")` falls back'
    )
    ran = machine.run(text.replace('"cuda:1"]', '"cuda:1"], fallback="cuda:0"') + "println(z.device(), z[3, 1])\n")
    assert ran.output == "cuda:0 2.0\n"
    assert ran.told[0].splitlines()[0].endswith("cuda:0, `cuda:1` is not here, and `fallback=` names it")
    assert machine.run(text + "println(z.device(), z[3, 1])\n", "cpu").output == "cpu 2.0\n"


@pytest.mark.parametrize("gpus", [2])
def test_each_gpu_gets_its_rows_and_the_first_has_the_result(machine) -> None:
    ran = machine.run(f"let x = ones(5, 2)\nlet y = ones(5, 2)\n{ADDED}println(z.device(), z[4, 1], z.shape())\n")
    assert ran.output == "cuda:0 2.0 [5, 2]\n"
    assert ran.told == [
        "program.zynml:3:9: compute of x [5, 2], y [5, 2]: cuda:0, cuda:1, named by `@device`, split along axis 0\n"
        "  cuda:0:    0..3, 48 bytes to copy\n"
        "  cuda:1:    3..5, 32 bytes to copy"
    ]
    assert machine.copies == {"in": 4, "out": 1}  # ranges of both inputs; the result, to be printed
    gc.collect()
    assert machine.fake.calls["cuMemcpyPeerAsync"] == 1  # what the second computed


@pytest.mark.parametrize("gpus", [2])
def test_what_lies_on_a_gpu_is_not_fetched(machine) -> None:
    text = f'let x = ones(5, 2).to_device("cuda:0")\nlet y = ones(5, 2).to_device("cuda:1")\n{ADDED}'
    ran = machine.run(text)
    assert ran.told[0].splitlines()[1:] == ["  cuda:0:    0..3, 24 bytes to copy", "  cuda:1:    3..5, 16 bytes to copy"]
    assert machine.copies == {"in": 0, "out": 0}  # `ones` are made there
    assert machine.fake.calls["cuMemcpyPeerAsync"] == 3  # two ranges of inputs, and a range of the result


@pytest.mark.parametrize("gpus", [2])
def test_both_gpus_are_at_work_before_anybody_waits(machine) -> None:
    text = f'let x = ones(5, 2).to_device("cuda:0")\nlet y = ones(5, 2).to_device("cuda:0")\n{ADDED}'
    machine.run(text)
    machine.fake.order.clear()
    machine.fake.calls.clear()
    machine.run(text.replace("ones(5, 2)", "ones(7, 2)"))
    assert [event for event, *_ in machine.fake.order].count("launch") == 2
    assert len({stream for event, stream, *_ in machine.fake.order if event == "launch"}) == 2
    assert not any(name.endswith("Synchronize") for name in machine.fake.calls), machine.fake.calls


TWICE = "{ for i in 0..N, j in 0..M: out[i, j] = 2.0 * x[i, j] }"
TURNED = "{ for i in 0..N, j in 0..M: out[j, i] = 2.0 * x[i, j] }"
X = "let x = arange(0, 20).reshape(4, 5)"


@pytest.mark.parametrize("gpus", [2])
@pytest.mark.parametrize(
    ("text", "output"),
    [
        (f"{X}\nlet z = compute(x) {GPUS.replace('data', 'data, axis=1')} {TWICE}\nprintln(z.device(), z[3, 4])", "cpu 38.0"),
        (f"{X}\nlet z = compute(x) {GPUS.replace('cuda:1', 'cpu')} {TWICE}\nprintln(z.device(), z[3, 4])", "cuda:0 38.0"),
        (f"{X}.to_device(\"cuda:1\")\nlet z = compute(x) {GPUS.replace('cuda:0', 'cpu')} {TWICE}\nprintln(z.device(), z[3, 4])", "cpu 38.0"),
        (f'{X}.to_device("cuda:1")\nlet z = await compute(x) @async {GPUS} {TWICE}\nprintln(z.device(), z[3, 4])', "cuda:0 38.0"),
        (f'{X}.to_device("cuda:1")\nlet z = compute(x) {GPUS} {TURNED}\nlet w = compute(x = z) {GPUS} {TURNED}\nprintln(w[3, 4])', "76.0"),
        (f'{X}.to_device("cuda:1")\nlet y = x[1:, ::2]\nlet z = compute(x = y) {GPUS} {TWICE}\nprintln(z[2, 2], z[0, 1])', "38.0 14.0"),
        (f"{X}\nprintln(compute(x) {GPUS} @kernel(reduce, +) {{ for i in 0..N, j in 0..M: yield x[i, j] }})", "190.0"),
    ],
)
def test_on_two_gpus(machine, text: str, output: str) -> None:
    assert machine.run(text + "\n").output == output + "\n"
