"""Renderings that matplotlib draws: heatmaps, line charts, histograms, scatter plots, as png or svg."""

import io
import math
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from runtime.extras import required
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import array_dtype, float_array, type_name
from zynml.stdlib.printing import element_text, to_text
from zynml.stdlib.shapes import is_int, shape_text

DOTS_PER_INCH = 100
MAX_ANNOTATED = 400
MAX_LABELS = 64
MAX_LINES = 256
MAX_BINS = 10_000


def figure_of(width: int, height: int) -> Any:
    return required("matplotlib.figure").Figure(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH)


def written_figure(figure: Any, kind: str) -> bytes:
    """The figure as "png" or "svg", the same bytes each time; the texts of an svg are text."""
    stream = io.BytesIO()
    if kind == "svg":
        matplotlib = required("matplotlib")
        required("matplotlib.backends.backend_svg").FigureCanvasSVG(figure)
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "zynml"}):
            figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    else:
        # `savefig` would draw all twice, first without output, to lay it out: it is laid out by now
        required("matplotlib.backends.backend_agg").FigureCanvasAgg(figure).print_png(stream, metadata={"Software": None})
    return stream.getvalue()


def plain(text: str) -> str:
    """Text that matplotlib takes letter for letter, not as a formula."""
    return text.replace("\\", "\\\\").replace("$", r"\$")


def names_of(given: dict[str, Any], option: str, count: int) -> list[str] | None:
    """The texts of an option that names `count` things."""
    if option not in given:
        return None
    names = given[option]
    if not isinstance(names, list | tuple | range) or len(names) != count:
        raise LibraryFault("0203", f"`{option}` is a list of {count} names")
    return [plain(to_text(name)) for name in names]


def _caption(axes: Any, given: dict[str, Any]) -> None:
    for option, put in (("title", axes.set_title), ("xlabel", axes.set_xlabel), ("ylabel", axes.set_ylabel)):
        if option in given:
            put(plain(given[option]))


def draw_heatmap(array: Array, given: dict[str, Any], kind: str) -> bytes:
    """A tensor of rank 2 in colours, with its values written in where there is room; row 0 on top."""
    if array.ndim != 2 or array.size == 0:
        raise LibraryFault("0301", f"a heatmap has shape [rows, columns], not {shape_text(array.shape)}")
    rows, columns = array.shape
    labels = given.get("labels")
    if labels is not None and rows == columns and "rows" not in given and "columns" not in given:
        given = {**given, "rows": labels, "columns": labels}
    row_names, column_names = names_of(given, "rows", rows), names_of(given, "columns", columns)
    written = given.get("values", rows * columns <= MAX_ANNOTATED)
    if not isinstance(written, bool):
        raise LibraryFault("0203", f"`values` is a bool, not {type_name(written)}")
    if written and rows * columns > 10 * MAX_ANNOTATED:
        raise LibraryFault("0807", f"{rows * columns} values are too many to write into a heatmap")
    figure = figure_of(given.get("width", 640), given.get("height", 560))
    axes = figure.add_subplot()
    values = float_array(array).astype(np.float64)
    aspect = "auto" if max(rows, columns) > 4 * min(rows, columns) else "equal"
    drawn = axes.imshow(values, cmap=_colours(given.get("colormap", "viridis")), aspect=aspect)
    figure.colorbar(drawn, ax=axes)
    for names, put, count in ((column_names, axes.set_xticks, columns), (row_names, axes.set_yticks, rows)):
        if names is not None:
            put(range(count), names)
        elif count <= MAX_LABELS // 2:
            put(range(count))
    if written:
        _write_values(axes, array, values, drawn)
    _caption(axes, given)
    figure.tight_layout()
    return written_figure(figure, kind)


def _colours(name: str) -> str:
    colormaps = required("matplotlib").colormaps
    if name not in colormaps:
        raise LibraryFault("0204", f"there is no colormap `{name}`", "viridis, magma, gray, coolwarm, Blues...")
    return name


def _write_values(axes: Any, array: Array, values: Array, drawn: Any) -> None:
    size = 9 if max(array.shape) <= 12 else 6
    for (row, column), value in np.ndenumerate(array):
        shade = drawn.cmap(drawn.norm(values[row, column]))
        bright = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 0.5
        text = f"{float(value):.3g}" if array_dtype(array).is_float else element_text(value)
        axes.text(column, row, text, ha="center", va="center", fontsize=size, color="black" if bright else "white")


def draw_chart(array: Array, given: dict[str, Any], kind: str) -> bytes:
    """A line of a tensor of rank 1, or one a row of rank 2."""
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) > MAX_LINES):
        limit = f"with at most {MAX_LINES} lines"
        raise LibraryFault("0301", f"a chart has shape [points] or [lines, points] {limit}, not {shape_text(array.shape)}")
    lines = float_array(array[None, :] if array.ndim == 1 else array).astype(np.float64)
    labels = given.get("labels")
    names = names_of({"labels": [labels] if isinstance(labels, str) else labels}, "labels", len(lines)) if labels is not None else None
    places = np.arange(lines.shape[1], dtype=np.float64)
    if "x" in given:
        places = float_array(to_tensor(given["x"]).contents).astype(np.float64)
        if places.shape != lines.shape[1:]:
            raise LibraryFault("0301", f"`x` has shape {shape_text(places.shape)}, and each line has {lines.shape[1]} points")
    figure = figure_of(given.get("width", 800), given.get("height", 480))
    axes = figure.add_subplot()
    for index, line in enumerate(lines):
        shown = np.where(np.isfinite(line), line, np.nan)
        axes.plot(places, shown, label=names[index] if names else None, marker="o" if len(line) == 1 else None, linewidth=1.5)
    if "x" not in given:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if _flag(given, "log"):
        axes.set_yscale("log", nonpositive="mask")
    axes.grid(alpha=0.3)
    if names:
        axes.legend()
    _caption(axes, given)
    figure.tight_layout()
    return written_figure(figure, kind)


