"""A model of PyTorch as a program of ours: a function of textbook loops for each operation that a call of the model makes.

The operations are those of ATen, as `torch.fx.experimental.proxy_tensor.make_fx` traces them, with the shapes of this call. Nothing is
merged here: what joins the blocks is the compiler."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch.fx.experimental.proxy_tensor import make_fx

from bench.gpu import textbook
from bench.gpu.kernelbench_programs import OurProgram
from bench.gpu.textbook import AXES, SIZES, function, indent, tensor


class Unknown(Exception):
    """An operation that has no textbook loops here; the message names it."""


@frozen
class Value:
    """A value of our program: its name and its shape. `turned`: what PyTorch sees is the transpose of it."""

    name: str
    shape: tuple[int, ...]
    turned: bool = False


def fused_program(model: Any, inputs: Sequence[Any]) -> OurProgram:
    """Raises `Unknown`."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
            module.eval()
    graph = make_fx(model, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    return Translation(graph).program(inputs)


def refused(words: str) -> Any:
    raise Unknown(words)


def names_of(shape: Sequence[int], sizes: Sequence[str] = SIZES) -> list[str]:
    """Axes of extent 1 are numbers, so that they broadcast."""
    return [size if extent != 1 else "1" for size, extent in zip(sizes, shape, strict=False)]


def element(name: str, shape: Sequence[int], axes: Sequence[str]) -> str:
    """An element of an operand that broadcasts against these axes."""
    used = [axis if extent != 1 else "0" for axis, extent in zip(axes[len(axes) - len(shape) :], shape, strict=True)]
    return f"{name}[{', '.join(used)}]"


class Translation:
    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.parameters: dict[str, Any] = {}
        self.values: dict[Any, Any] = {}

    def program(self, inputs: Sequence[Any]) -> OurProgram:
        waiting = list(inputs)
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                value = waiting.pop(0)
                self.values[node] = self.parameter(value) if isinstance(value, torch.Tensor) else value
            elif node.op == "get_attr":
                value = getattr(self.graph, node.target)
                self.values[node] = self.parameter(value)
            elif node.op == "call_function":
                self.values[node] = self.called(node)
        result = self.values[node.args[0]]
        types = ", ".join(
            f"{name}: {tensor(*map(str, value.shape)) if isinstance(value, torch.Tensor) else 'f32'}"
            for name, value in self.parameters.items()
        )
        body = "\n".join([*self.lines, f"return {result.name}"])
        text = "\n".join([*self.functions, f"def f({types}) {{\n{indent(body, '    ')}\n}}\n"])
        return OurProgram(text, list(self.parameters.values()))

    def parameter(self, value: Any) -> Value | float:
        if value.dim() == 0:
            return float(value)
        known = next((name for name, other in self.parameters.items() if other is value), None)
        name = known or f"p{len(self.parameters)}"
        self.parameters[name] = value
        return Value(name, tuple(value.shape))

    def called(self, node: Any) -> Any:
        if node.target.__name__ == "getitem":
            return self.values[node.args[0]]
        name = node.target.__name__.removesuffix(".default")
        take = OPERATIONS.get(name) or OPERATIONS.get(name.split(".")[0])
        if take is None:
            raise Unknown(name)
        known = torch.fx.node.map_arg((node.args, node.kwargs), lambda other: self.values[other])
        return take(self, shape_of(node), *known[0], **known[1])

    def step(self, text: str, arguments: Sequence[Value | float | int], shape: Sequence[int]) -> Value:
        """A call of a textbook's function."""
        name = f"step{len(self.functions) + 1}"
        self.functions.append(text.replace("def f(", f"def {name}("))
        given = [argument.name if isinstance(argument, Value) else str(argument) for argument in map(self.straight, arguments)]
        self.lines.append(f"let v{len(self.functions)} = {name}({', '.join(given)})")
        return Value(f"v{len(self.functions)}", tuple(shape))

    def straight(self, value: Any) -> Any:
        if not isinstance(value, Value) or not value.turned:
            return value
        return Value(f"{value.name}.transpose(0, 1)", value.shape)

    def shaped(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements in another shape."""
        value = self.straight(value)
        if value.shape == tuple(shape):
            return value
        return Value(f"{value.name}.reshape({', '.join(map(str, shape))})", tuple(shape))


def shape_of(node: Any) -> tuple[int, ...]:
    """Of the result, of the first of several."""
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, tuple | list) else value).shape)


# ---- maps -------------------------------------------------------------------------------------------------------------------


def map_of(expression: Callable[..., str]) -> Callable[..., Value]:
    """Of one operand; `expression` takes the element and the operation's further arguments."""

    def take(steps: Translation, shape: Sequence[int], x: Value, *more: Any, **named: Any) -> Value:
        return steps.step(textbook.elementwise(len(shape), expression("{x}", *more, **named)), [x], shape)

    return take


def activation(name: str) -> Callable[..., Value]:
    return map_of(lambda x: textbook.ACTIVATIONS[name].format(x=x))


def gelu(x: str, approximate: str = "none") -> str:
    return textbook.ACTIVATIONS["gelu" if approximate == "none" else "tanh gelu"].format(x=x)


def clamp(x: str, low: float | None = None, high: float | None = None) -> str:
    x = x if low is None else f"max({x}, {float(low)})"
    return x if high is None else f"min({x}, {float(high)})"


def of_two(expression: str) -> Callable[..., Value]:
    """Of two operands that broadcast; either may be a number."""

    def take(steps: Translation, shape: Sequence[int], x: Any, y: Any, alpha: float = 1) -> Value:
        if alpha != 1:
            raise Unknown(f"alpha = {alpha}")
        axes = AXES[: len(shape)]
        operands = {name: value for name, value in (("x", x), ("y", y)) if isinstance(value, Value)}
        read = {name: element(name, value.shape, axes) for name, value in operands.items()}
        loops = ", ".join(f"{axis} in 0..{size}" for axis, size in zip(axes, names_of(shape), strict=True))
        said = expression.format(x=read.get("x", f"{x}"), y=read.get("y", f"{y}"))
        types = {name: tensor(*names_of(value.shape, SIZES[len(shape) - len(value.shape) :])) for name, value in operands.items()}
        return steps.step(function(types, f"for {loops}:\n    out[{', '.join(axes)}] = {said}"), list(operands.values()), shape)

    return take


# ---- products and windows ---------------------------------------------------------------------------------------------------

LINEAR = """
for i in 0..M, j in 0..N:
    var total = {first}
    for k in 0..K: total += x[i, k] * {second}
    out[i, j] = total"""


def product(steps: Translation, shape: Sequence[int], x: Value, y: Value, bias: Value | None = None) -> Value:
    """Of matrices; `y` as the model keeps it, turned or not."""
    text = LINEAR.format(first="bias[j]" if bias else "0.0", second="y[j, k]" if y.turned else "y[k, j]")
    types = {"x": tensor("M", "K"), "y": tensor(*("NK" if y.turned else "KN"))} | ({"bias": tensor("N")} if bias else {})
    return steps.step(function(types, text), [x, Value(y.name, y.shape), *([bias] if bias else [])], shape)


def convolution(
    steps: Translation,
    shape: Sequence[int],
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    beyond: Sequence[int],
    groups: int,
) -> Value:
    rank = len(shape) - 2
    if not transposed:
        if groups > 1:
            raise Unknown("a convolution in groups")
        text = textbook.convolution(rank, stride, padding, dilation, bias=bias is not None)
        return steps.step(text, [x, weight, *([bias] if bias else [])], shape)
    text = textbook.transposed(rank, stride, padding, dilation, beyond, groups > 1)
    if bias is not None:
        head, rest = text.split(") {", 1)
        rest = rest.replace("compute(x, weight", "compute(x, weight, bias").replace("var total = 0.0", "var total = bias[o]")
        if groups > 1:
            raise Unknown("a transposed convolution in groups, with a bias")
        text = f"{head}, bias: {tensor('O')}) {{{rest}"
    return steps.step(text, [x, weight, *([bias] if bias else []), *([groups] if groups > 1 else [])], shape)


def pool(mean: bool) -> Callable[..., Value]:
    def take(
        steps: Translation,
        shape: Sequence[int],
        x: Value,
        window: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Any = (1,),
        *more: Any,
        **named: Any,
    ) -> Value:
        rank = len(shape) - 2
        stride = stride or window
        each = [textbook_list(value, rank) for value in (window, stride, padding, (1,) if mean else dilation)]
        return steps.step(textbook.pool(rank, *each, mean=mean), [x], shape)

    return take


def textbook_list(value: Any, rank: int) -> list[int]:
    return list(value) * rank if len(value) == 1 else list(value)


# ---- reductions and norms ---------------------------------------------------------------------------------------------------

REDUCTIONS = {
    **{name: textbook.REDUCTIONS[name] for name in ("sum", "mean", "max", "min")},
    "log of exponentials": ("var total = 0.0", "total += exp({x} - top)", "top + log(total)"),
}


def reduction(name: str) -> Callable[..., Value]:
    """Along any axes, which stay with extent 1 or go."""

    def take(steps: Translation, shape: Sequence[int], x: Value, dims: Any = None, kept: bool = False, **named: Any) -> Value:
        rank = len(x.shape)
        dims = [dims] if isinstance(dims, int) else list(dims or range(rank))
        dims = [dim % rank for dim in dims]
        first, each, last = REDUCTIONS[name]
        axes = AXES[:rank]
        loop = ", ".join(f"{axes[dim]} in 0..{SIZES[dim]}" for dim in dims)
        read = f"x[{', '.join(axes)}]"
        inside = [f"for {loop}: {each.format(x=read)}"]
        if name == "log of exponentials":
            inside = ["var top = -inf", f"for {loop}: top = max(top, {read})", first, *inside]
        else:
            inside = [first, *inside]
        outer = ", ".join(f"{axes[dim]} in 0..{SIZES[dim]}" for dim in range(rank) if dim not in dims)
        count = " * ".join(SIZES[dim] for dim in dims)
        stored = ", ".join("0" if dim in dims else axes[dim] for dim in range(rank) if kept or dim not in dims)
        said = last.replace("/ N", f"/ ({count})")
        types = {"x": tensor(*SIZES[:rank])}
        if not outer:
            kind = {"sum": "@kernel(reduce, +)", "mean": "@kernel(reduce, mean)"}[name]
            return steps.shaped(steps.step(function(types, f"for {loop}: yield {read}", kind), [x], ()), shape)
        body = f"for {outer}:\n" + indent("\n".join([*inside, f"out[{stored}] = {said}"]), "    ")
        return steps.step(function(types, body), [x], shape)

    return take


SOFTMAX = """
for {outer}:
    var top = -inf
    for {loop}: top = max(top, {x})
    var total = 0.0
    for {loop}: total += exp({x} - top)
    for {loop}: {out} = exp({x} - top) / total"""


def softmax(steps: Translation, shape: Sequence[int], x: Value, dim: int, half: bool = False) -> Value:
    rank = len(shape)
    dim %= rank
    axes = AXES[:rank]
    outer = ", ".join(f"{axes[other]} in 0..{SIZES[other]}" for other in range(rank) if other != dim)
    index = f"[{', '.join(axes)}]"
    body = SOFTMAX.format(outer=outer, loop=f"{axes[dim]} in 0..{SIZES[dim]}", x=f"x{index}", out=f"out{index}")
    return steps.step(function({"x": tensor(*SIZES[:rank])}, body), [x], shape)


def batch_norm(steps: Translation, shape: Sequence[int], x: Value, weight: Value | None, bias: Value | None, *more: Any) -> Value:
    """With the batch's own statistics. `more`: the statistics of before, if they are kept, whether this is training, a rate, and what is
    added to the variance."""
    training, _, epsilon = more[-3:]
    if not training:
        raise Unknown("a norm with statistics of before")
    rank = len(shape)
    axes, sizes = AXES[:rank], SIZES[:rank]
    inner = ", ".join(f"{axes[dim]} in 0..{sizes[dim]}" for dim in range(rank) if dim != 1)
    count = " * ".join(size for dim, size in enumerate(sizes) if dim != 1)
    after = "{value} * weight[j] + bias[j]" if weight else "{value}"
    body = textbook.standardised(f"{axes[1]} in 0..{sizes[1]}", inner, ", ".join(axes), count, epsilon, after)
    more_types = {"weight": tensor(sizes[1]), "bias": tensor(sizes[1])} if weight else {}
    return steps.step(function({"x": tensor(*sizes)} | more_types, body), [x, *([weight, bias] if weight else [])], shape)


def group_norm(
    steps: Translation,
    shape: Sequence[int],
    x: Value,
    weight: Value,
    bias: Value,
    pictures: int,
    channels: int,
    pixels: int,
    groups: int,
    epsilon: float,
) -> Value:
    """The pixels may have any number of axes, or none."""
    inner, sizes = AXES[2 : len(shape)], SIZES[2 : len(shape)]
    index = ", ".join(["n", "g * (C / G) + o", *inner])
    loops = ", ".join(["o in 0..C / G", *(f"{axis} in 0..P{number}" for number, axis in enumerate(inner))])
    count = " * ".join(["C / G", *(f"P{number}" for number in range(len(inner)))])
    after = "{value} * weight[g * (C / G) + o] + bias[g * (C / G) + o]"
    body = textbook.standardised("n in 0..N, g in 0..G", loops, index, count, epsilon, after)
    types = {"x": tensor("N", "C", *(f"P{number}" for number in range(len(sizes)))), "weight": tensor("C"), "bias": tensor("C"), "G": "int"}
    return steps.step(function(types, body), [x, weight, bias, groups], shape)


def layer_norm(
    steps: Translation, shape: Sequence[int], x: Value, normalised: Sequence[int], weight: Value, bias: Value, epsilon: float
) -> Value:
    rank, kept = len(shape), len(shape) - len(normalised)
    axes, sizes = AXES[:rank], SIZES[:rank]
    outer = ", ".join(f"{axis} in 0..{size}" for axis, size in zip(axes[:kept], sizes[:kept], strict=True))
    inner = ", ".join(f"{axis} in 0..{size}" for axis, size in zip(axes[kept:], sizes[kept:], strict=True))
    at = ", ".join(axes[kept:])
    body = textbook.standardised(outer, inner, ", ".join(axes), " * ".join(sizes[kept:]), epsilon, f"{{value}} * weight[{at}] + bias[{at}]")
    types = {"x": tensor(*sizes), "weight": tensor(*sizes[kept:]), "bias": tensor(*sizes[kept:])}
    return steps.step(function(types, body), [x, weight, bias], shape)


# ---- what has another shape -------------------------------------------------------------------------------------------------


def same(steps: Translation, shape: Sequence[int], x: Any, *more: Any, **named: Any) -> Any:
    return x


def reshaped(steps: Translation, shape: Sequence[int], x: Value, *more: Any) -> Value:
    if math.prod(x.shape) != math.prod(shape):
        raise Unknown("an expansion")
    return steps.shaped(x, shape)


def transpose(steps: Translation, shape: Sequence[int], x: Value, *more: Any) -> Value:
    return Value(x.name, tuple(shape), not x.turned)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "relu": activation("relu"),
    "sigmoid": activation("sigmoid"),
    "tanh": activation("tanh"),
    "silu": activation("swish"),
    "mish": map_of(lambda x: f"{x} * tanh({textbook.ACTIVATIONS['softplus'].format(x=x)})"),
    "softplus": activation("softplus"),
    "hardsigmoid": activation("hard sigmoid"),
    "hardswish": map_of(lambda x: f"{x} * min(max({x} + 3.0, 0.0), 6.0) / 6.0"),
    "gelu": map_of(gelu),
    "leaky_relu": map_of(lambda x, slope=0.01: textbook.leaky_relu(slope).format(x=x)),
    "hardtanh": map_of(lambda x, low=-1.0, high=1.0: clamp(x, low, high)),
    "clamp": map_of(clamp),
    "clamp_min": map_of(lambda x, low: clamp(x, low)),
    "clamp_max": map_of(lambda x, high: clamp(x, None, high)),
    "add": of_two("{x} + {y}"),
    "sub": of_two("{x} - {y}"),
    "mul": of_two("{x} * {y}"),
    "div": of_two("{x} / {y}"),
    "minimum": of_two("min({x}, {y})"),
    "maximum": of_two("max({x}, {y})"),
    "addmm": lambda steps, shape, bias, x, y: product(steps, shape, x, y, bias),
    "mm": product,
    "convolution": convolution,
    "max_pool2d_with_indices": pool(False),
    "max_pool3d_with_indices": pool(False),
    "avg_pool2d": pool(True),
    "avg_pool3d": pool(True),
    "sum": reduction("sum"),
    "mean": reduction("mean"),
    "max": reduction("max"),
    "amax": reduction("max"),
    "min": reduction("min"),
    "amin": reduction("min"),
    "logsumexp": reduction("log of exponentials"),
    "_adaptive_avg_pool3d": lambda steps, shape, x, size: reduction("mean")(steps, shape, x, range(2, len(shape)), True),
    "_adaptive_avg_pool2d": lambda steps, shape, x, size: reduction("mean")(steps, shape, x, range(2, len(shape)), True),
    "_softmax": softmax,
    "native_batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_functional": batch_norm,
    "cudnn_batch_norm": batch_norm,
    "native_group_norm": group_norm,
    "native_layer_norm": layer_norm,
    "t": transpose,
    "permute": lambda steps, shape, x, dims: transpose(steps, shape, x) if list(dims) == [1, 0] else refused("a permutation"),
    **dict.fromkeys(("add_", "copy_", "empty"), lambda *values, **named: None),  # counters of a model, which nothing reads
    **dict.fromkeys(("clone", "detach", "alias", "lift_fresh_copy", "contiguous", "_to_copy", "native_dropout"), same),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"), reshaped),
}
