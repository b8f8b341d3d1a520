"""The problems of KernelBench, and which program of ours says what one of level 1 says, with which arguments."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from bench.gpu import textbook


@frozen
class Problem:
    """A file of the benchmark. `title`: its words, in small letters."""

    number: int
    title: str
    path: Path


@frozen
class OurProgram:
    text: str
    arguments: Sequence[Any]


LEVELS = {1: "19_ReLU.py", 2: "1_Conv2D_ReLU_BiasAdd.py"}
"""The levels of the benchmark that are measured, each with a problem of it."""


def problems(checkout: Path, level: int = 1) -> list[Problem]:
    """Of a level, by number; `checkout` is the benchmark, or a folder inside of it that has the problems."""
    name = f"level{level}"
    folders = (checkout / "KernelBench" / name, checkout / name, checkout)
    folder = next((folder for folder in folders if any(_numbered(folder))), None)
    if folder is None:
        raise SystemExit(f"{checkout} has no problems of level {level}: files such as KernelBench/{name}/{LEVELS[level]}")
    matches = ((path, re.fullmatch(r"(\d+)_(.*)", path.stem)) for path in _numbered(folder))
    listed = [Problem(int(match[1]), match[2].replace("_", " ").lower().strip(), path) for path, match in matches if match]
    return sorted(listed, key=lambda problem: problem.number)


def _numbered(folder: Path) -> Iterator[Path]:
    return folder.glob("[0-9]*_*.py")


def rows_of(words: str) -> set[int] | None:
    """Of `35,50,54-87` the numbers; None of nothing, which means all."""
    if not words:
        return None
    chosen: set[int] = set()
    for part in words.split(","):
        low, _, high = part.partition("-")
        chosen |= set(range(int(low), int(high or low) + 1))
    return chosen


def program_of(title: str, model: Any, inputs: Sequence[Any]) -> OurProgram | None:
    """Ours for a problem: by the layers of its model where it has some, else by its title. None where there isn't one yet."""
    layers = [module for module in model.modules() if type(module).__name__ in LAYERS]
    if layers:
        return LAYERS[type(layers[0]).__name__](layers, inputs)
    choose = next((choose for pattern, choose in TITLES if re.search(pattern, title)), None)
    return None if choose is None else choose(model, inputs)


# ---- by layers --------------------------------------------------------------------------------------------------------------


def several(value: Any, rank: int) -> list[int]:
    """A parameter for each axis, whether the layer has one number or several."""
    return list(value) if isinstance(value, tuple | list) else [value] * rank


def _geometry(layer: Any, rank: int) -> tuple[list[int], list[int], list[int]]:
    return several(layer.stride, rank), several(layer.padding, rank), several(getattr(layer, "dilation", 1), rank)


def convolution(rank: int) -> Callable[[Sequence[Any], Sequence[Any]], OurProgram | None]:
    def choose(layers: Sequence[Any], inputs: Sequence[Any]) -> OurProgram | None:
        layer = layers[0]
        by_channel = layer.groups == layer.in_channels == layer.out_channels and layer.groups > 1 and layer.bias is None
        if len(layers) == 2 and rank == 2 and by_channel and set(several(layers[1].kernel_size, 2)) == {1} and layers[1].bias is None:
            point = layers[1].weight[:, :, 0, 0]
            return OurProgram(textbook.separable(*_geometry(layer, 2)), [*inputs, layer.weight[:, 0], point])
        if len(layers) > 1:
            return None
        if by_channel:
            return OurProgram(textbook.depthwise(rank, *_geometry(layer, rank)), [*inputs, layer.weight[:, 0]])
        if layer.groups > 1:
            return None
        text = textbook.convolution(rank, *_geometry(layer, rank), bias=layer.bias is not None)
        return OurProgram(text, [*inputs, layer.weight, *([] if layer.bias is None else [layer.bias])])

    return choose


def transposed(rank: int) -> Callable[[Sequence[Any], Sequence[Any]], OurProgram | None]:
    def choose(layers: Sequence[Any], inputs: Sequence[Any]) -> OurProgram | None:
        layer = layers[0]
        if layer.bias is not None or len(layers) > 1:
            return None
        grouped = layer.groups > 1
        text = textbook.transposed(rank, *_geometry(layer, rank), several(layer.output_padding, rank), grouped)
        return OurProgram(text, [*inputs, layer.weight, *([layer.groups] if grouped else [])])

    return choose


def pool(rank: int, mean: bool) -> Callable[[Sequence[Any], Sequence[Any]], OurProgram | None]:
    def choose(layers: Sequence[Any], inputs: Sequence[Any]) -> OurProgram | None:
        layer = layers[0]
        if getattr(layer, "ceil_mode", False) or getattr(layer, "return_indices", False) or not getattr(layer, "count_include_pad", True):
            return None
        return OurProgram(textbook.pool(rank, several(layer.kernel_size, rank), *_geometry(layer, rank), mean=mean), inputs)

    return choose


def norm(text: Callable[[float], str], *more: str) -> Callable[[Sequence[Any], Sequence[Any]], OurProgram | None]:
    def choose(layers: Sequence[Any], inputs: Sequence[Any]) -> OurProgram | None:
        return OurProgram(text(layers[0].eps), [*inputs, *(getattr(layers[0], name) for name in more)])

    return choose


