"""Several reductions over one window, over the channels of a place or over a row, where later ones meet what came of those before: variances,
spreads, deviations, softmax and what no textbook has. Terms are whole numbers that float64 holds exactly, but for those of a softmax."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from tests.kernels.checks import DTYPES
from tests.random_cases.case import Array, Case, Draw, wide

EXACT = {"f32": 2.0**24, "f64": 2.0**53}
"""Whole numbers below this are exact."""


@frozen
class Term:
    """A term of a reduction, and what it comes to: an array whose last axes are those of the window."""

    text: str
    value: Array


TWO = Term("2.0", np.array(2.0))

STARTS = {"sum": "0.0", "max": "-inf", "min": "inf", "count": "0.0"}


def phases(draw: Draw) -> Case:
    types = str(draw.one(("f64", "f64", "f32")))
    way = str(draw.one(("window", "window", "window", "channels", "rows")))
    rank = int(draw.one((1, 1, 2)))
    most = 5 if way == "window" or draw.tiny else 40
    taps = [draw.extent(most, 2) if draw.often(0.8) else 1 for _ in range(rank)]
    places = [draw.extent({1: 300, 2: 40}[rank]) for _ in range(rank)]
    stride = int(draw.one((1, 1, 1, 2, 3)))
    named = draw.often(0.4)
    at, by = ([draw.name() for _ in range(rank)] for _ in range(2))
    tops = [f"T{axis}" if named and way != "window" else str(tap) for axis, tap in enumerate(taps)]
    sides = [f"D{axis}" if named else str(place) for axis, place in enumerate(places)]
    lasts = tuple(range(-rank, 0))
    match way:
        case "window":
            index = [y + (f" * {stride}" if stride > 1 else "") + f" + {r}" for y, r in zip(at, by, strict=True)]
            shape = [(place - 1) * stride + tap for place, tap in zip(places, taps, strict=True)]
            extents = sides if named else [str(extent) for extent in shape]
            ends = [f"(D{axis} - {tap}) / {stride} + 1" if named else side for axis, (tap, side) in enumerate(zip(taps, sides, strict=True))]
        case "channels":
            index, shape, extents, ends = [*by, *at], [*taps, *places], [*tops, *sides], sides
        case _:
            index, shape, extents, ends = [*at, *by], [*places, *taps], [*sides, *tops], sides
    x = draw.array(types, shape, whole=True)

    def windows() -> Array:
        """The elements that each place meets, along the last axes."""
        if way == "window":
            step = tuple(slice(None, None, stride) for _ in taps)
            return np.lib.stride_tricks.sliding_window_view(wide(x), taps)[step]
        return np.moveaxis(wide(x), range(rank), lasts) if way == "channels" else wide(x)

    element = Term(f"X[{', '.join(index)}]", windows())
    y = draw.array(types, taps, whole=True) if draw.often(0.4) else None
    given = [element, element, TWO] if y is None else [element, Term(f"Y[{', '.join(by)}]", wide(y)), TWO]
    loops = ", ".join(draw.shuffled([f"{name} in 0..{top}" for name, top in zip(by, tops, strict=True)]))
    soft = draw.often(0.15)
    lines, found = softmax(element, loops) if soft else exact(draw, given, loops, EXACT[types])
    each = draw.often(0.4)
    if each:
        last = found[-1]
        value = Term(f"{last.text} - {element.text}", last.value - element.value) if not soft else Term(f"exp({element.text} - m) / s", np.exp(element.value - found[0].value) / last.value)
        lines += [f"for {loops} {{ out[{', '.join([*at, *by])}] = {value.text} }}"]
        wanted = np.broadcast_to(value.value, [*places, *taps])
        result = [*ends, *tops]
    else:
        told = found[-1:] if draw.often(0.5) else [*reversed(found)] if draw.often(0.5) else found
        text = " + ".join(f"{term.text} * {number}.0" for number, term in enumerate(told, 1))
        lines += [f"out[{', '.join(at)}] = {text}"]
        wanted = sum(term.value * number for number, term in enumerate(told, 1)).reshape(places)
        result = ends
    heads = ", ".join(f"{name} in 0..{end}" for name, end in zip(at, ends, strict=True))
    body = "\n".join("            " + line for line in lines)
    other = "" if y is None else f", Y: tensor[{', '.join(tops)}, {types}]"
    source = f"""
