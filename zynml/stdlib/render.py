"""`render value { title: "Loss" }`: tensors as pictures, heatmaps and line charts in PNG files. Returns where each was written;
saying so is the caller's business."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import STRING
from runtime.extras import required
from runtime.tensor import Array
from zynml.stdlib.creation import array_of_list, to_tensor
from zynml.stdlib.dtypes import array_dtype, float_array, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.images import picture, require_picture
from zynml.stdlib.paths import file_faults
from zynml.stdlib.printing import element_text, to_text
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import is_int, shape_text

family = FunctionFamily()

COMMON = ("title", "width", "height", "file", "path")
OPTIONS: dict[str, tuple[str, ...]] = {
    "image": (*COMMON, "scale"),
    "heatmap": (*COMMON, "values", "labels", "rows", "columns", "xlabel", "ylabel", "colormap"),
    "chart": (*COMMON, "labels", "x", "xlabel", "ylabel", "log"),
}
"""What each form takes."""
SYNONYMS = {"line": "chart", "line_chart": "chart", "lines": "chart", "picture": "image"}
LATER = ("histogram", "scatter", "table", "grid", "markdown")

MAX_SIDE = 16384
DOTS_PER_INCH = 100
MAX_ANNOTATED = 400
MAX_LABELS = 64
MAX_LINES = 256


def render(value: Any, form: str, options: dict[str, Any], settings: StdlibSettings) -> Path:
    """Draws the value and gives the path of the PNG file."""
    array = _array(value)
    chosen = _form(array, form or str(options.get("form", "")))
    given = {name: option for name, option in options.items() if name != "form"}
    for name in given:
        if name not in OPTIONS[chosen]:
            raise LibraryFault("0204", f"`render` as {chosen} has no option `{name}`", f"options: {', '.join(OPTIONS[chosen])}")
    _require_texts(given, ("title", "file", "path", "xlabel", "ylabel", "colormap"))
    for name in ("width", "height"):
        if name in given and not (is_int(given[name]) and 1 <= given[name] <= MAX_SIDE):
            raise LibraryFault("0203", f"`{name}` is a number of pixels, 1 to {MAX_SIDE}, not {to_text(given[name])}")
    path = _target(settings, given, chosen)
    with file_faults(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        FORMS[chosen](array, given, path)
    return path


def _array(value: Any) -> Array:
    if isinstance(value, list) and any(isinstance(row, list) for row in value):
        # Lines of a chart may differ in length; nan draws nothing.
        lengths = [len(row) for row in value if isinstance(row, list)]
        if len(lengths) == len(value) and len(set(lengths)) > 1 and all(not isinstance(v, list) for row in value for v in row):
            out = np.full((len(value), max(lengths)), np.nan)
            for index, row in enumerate(value):
                out[index, : len(row)] = array_of_list(row).astype(np.float64)
            return out
    if isinstance(value, range):
        value = list(value)
    if isinstance(value, str) or value is None:
        raise LibraryFault("0203", f"`render` draws tensors and lists of numbers, not {type_name(value)}")
    return to_tensor(value).contents


def _form(array: Array, form: str) -> str:
    """The form meant: by name, or by the tensor's rank."""
    form = SYNONYMS.get(form, form)
    if form in LATER:
        raise LibraryFault("0109", f"`render` as {form} is valid, but not supported yet", f"forms: {', '.join(OPTIONS)}")
    if form and form not in OPTIONS:
        raise LibraryFault("0204", f"`render` knows no form `{form}`", f"forms: {', '.join(OPTIONS)}")
    if form:
        return form
    if array.ndim in (2, 3):
        return "image"
    if array.ndim == 1:
        return "chart"
    raise LibraryFault("0301", f"a tensor of shape {shape_text(array.shape)} can't be drawn", "pictures have rank 2 or 3, lines rank 1")


