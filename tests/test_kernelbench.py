"""The bench on KernelBench's problems, without a GPU: which program a problem gets, whether the programs are right, what is reported."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zynml
from bench import pictures
from bench.gpu import kernelbench, textbook
from bench.gpu.kernelbench_programs import OurProgram, problems, program_of, rows_of

CHANCE = np.random.default_rng(3)


def random(*shape: int) -> Any:
    return CHANCE.random(shape, np.float32) - np.float32(0.5)


def near(text: str, wanted: Any, *values: Any) -> None:
    got = np.asarray(zynml.compile(text).f(*values))
    assert got.shape == np.shape(wanted), text
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=text)  # sums of some dozens of f32


# ---- the reader -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name in ("19_ReLU.py", "9_Tall_skinny_matrix_multiplication_.py", "101_Mystery.py", "notes.py"):
        (folder / name).write_text("# nothing is run here\n")
    return tmp_path


def test_problems_are_listed_by_number(checkout: Path) -> None:
    listed = [(9, "tall skinny matrix multiplication"), (19, "relu"), (101, "mystery")]
    assert [(problem.number, problem.title) for problem in problems(checkout)] == listed
    assert problems(checkout / "KernelBench") == problems(checkout) == problems(checkout / "KernelBench" / "level1")


def test_a_folder_without_problems_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        problems(tmp_path)
    assert str(caught.value) == f"{tmp_path} has no problems of level 1: files such as KernelBench/level1/19_ReLU.py"


def test_rows_are_numbers_and_ranges() -> None:
    assert rows_of("") is None
    assert rows_of("35,50,54-56") == {35, 50, 54, 55, 56}


# ---- which program ----------------------------------------------------------------------------------------------------------


def model(*layers: Any, **more: Any) -> Any:
    return SimpleNamespace(modules=lambda: list(layers), **more)


def layer(kind: str, **more: Any) -> Any:
    return type(kind, (), more)()


def test_a_title_decides_where_no_layer_does() -> None:
    x = random(3, 5)
    assert program_of("relu", model(), [x]) == OurProgram(textbook.elementwise(2, textbook.ACTIVATIONS["relu"]), [x])
    assert program_of("leakyrelu", model(negative_slope=0.25), [x]) == OurProgram(
        textbook.elementwise(2, "{x} > 0.0 ? {x} : 0.25 * {x}"), [x]
    )
    assert program_of("matmul with transposed b", model(), [x, x]) == OurProgram(textbook.product("IK", "JK", "IJ"), [x, x])
    assert program_of("mystery", model(), [x]) is None
    assert program_of("cumsum", model(dim=0), [x]) is None


def test_parameters_of_a_layer_go_into_its_program() -> None:
    weight = random(6, 4, 3, 3)
    shared = {"stride": 2, "padding": (1, 0), "dilation": 1, "bias": None, "kernel_size": 3, "weight": weight}
    plain = layer("Conv2d", groups=1, in_channels=4, out_channels=6, **shared)
    assert program_of("conv standard 2d", model(plain), ["x"]) == OurProgram(textbook.convolution(2, [2, 2], [1, 0], [1, 1]), ["x", weight])
    assert program_of("conv standard 2d", model(plain, plain), ["x"]) is None
    grouped = layer("Conv2d", groups=2, in_channels=4, out_channels=6, **shared)
    assert program_of("conv standard 2d", model(grouped), ["x"]) is None
    by_channel = layer("Conv2d", groups=6, in_channels=6, out_channels=6, **shared)
    chosen = program_of("conv depthwise 2d", model(by_channel), ["x"])
    assert chosen is not None
    assert chosen.text == textbook.depthwise(2, [2, 2], [1, 0], [1, 1])
    assert chosen.arguments[1].shape == (6, 3, 3)
    assert (
        program_of("average pooling 1d", model(layer("AvgPool1d", count_include_pad=False, kernel_size=2, stride=2, padding=0)), ["x"])
        is None
    )


# ---- whether they are right -------------------------------------------------------------------------------------------------


def by_definition(x: Any, weight: Any, stride: int, padding: int, dilation: int) -> Any:
    """A convolution of one dimension in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding)))
    extent = (padded.shape[2] - dilation * (weight.shape[2] - 1) - 1) // stride + 1
    result = np.zeros((x.shape[0], weight.shape[0], extent))
    for y in range(extent):
        for q in range(weight.shape[2]):
            result[:, :, y] += padded[:, :, y * stride + q * dilation] @ weight[:, :, q].T
    return result