def draw_histogram(array: Array, given: dict[str, Any], kind: str) -> bytes:
    """How many elements lie in each of `bins` (a number, or the borders) between the lowest and the highest, or in `range`."""
    values = float_array(array).astype(np.float64).ravel()
    values = values[np.isfinite(values)]
    counts, borders = np.histogram(values, _bins(given, values), _range_of(given))
    figure = figure_of(given.get("width", 800), given.get("height", 480))
    axes = figure.add_subplot()
    axes.bar(borders[:-1], counts, width=np.diff(borders), align="edge", edgecolor="white", linewidth=0.5)
    axes.set_xlim(borders[0], borders[-1])
    if _flag(given, "log"):
        axes.set_yscale("log", nonpositive="clip")
    axes.grid(alpha=0.3, axis="y")
    _caption(axes, given)
    figure.tight_layout()
    return written_figure(figure, kind)


def _bins(given: dict[str, Any], values: Array) -> Any:
    bins = given.get("bins")
    if bins is None:
        # The square root of the count, as spreadsheets have it, but never so many that a bar is no wider than a line.
        return max(1, min(200, math.ceil(math.sqrt(values.size))))
    if is_int(bins) and 1 <= bins <= MAX_BINS:
        return int(bins)
    if isinstance(bins, list | tuple | range | Tensor):
        borders = float_array(to_tensor(list(bins) if isinstance(bins, range | tuple) else bins).contents).astype(np.float64)
        if borders.ndim == 1 and 2 <= borders.size <= MAX_BINS + 1 and (np.diff(borders) > 0).all():
            return borders
    raise LibraryFault("0203", f"`bins` is a number, 1 to {MAX_BINS}, or a list of borders that ascend, not {to_text(bins)[:60]}")


def _range_of(given: dict[str, Any]) -> tuple[float, float] | None:
    if "range" not in given:
        return None
    try:
        low, high = map(float, given["range"])
    except (TypeError, ValueError):
        low = high = 0.0
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise LibraryFault("0203", f"`range` is the lowest and the highest value, such as (0.0, 1.0), not {to_text(given['range'])[:60]}")
    return low, high


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise LibraryFault("0203", f"`{name}` is a bool, not {type_name(value)}")
    return value


def draw_scatter(array: Array, given: dict[str, Any], kind: str) -> bytes:
    """A dot for each row (x, y) or (x, y, colour); of rank 1 the heights, at `x` or at 0, 1, 2..."""
    points = float_array(array).astype(np.float64)
    if points.ndim == 1:
        points = np.stack([_places(given, len(points)), points], axis=1)
    elif "x" in given:
        raise LibraryFault("0204", "`x` goes with a list of heights, and here the rows are points")
    if points.ndim != 2 or (points.shape[1] not in (2, 3) and points.size):
        raise LibraryFault("0301", f"a scatter has shape [points], [points, 2] or [points, 3], not {shape_text(array.shape)}")
    points = points.reshape(-1, points.shape[1] if points.size else 2)
    colours = points[:, 2] if points.shape[1] == 3 else None
    if "color" in given:
        colours = float_array(to_tensor(given["color"]).contents).astype(np.float64)
        if colours.shape != (len(points),):
            raise LibraryFault("0301", f"`color` has shape {shape_text(colours.shape)}, and there are {len(points)} points")
    size = given.get("size", 4)
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size <= 100:
        raise LibraryFault("0203", f"`size` is a number of pixels, up to 100, not {to_text(size)}")
    figure = figure_of(given.get("width", 640), given.get("height", 560))
    axes = figure.add_subplot()
    whole = np.isfinite(points[:, :2]).all(axis=1)
    chosen = {} if colours is None else {"c": colours[whole], "cmap": _colours(given.get("colormap", "viridis"))}
    drawn = axes.scatter(points[whole, 0], points[whole, 1], s=float(size) ** 2, linewidths=0, **chosen)
    if colours is not None:
        figure.colorbar(drawn, ax=axes)
    if _flag(given, "log"):
        axes.set_yscale("log", nonpositive="mask")
    axes.grid(alpha=0.3)
    _caption(axes, given)
    figure.tight_layout()
    return written_figure(figure, kind)


def _places(given: dict[str, Any], count: int) -> Array:
    """Where along the x axis so many points lie."""
    if "x" not in given:
        return np.arange(count, dtype=np.float64)
    places = float_array(to_tensor(given["x"]).contents).astype(np.float64)
    if places.shape != (count,):
        raise LibraryFault("0301", f"`x` has shape {shape_text(places.shape)}, and there are {count} points")
    return places