def _require_texts(given: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if name in given and not isinstance(given[name], str):
            raise LibraryFault("0203", f"`{name}` is a String, not {type_name(given[name])}")


def _target(settings: StdlibSettings, given: dict[str, Any], form: str) -> Path:
    """Where the file goes: `path` as given, `file` in the output folder, else a name made of the title that is new in this run."""
    for name in ("path", "file"):
        if name in given:
            named = Path(given[name])
            if named.suffix.lower() != ".png":
                raise LibraryFault("0807", f"`{given[name]}`: a rendering is written as PNG", "end the name in `.png`")
            if "\0" in given[name]:
                raise LibraryFault("0807", "a path can't have a zero character")
            return named if name == "path" else settings.render_folder / named
    settings.renders += 1
    slug = re.sub(r"[^a-z0-9]+", "-", str(given.get("title", "")).lower()).strip("-")[:60]
    stem = slug or f"{form}-{settings.renders}"
    name, number = stem, 1
    while name in settings.rendered:
        number += 1
        name = f"{stem}-{number}"
    settings.rendered.add(name)
    return settings.render_folder / f"{name}.png"


# ---- pictures --------------------------------------------------------------------------------------------------------


def draw_image(array: Array, given: dict[str, Any], path: Path) -> None:
    """A tensor as it is, a pixel an element; `scale`, `width` and `height` enlarge without blurring. With a title: on a page."""
    resampling = required("PIL.Image").Resampling
    array = require_picture(array)
    if _needs_stretching(array):
        array = _stretched(array)
    image = picture(array)
    size = _picture_size(image.width, image.height, given)
    if size != image.size:
        grows = size[0] >= image.width and size[1] >= image.height
        image = image.resize(size, resampling.NEAREST if grows else resampling.LANCZOS)
    if "title" not in given:
        image.save(path, format="PNG")
        return
    figure = _figure(max(160, image.width + 40), image.height + 70)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.axis("off")
    figure.figimage(np.asarray(image), xo=(int(figure.bbox.width) - image.width) // 2, yo=20, cmap="gray", vmin=0, vmax=255)
    figure.text(0.5, 1 - 25 / figure.bbox.height, _plain(given["title"]), ha="center", va="center", fontsize=12)
    _save(figure, path)


def _needs_stretching(array: Array) -> bool:
    """Whether the values are no pixels: wider ints, or floats outside 0..1."""
    if not array_dtype(array).is_float:
        return array.dtype not in (np.uint8, np.bool_)
    values = float_array(array)
    finite = values[np.isfinite(values)]
    return bool(finite.size) and (float(finite.min()) < 0.0 or float(finite.max()) > 1.0)


def _stretched(array: Array) -> Array:
    """Values moved to 0..1, smallest to black and largest to white."""
    values = float_array(array).astype(np.float64)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.zeros(values.shape)
    low, high = float(finite.min()), float(finite.max())
    return np.asarray((values - low) / (high - low) if high > low else np.full(values.shape, 0.5))


def _picture_size(width: int, height: int, given: dict[str, Any]) -> tuple[int, int]:
    scale = given.get("scale", 1)
    if not is_int(scale) or not 1 <= scale <= MAX_SIDE:
        raise LibraryFault("0203", f"`scale` is a whole number of at least 1, not {to_text(scale)}")
    wide, high = width * int(scale), height * int(scale)
    if "width" in given and "height" in given:
        wide, high = int(given["width"]), int(given["height"])
    elif "width" in given:
        wide, high = int(given["width"]), max(1, round(height * int(given["width"]) / width))
    elif "height" in given:
        wide, high = max(1, round(width * int(given["height"]) / height)), int(given["height"])
    if max(wide, high) > MAX_SIDE:
        raise LibraryFault("0807", f"a picture of {wide} x {high} pixels is over the limit of {MAX_SIDE} a side")
    return wide, high


# ---- figures ---------------------------------------------------------------------------------------------------------


def _figure(width: int, height: int) -> Any:
    return required("matplotlib.figure").Figure(figsize=(width / DOTS_PER_INCH, height / DOTS_PER_INCH), dpi=DOTS_PER_INCH)


def _save(figure: Any, path: Path) -> None:
    required("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    figure.savefig(path, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})


def _plain(text: str) -> str:
    """Text that matplotlib takes letter for letter, not as a formula."""
    return text.replace("\\", "\\\\").replace("$", r"\$")


def _names(given: dict[str, Any], option: str, count: int) -> list[str] | None:
    """The texts of an option that names `count` things."""
    if option not in given:
        return None
    names = given[option]
    if not isinstance(names, list | tuple | range) or len(names) != count:
        raise LibraryFault("0203", f"`{option}` is a list of {count} names")
    return [_plain(to_text(name)) for name in names]


def _caption(axes: Any, given: dict[str, Any]) -> None:
    for option, put in (("title", axes.set_title), ("xlabel", axes.set_xlabel), ("ylabel", axes.set_ylabel)):
        if option in given:
            put(_plain(given[option]))


def draw_heatmap(array: Array, given: dict[str, Any], path: Path) -> None:
    """A tensor of rank 2 in colours, with its values written in where there is room; row 0 on top."""
    if array.ndim != 2 or array.size == 0:
        raise LibraryFault("0301", f"a heatmap has shape [rows, columns], not {shape_text(array.shape)}")
    rows, columns = array.shape
    labels = given.get("labels")
    if labels is not None and rows == columns and "rows" not in given and "columns" not in given:
        given = {**given, "rows": labels, "columns": labels}
    row_names, column_names = _names(given, "rows", rows), _names(given, "columns", columns)
    written = given.get("values", rows * columns <= MAX_ANNOTATED)
    if not isinstance(written, bool):
        raise LibraryFault("0203", f"`values` is a bool, not {type_name(written)}")
    if written and rows * columns > 10 * MAX_ANNOTATED:
        raise LibraryFault("0807", f"{rows * columns} values are too many to write into a heatmap")
    figure = _figure(given.get("width", 640), given.get("height", 560))
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
    _save(figure, path)


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


def draw_chart(array: Array, given: dict[str, Any], path: Path) -> None:
    """A line of a tensor of rank 1, or one a row of rank 2."""
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) > MAX_LINES):
        limit = f"with at most {MAX_LINES} lines"
        raise LibraryFault("0301", f"a chart has shape [points] or [lines, points] {limit}, not {shape_text(array.shape)}")
    lines = float_array(array[None, :] if array.ndim == 1 else array).astype(np.float64)
    labels = given.get("labels")
    names = _names({"labels": [labels] if isinstance(labels, str) else labels}, "labels", len(lines)) if labels is not None else None
    places = np.arange(lines.shape[1], dtype=np.float64)
    if "x" in given:
        places = float_array(to_tensor(given["x"]).contents).astype(np.float64)
        if places.shape != lines.shape[1:]:
            raise LibraryFault("0301", f"`x` has shape {shape_text(places.shape)}, and each line has {lines.shape[1]} points")
    if not isinstance(given.get("log", False), bool):
        raise LibraryFault("0203", f"`log` is a bool, not {type_name(given['log'])}")
    figure = _figure(given.get("width", 800), given.get("height", 480))
    axes = figure.add_subplot()
    for index, line in enumerate(lines):
        shown = np.where(np.isfinite(line), line, np.nan)
        axes.plot(places, shown, label=names[index] if names else None, marker="o" if len(line) == 1 else None, linewidth=1.5)
    if "x" not in given:
        axes.xaxis.get_major_locator().set_params(integer=True)
    if given.get("log"):
        axes.set_yscale("log", nonpositive="mask")
    axes.grid(alpha=0.3)
    if names:
        axes.legend()
    _caption(axes, given)
    figure.tight_layout()
    _save(figure, path)


FORMS: dict[str, Callable[[Array, dict[str, Any], Path], None]] = {"image": draw_image, "heatmap": draw_heatmap, "chart": draw_chart}


@family.function("render", result=STRING, uses_settings=True, form="String")
def render_value(settings: StdlibSettings, value: Any, form: Any = "", options: Any = None) -> str:
    """Draws the value and gives the path of the PNG file."""
    options = {} if options is None else options
    if not isinstance(form, str) or not isinstance(options, dict):
        raise LibraryFault("0204", "`render` takes a value, the name of a form, and options by name")
    return str(render(value, form, options, settings))