def transposed_by_definition(x: Any, weight: Any, stride: int, padding: int, dilation: int, beyond: int, groups: int) -> Any:
    """Scattered, in float64."""
    taps, outputs, inputs = weight.shape[2], weight.shape[1], x.shape[1] // groups
    whole = np.zeros((x.shape[0], outputs * groups, (x.shape[2] - 1) * stride + dilation * (taps - 1) + 1 + beyond))
    for g in range(groups):
        part, of_part = x[:, g * inputs : (g + 1) * inputs].astype(np.float64), weight[g * inputs : (g + 1) * inputs]
        for h in range(x.shape[2]):
            for q in range(taps):
                whole[:, g * outputs : (g + 1) * outputs, h * stride + q * dilation] += part[:, :, h] @ of_part[:, :, q]
    return whole[:, :, padding : whole.shape[2] - padding]


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 3, 2), (3, 2, 4)])
def test_convolutions(stride: int, padding: int, dilation: int) -> None:
    x, weight, bias = random(2, 4, 23), random(5, 4, 3), random(5)
    wanted = by_definition(x, weight, stride, padding, dilation)
    geometry = ([stride], [padding], [dilation])
    near(textbook.convolution(1, *geometry), wanted, x, weight)
    near(textbook.convolution(1, *geometry, bias=True), wanted + bias[:, None], x, weight, bias)
    for channel in range(4):
        alone = by_definition(x[:, channel : channel + 1], weight[channel : channel + 1, :1], stride, padding, dilation)
        near(textbook.depthwise(1, *geometry), alone, x[:, channel : channel + 1], weight[channel : channel + 1, 0])


@pytest.mark.parametrize(("stride", "padding", "dilation", "beyond"), [(1, 0, 1, 0), (2, 1, 2, 0), (2, 1, 1, 1), (5, 1, 2, 0)])
def test_transposed_convolutions(stride: int, padding: int, dilation: int, beyond: int) -> None:
    x, weight = random(2, 4, 11), random(4, 3, 3)
    geometry = ([stride], [padding], [dilation], [beyond])
    near(textbook.transposed(1, *geometry), transposed_by_definition(x, weight, stride, padding, dilation, beyond, 1), x, weight)
    grouped = transposed_by_definition(x, weight, stride, padding, dilation, beyond, 2)
    near(textbook.transposed(1, *geometry, grouped=True), grouped, x, weight, 2)


def test_two_and_three_dimensions_agree_with_one() -> None:
    x, weight = random(2, 4, 12), random(5, 4, 3)
    wanted = by_definition(x, weight, 2, 1, 2)
    near(textbook.convolution(2, [1, 2], [0, 1], [1, 2]), wanted[:, :, None], x[:, :, None], weight[:, :, None])
    wanted = wanted[:, :, None, :, None]
    near(textbook.convolution(3, [1, 2, 1], [0, 1, 0], [1, 2, 1]), wanted, x[:, :, None, :, None], weight[:, :, None, :, None])


def test_pools() -> None:
    x = random(2, 3, 20)
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2)), constant_values=-np.inf)
    largest = np.stack([padded[:, :, y : y + 7 : 3].max(-1) for y in range(18)], -1)
    near(textbook.pool(1, [3], [1], [2], [3], mean=False), largest, x)
    zeros = np.pad(x, ((0, 0), (0, 0), (2, 2)))
    near(textbook.pool(1, [4], [2], [2], [1], mean=True), np.stack([zeros[:, :, y : y + 4].mean(-1) for y in range(0, 21, 2)], -1), x)