def triplet(layers: Sequence[Any], inputs: Sequence[Any]) -> OurProgram:
    return OurProgram(textbook.triplet(layers[0].margin), inputs)


LAYERS: dict[str, Callable[[Sequence[Any], Sequence[Any]], OurProgram | None]] = {
    **{f"Conv{rank}d": convolution(rank) for rank in (1, 2, 3)},
    **{f"ConvTranspose{rank}d": transposed(rank) for rank in (1, 2, 3)},
    **{f"MaxPool{rank}d": pool(rank, False) for rank in (1, 2, 3)},
    **{f"AvgPool{rank}d": pool(rank, True) for rank in (1, 2, 3)},
    "BatchNorm2d": norm(textbook.batch_norm, "weight", "bias"),
    "InstanceNorm2d": norm(textbook.instance_norm),
    "GroupNorm": norm(textbook.group_norm, "weight", "bias", "num_groups"),
    "LayerNorm": norm(textbook.layer_norm, "weight", "bias"),
    "TripletMarginLoss": triplet,
}

# ---- by titles --------------------------------------------------------------------------------------------------------------

ByTitle = Callable[[Any, Sequence[Any]], OurProgram | None]


def fixed(text: str) -> ByTitle:
    return lambda model, inputs: OurProgram(text, inputs)


def activation(expression: Callable[[Any], str]) -> ByTitle:
    return lambda model, inputs: OurProgram(textbook.elementwise(len(inputs[0].shape), expression(model)), inputs)


def activation_named(name: str) -> ByTitle:
    return activation(lambda model: textbook.ACTIVATIONS[name])


def along_rows(name: str) -> ByTitle:
    """Of matrices, along the last axis."""

    def choose(model: Any, inputs: Sequence[Any]) -> OurProgram | None:
        if len(inputs[0].shape) != 2 or getattr(model, "dim", 1) not in (1, -1):
            return None
        return OurProgram(textbook.of_rows(name), inputs)

    return choose


def reduction(name: str, kept: bool = False) -> ByTitle:
    return lambda model, inputs: OurProgram(textbook.reduction(name, len(inputs[0].shape), model.dim, kept), inputs)


def product(model: Any, inputs: Sequence[Any]) -> OurProgram | None:
    """Of matrices, in batches on both sides or on the first."""
    ranks = tuple(len(value.shape) for value in inputs)
    dims = {(2, 2): ("IK", "KJ", "IJ"), (3, 3): ("GIK", "GKJ", "GIJ"), (3, 2): ("NIK", "KJ", "NIJ"), (4, 2): ("NMIK", "KJ", "NMIJ")}.get(
        ranks
    )
    return None if dims is None else OurProgram(textbook.product(*dims), inputs)


def turned(a: str, b: str) -> ByTitle:
    return fixed(textbook.product(a, b, "IJ"))


TITLES: list[tuple[str, ByTitle]] = [
    ("diagonal", fixed(textbook.DIAGONAL)),
    ("upper triangular", fixed(textbook.UPPER)),
    ("lower triangular", fixed(textbook.LOWER)),
    ("transposed both", turned("KI", "JK")),
    ("transposed a$", turned("KI", "KJ")),
    ("transposed b$", turned("IK", "JK")),
    ("matrix scalar", fixed(textbook.SCALED)),
    ("matmul|matrix multiplication|matrix vector", product),
    ("leakyrelu", activation(lambda model: textbook.leaky_relu(model.negative_slope))),
    ("relu", activation_named("relu")),
    ("hardsigmoid", activation_named("hard sigmoid")),
    ("sigmoid", activation_named("sigmoid")),
    ("hardtanh", activation_named("hard tanh")),
    ("tanh", activation_named("tanh")),
    ("logsoftmax", along_rows("log softmax")),
    ("softmax", along_rows("softmax")),
    ("softplus", activation_named("softplus")),
    ("softsign", activation_named("softsign")),
    ("swish", activation_named("swish")),
    ("newgelu", activation_named("tanh gelu")),
    ("gelu", activation_named("gelu")),
    ("selu", activation_named("selu")),
    ("elu", activation(lambda model: textbook.elu(model.alpha))),
    ("rmsnorm", lambda model, inputs: OurProgram(textbook.rms_norm(model.eps), inputs)),
    ("frobenius", fixed(textbook.FROBENIUS)),
    ("l1norm", along_rows("l1 norm")),
    ("l2norm", along_rows("l2 norm")),
    ("sum reduction", reduction("sum", kept=True)),
    ("mean reduction", reduction("mean")),
    ("max reduction", reduction("max")),
    ("min reduction", reduction("min")),
    ("argmax", reduction("argmax")),
    ("argmin", reduction("argmin")),
    ("masked cumsum", fixed(textbook.MASKED_SUMS)),
    ("cumsum reverse", along_rows("sums from the end")),
    ("cumsum exclusive", along_rows("sums before")),
    ("cumsum", along_rows("sums so far")),
    ("cumprod", along_rows("products so far")),
    ("mseloss", fixed(textbook.LOSSES["mean square"])),
    ("crossentropy", fixed(textbook.LOSSES["cross entropy"])),
    ("huberloss", fixed(textbook.LOSSES["huber"])),
    ("kldiv", fixed(textbook.LOSSES["divergence"])),
    ("hingeloss", fixed(textbook.LOSSES["hinge"])),
    ("scaleddotproductattention", fixed(textbook.ATTENTION)),
]
"""The first pattern that a title has decides."""