def f(X: tensor[{", ".join(extents)}, {types}]{other}) {{
    compute(X{"" if y is None else ", Y"}) -> tensor[{", ".join(result)}, {types}] {{
        for {heads}:
{body}
    }}
}}"""
    words = f"{types}, {way}, {places} places of {taps}, stride {stride}{', named' if named else ''}{', each' if each else ''}"
    words += ", beside what places share" if y is not None else ""
    wanted = wanted.astype(DTYPES[types]) if not soft else wanted
    inputs = [x] if y is None else [x, y]
    layouts = [draw.layout(array) for array in inputs]
    return Case("phases", source, inputs, lambda: wanted, lambda: 16 * (1 + abs(wanted)), exact=not soft, layouts=layouts, words=words)


def exact(draw: Draw, given: list[Term], loops: str, limit: float) -> tuple[list[str], list[Term]]:
    """One to three reductions, whose terms are made of what is given, of which the elements come first, and of what came before."""
    element = given[0]
    lines: list[str] = []
    found: list[Term] = []
    lasts = tuple(range(-len(loops.split(",")), 0))
    for number in range(int(draw.one((1, 2, 2, 3)))):
        kind, name = str(draw.one(tuple(STARTS))), f"r{number}"
        count = int(np.prod(element.value.shape[lasts[0] :]))
        term = expression(draw, given, 2) if not found else met(draw, given, found)
        if count * abs(term.value).max(initial=0) * 8 >= limit:
            term = element
        value = np.broadcast_to(term.value, element.value.shape)
        step, reduced = STEPS[kind]
        lines += [f"var {name} = {STARTS[kind]}", f"for {loops} {{ {step.format(r=name, e=term.text)} }}"]
        found.append(Term(name, reduced(value, lasts)))
    return lines, found


STEPS: dict[str, tuple[str, Callable[[Array, tuple[int, ...]], Array]]] = {
    "sum": ("{r} += {e}", lambda v, axes: v.sum(axes, keepdims=True)),
    "max": ("{r} = max({r}, {e})", lambda v, axes: v.max(axes, keepdims=True)),
    "min": ("{r} = min({r}, {e})", lambda v, axes: v.min(axes, keepdims=True)),
    "count": ("if {e} > 1.0 {{ {r} += 1.0 }}", lambda v, axes: (v > 1).sum(axes, keepdims=True).astype(float)),
}


def met(draw: Draw, given: list[Term], found: list[Term]) -> Term:
    """What an element and one of the reductions before come to, on either side, perhaps together with more."""
    pair = [given[0], draw.one(found)] if draw.often(0.5) else [draw.one(found), given[0]]
    both = joined(draw, *pair)
    return both if draw.often(0.5) else joined(draw, both, expression(draw, [*given, *found], 1))


def expression(draw: Draw, given: list[Term], depth: int) -> Term:
    if depth == 0 or draw.often(0.3):
        return draw.one(given)
    return joined(draw, expression(draw, given, depth - 1), expression(draw, given, depth - 1))


def joined(draw: Draw, left: Term, right: Term) -> Term:
    text, value = OPERATIONS[str(draw.one(tuple(OPERATIONS)))]
    return Term(text.format(a=left.text, b=right.text), value(left.value, right.value))


OPERATIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("({a} + {b})", np.add),
    "-": ("({a} - {b})", np.subtract),
    "*": ("({a} * {b})", np.multiply),
    "max": ("max({a}, {b})", np.maximum),
    "min": ("min({a}, {b})", np.minimum),
    "abs": ("abs({a} - {b})", lambda a, b: abs(a - b)),
}


def softmax(element: Term, loops: str) -> tuple[list[str], list[Term]]:
    axes = tuple(range(-len(loops.split(",")), 0))
    most = element.value.max(axes, keepdims=True)
    lines = ["var m = -inf", f"for {loops} {{ m = max(m, {element.text}) }}", "var s = 0.0", f"for {loops} {{ s += exp({element.text} - m) }}"]
    return lines, [Term("m", most), Term("s", np.exp(element.value - most).sum(axes, keepdims=True))]