def test_norms() -> None:
    x, weight, bias = random(3, 4, 5, 6), random(4), random(4)
    wide = x.astype(np.float64)

    def normed(values: Any, *axes: int) -> Any:
        return (values - values.mean(axes, keepdims=True)) / np.sqrt(values.var(axes, keepdims=True) + 1e-5)

    by_channel = (weight[:, None, None], bias[:, None, None])
    near(textbook.batch_norm(1e-5), normed(wide, 0, 2, 3) * by_channel[0] + by_channel[1], x, weight, bias)
    near(textbook.instance_norm(1e-5), normed(wide, 2, 3), x)
    groups = normed(wide.reshape(3, 2, -1), 2).reshape(x.shape)
    near(textbook.group_norm(1e-5), groups * by_channel[0] + by_channel[1], x, weight, bias, 2)
    whole = random(4, 5, 6), random(4, 5, 6)
    near(textbook.layer_norm(1e-5), normed(wide, 1, 2, 3) * whole[0] + whole[1], x, *whole)
    near(textbook.rms_norm(1e-5), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5), x)
    near(textbook.FROBENIUS, wide / np.sqrt((wide**2).sum()), x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions(axis: int) -> None:
    x = random(3, 4, 5)
    near(textbook.reduction("sum", 3, axis, kept=True), x.sum(axis, keepdims=True), x)
    for name in ("mean", "max", "min", "argmax", "argmin"):
        near(textbook.reduction(name, 3, axis), getattr(np, name)(x, axis), x)


def test_rows_and_scans() -> None:
    x = random(3, 9)
    e = np.exp(x - x.max(1, keepdims=True))
    near(textbook.of_rows("softmax"), e / e.sum(1, keepdims=True), x)
    near(textbook.of_rows("log softmax"), np.log(e / e.sum(1, keepdims=True)), x)
    near(textbook.of_rows("l1 norm"), x / np.abs(x).mean(1, keepdims=True), x)
    near(textbook.of_rows("l2 norm"), x / np.sqrt((x * x).sum(1, keepdims=True)), x)
    sums = np.cumsum(x, 1)
    near(textbook.of_rows("sums so far"), sums, x)
    near(textbook.of_rows("products so far"), np.cumprod(x, 1), x)
    near(textbook.of_rows("sums from the end"), np.cumsum(x[:, ::-1], 1)[:, ::-1], x)
    near(textbook.of_rows("sums before"), sums - x, x)
    near(textbook.MASKED_SUMS, np.cumsum(x * (x > 0), 1), x, x > 0)


def test_losses() -> None:
    p, t, n = random(4, 6), random(4, 6), random(4, 6)
    d = np.abs(p - t)
    near(textbook.LOSSES["mean square"], (d * d).mean(), p, t)
    near(textbook.LOSSES["huber"], np.where(4 * d < 1, 8 * d * d, 4 * d - 0.5).mean(), 4 * p, 4 * t)
    near(textbook.LOSSES["divergence"], ((t + 1) * np.log((t + 1) / (p + 1))).sum() / 4, p + 1, t + 1)
    near(textbook.LOSSES["hinge"], np.maximum(1 - p * t[0], 0).mean(), p, t[0])
    labels = np.array([0, 5, 2, 2])
    near(textbook.LOSSES["cross entropy"], (np.log(np.exp(p).sum(1)) - p[np.arange(4), labels]).mean(), p, labels)
    far = np.sqrt(((p - t + 1e-6) ** 2).sum(1)) - np.sqrt(((p - n + 1e-6) ** 2).sum(1))
    near(textbook.triplet(0.5), np.maximum(far + 0.5, 0).mean(), p, t, n)


def test_products_of_triangles() -> None:
    a, b = random(7, 7), random(7, 7)
    near(textbook.UPPER, np.triu(a) @ np.triu(b), a, b)
    near(textbook.LOWER, np.tril(a) @ np.tril(b), a, b)
    near(textbook.product("GIK", "GKJ", "GIJ"), np.stack([a @ b]), a[None], b[None])


# ---- what is reported -------------------------------------------------------------------------------------------------------

ROWS = [
    {"number": 19, "title": "relu", "state": "right", "ours_ms": 2.0, "eager_ms": 4.0, "compile_ms": 1.0, "first_call_s": 0.5},
    {"number": 9, "title": "product", "state": "right", "ours_ms": 1.0, "eager_ms": 2.0, "first_call_s": 1.0},
    {"number": 101, "title": "mystery", "state": "no program"},
]


def test_missing_programs_are_in_the_table_and_in_the_counts() -> None:
    assert kernelbench.summary(ROWS).splitlines() == [
        "3 problems: 1 no program, 2 right",
        "eager: geometric mean 2.000 of 2, 2 of them at least 1, least 2.000",
        "compile: geometric mean 0.500 of 1, 0 of them at least 1, least 0.500",
        "better of both: geometric mean 0.500 of 1, 0 of them at least 1, least 0.500",
    ]
    assert kernelbench.markdown(ROWS).splitlines()[2:] == [
        "| 9 | product | right | 1 | 2.00 |  | 1.00 |",
        "| 19 | relu | right | 2 | 2.00 | 0.50 | 0.50 |",
        "| 101 | mystery | no program |  |  |  |  |",
    ]


def test_the_picture_has_a_line_a_problem() -> None:
    drawn = pictures.kernelbench({"rows": ROWS})
    assert drawn.startswith("<svg ") and drawn.endswith("</svg>\n")
    assert [drawn.count(words) for words in ('<rect class="ours"', "<circle", 'class="peer"', ">no program<")] == [2, 2, 1, 1]
    assert drawn.index("mystery (101)") < drawn.index("relu (19)") < drawn.index("product (9)")


def test_problems_of_level_2_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "level2"
    folder.mkdir()
    (folder / "1_Conv2D_ReLU_BiasAdd.py").write_text("# nothing is run here\n")
    assert [(problem.number, problem.title) for problem in problems(tmp_path, 2)] == [(1, "conv2d relu biasadd")]
    with pytest.raises(SystemExit) as caught:
        problems(tmp_path / "nothing", 2)
    assert (
        str(caught.value) == f"{tmp_path / 'nothing'} has no problems of level 2: files such as KernelBench/level2/1_Conv2D_ReLU_BiasAdd.py"
    )
