"""Values of a strategy's memory as text, from their shapes."""

import struct
from collections.abc import Callable
from typing import Any

from quantdsl.metadata import Market, StateShape
from runtime.replay.grids import GridStep
from runtime.replay.outputs.charts import moment

Bytes = Any
"""A buffer of bytes."""
MOST = 16
"""Elements of an array that are said."""


def said(shape: StateShape, memory: Bytes, market: Market, base: int = 0) -> str:
    """The value that lies at the shape's offset behind `base`, as its program would write it."""
    at = base + shape.offset
    match shape.what:
        case "optional":
            present, value = shape.parts
            return said(value, memory, market, at) if _number(present, memory, at) else "none"
        case "result":
            ok, value, error = shape.parts
            good = _number(ok, memory, at)
            return f"{'Ok' if good else 'Err'}({said(value if good else error, memory, market, at)})"
        case "enum":
            case_ = shape.parts[int(memory[at])]
            fields = ", ".join(said(part, memory, market, at) for part in case_.parts)
            return f"{case_.name}({fields})" if fields else case_.name
        case "tuple":
            return f"({', '.join(said(part, memory, market, at) for part in shape.parts)})"
        case "struct":
            return f"{{ {', '.join(f'{part.name}: {said(part, memory, market, at)}' for part in shape.parts)} }}"
        case "array" | "ring":
            return _elements(shape, memory, market, at)
        case "table":
            return _entries(shape, memory, market, at)
        case "text":
            return shape.name
        case "bytes":
            return f"{shape.size} bytes"
    return _SAID[shape.what](_number(shape, memory, base), market)


def _elements(shape: StateShape, memory: Bytes, market: Market, at: int) -> str:
    """An array, or a ring from its newest element on."""
    if shape.what == "array":
        (element,) = shape.parts
        places = list(range(shape.count))
    else:
        held, following, element = shape.parts
        behind = int(_number(following, memory, at))
        places = [(behind - 1 - age) % shape.count for age in range(int(_number(held, memory, at)))]
    found = [said(element, memory, market, at + place * element.size) for place in places[:MOST]]
    return f"[{', '.join(found)}{', ...' if len(places) > MOST else ''}]"


def _entries(shape: StateShape, memory: Bytes, market: Market, at: int) -> str:
    """Keys and values of a table, by key; its slots lie in three arrays."""
    used, key, value = shape.parts
    slots = [slot for slot in range(shape.count) if _number(used, memory, at + slot * used.size)]
    slots.sort(key=lambda slot: int(_number(key, memory, at + slot * key.size)))

    def entry(slot: int) -> str:
        return f"{said(key, memory, market, at + slot * key.size)}: {said(value, memory, market, at + slot * value.size)}"

    return f"{{{', '.join(map(entry, slots[:MOST]))}{', ...' if len(slots) > MOST else ''}}}"


def _number(shape: StateShape, memory: Bytes, base: int) -> Any:
    return struct.unpack_from(_FORMATS[_KINDS.get(shape.what, "i"), shape.size], memory, base + shape.offset)[0]


def _money(units: int, market: Market) -> str:
    return f"{GridStep(market.scale, 1).text(units)} {market.currency}"


_KINDS = {"bool": "b", "float": "f", "ratio": "f", "unsigned": "u", "side": "u", "id": "u"}
_FORMATS = {
    **{("i", size): form for size, form in ((1, "<b"), (2, "<h"), (4, "<i"), (8, "<q"))},
    **{("u", size): form for size, form in ((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q"))},
    **{("f", size): form for size, form in ((4, "<f"), (8, "<d"))},
    ("b", 1): "<?",
}
_SAID: dict[str, Callable[[Any, Market], str]] = {
    "bool": lambda value, _: "true" if value else "false",
    "int": lambda value, _: str(value),
    "unsigned": lambda value, _: str(value),
    "id": lambda value, _: str(value),
    "float": lambda value, _: repr(value),
    "ratio": lambda value, _: f"{value * 1e4:g}bps",
    "price": lambda value, market: GridStep(*market.tick).text(value),
    "ticks": lambda value, _: f"{value}ticks",
    "qty": lambda value, _: f"{value}lots",
    "money": _money,
    "timestamp": lambda value, _: moment(value),
    "duration": lambda value, _: f"{value}ns",
    "side": lambda value, _: ("Buy", "Sell")[value] if value < 2 else str(value),
}
