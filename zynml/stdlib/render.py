"""`render value { title: "Loss" }`: which form is meant, where it goes, and what options it takes. Returns where each was written; saying
so is the caller's business."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import STRING
from runtime.tensor import Array, Tensor
from runtime.uncollected import uncollected
from runtime.values import ElementSet, StructValue
from zynml.stdlib.creation import array_of_list, to_tensor
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.paths import file_faults, replaced_whole
from zynml.stdlib.printing import to_text
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import is_int, shape_text
from zynml.stdlib.utf8 import encoded

family = FunctionFamily()

COMMON = ("title", "width", "height", "file", "path")
AXES = ("xlabel", "ylabel")
OPTIONS: dict[str, tuple[str, ...]] = {
    "image": (*COMMON, "scale"),
    "heatmap": (*COMMON, "values", "labels", "rows", "columns", *AXES, "colormap"),
    "chart": (*COMMON, "labels", "x", *AXES, "log"),
    "histogram": (*COMMON, "bins", "range", *AXES, "log"),
    "scatter": (*COMMON, "x", "color", "colormap", "size", *AXES, "log"),
    "grid": ("title", "width", "file", "path", "columns", "labels", "scale"),
    "table": ("title", "width", "file", "path", "columns", "rows", "format"),
    "markdown": ("title", "width", "file", "path"),
}
"""What each form takes."""
KINDS = {
    "image": ("png",),
    "grid": ("png",),
    "table": ("html",),
    "markdown": ("md", "html"),
    **dict.fromkeys(("heatmap", "chart", "histogram", "scatter"), ("png", "svg")),
}
"""The endings of each form's files, the usual one first."""
SYNONYMS = {"line": "chart", "line_chart": "chart", "lines": "chart", "picture": "image", "images": "grid"}
TEXTS = ("title", "file", "path", *AXES, "colormap")
MAX_SIDE = 16384


def render(value: Any, form: str, options: dict[str, Any], settings: StdlibSettings) -> Path:
    """Draws the value and gives the path of the file: its own, or the page that the run collects."""
    chosen = _form(value, form or str(options.get("form", "")))
    given = {name: option for name, option in options.items() if name != "form"}
    _require_options(given, chosen)
    page = settings.page
    named = "path" in given or "file" in given
    path = _target(settings, given, chosen) if named or page is None else page.path
    kind = path.suffix[1:].lower() if named else KINDS[chosen][0]
    with file_faults(path):
        content, inside = _text(value, chosen, given, kind) if chosen in ("table", "markdown") else _drawn(value, chosen, given, kind)
        if page is None or named:
            with replaced_whole(path) as file:
                file.write_bytes(content)
        if page is not None:
            page.add(chosen, str(given.get("title", "")) if chosen in ("table", "markdown") else "", inside())
    return path


def _drawn(value: Any, chosen: str, given: dict[str, Any], kind: str) -> tuple[bytes, Callable[[], str]]:
    """The file of a picture, and what makes the part of a page of it."""
    from zynml.stdlib import render_figures as figures
    from zynml.stdlib import render_pictures as pictures
    from zynml.stdlib.render_texts import fragment

    if chosen == "grid":
        content = pictures.draw_grid(pictures.pictures_of(value), given, kind)
    else:
        draw: dict[str, Callable[[Array, dict[str, Any], str], bytes]] = {
            "image": pictures.draw_image,
            "heatmap": figures.draw_heatmap,
            "chart": figures.draw_chart,
            "histogram": figures.draw_histogram,
            "scatter": figures.draw_scatter,
        }
        with uncollected():  # a figure is some ten thousand objects, none of them garbage before it is written
            content = draw[chosen](_array(value), given, kind)
    return content, lambda: fragment(content, kind)


def _text(value: Any, chosen: str, given: dict[str, Any], kind: str) -> tuple[bytes, Callable[[], str]]:
    """The file of a table or of markdown, and what makes the part of a page of it."""
    from zynml.stdlib import render_texts as texts

    if chosen == "markdown" and not isinstance(value, str):
        raise LibraryFault("0203", f"`render` as markdown takes a String, not {type_name(value)}")
    if kind == "md":
        return encoded(value), lambda: texts.markdown_html(value)
    inside = texts.markdown_html(value) if chosen == "markdown" else texts.table_html(value, given)
    if "width" in given:
        inside = f'<div style="max-width: {given["width"]}px">\n{inside}\n</div>'
    return encoded(texts.page_of(str(given.get("title", "")), chosen, inside)), lambda: inside


def _array(value: Any) -> Array:
    if isinstance(value, list | tuple) and any(isinstance(row, list | tuple) for row in value):
        value = [list(row) if isinstance(row, tuple) else row for row in value]
        # Lines of a chart may differ in length; nan draws nothing.
        lengths = [len(row) for row in value if isinstance(row, list)]
        if len(lengths) == len(value) and len(set(lengths)) > 1 and all(not isinstance(v, list) for row in value for v in row):
            out = np.full((len(value), max(lengths)), np.nan)
            for index, row in enumerate(value):
                out[index, : len(row)] = array_of_list(row).astype(np.float64)
            return out
    if isinstance(value, range):
        value = list(value)
    if isinstance(value, str | dict | StructValue) or value is None:
        raise LibraryFault("0203", f"`render` draws tensors and lists of numbers, not {type_name(value)}")
    return to_tensor(value).contents


def _form(value: Any, form: str) -> str:
    """The form meant: by name, or by the value. Text is markdown, a list of structs or a map a table, a list of pictures a grid."""
    form = SYNONYMS.get(form, form)
    if form and form not in OPTIONS:
        raise LibraryFault("0204", f"`render` knows no form `{form}`", f"forms: {', '.join(OPTIONS)}")
    if form:
        return form
    if isinstance(value, str):
        return "markdown"
    if isinstance(value, dict | StructValue) and not isinstance(value, ElementSet):
        return "table"
    if isinstance(value, list) and value:
        if all(isinstance(row, dict | StructValue) for row in value):
            return "table"
        if all(isinstance(part, Tensor) and len(part.shape) in (2, 3) for part in value):
            return "grid"
    array = _array(value)
    if array.ndim in (2, 3):
        return "image"
    if array.ndim == 1:
        return "chart"
    raise LibraryFault("0301", f"a tensor of shape {shape_text(array.shape)} can't be drawn", "pictures have rank 2 or 3, lines rank 1")


def _require_options(given: dict[str, Any], chosen: str) -> None:
    for name in given:
        if name not in OPTIONS[chosen]:
            raise LibraryFault("0204", f"`render` as {chosen} has no option `{name}`", f"options: {', '.join(OPTIONS[chosen])}")
    for name in TEXTS:
        if name in given and not isinstance(given[name], str):
            raise LibraryFault("0203", f"`{name}` is a String, not {type_name(given[name])}")
    for name in ("width", "height"):
        if name in given and not (is_int(given[name]) and 1 <= given[name] <= MAX_SIDE):
            raise LibraryFault("0203", f"`{name}` is a number of pixels, 1 to {MAX_SIDE}, not {to_text(given[name])}")


def _target(settings: StdlibSettings, given: dict[str, Any], form: str) -> Path:
    """Where the file goes: `path` as given, `file` in the output folder, else a name made of the title that is new in this run."""
    kinds = KINDS[form]
    for name in ("path", "file"):
        if name in given:
            if "\0" in given[name]:
                raise LibraryFault("0807", "a path can't have a zero character")
            named = Path(given[name])
            if named.suffix[1:].lower() not in kinds:
                hint = "end the name in " + " or ".join(f"`.{kind}`" for kind in kinds)
                raise LibraryFault("0807", f"`{given[name]}`: a rendering as {form} is written as {' or '.join(kinds)}", hint)
            return named if name == "path" else settings.render_folder / named
    settings.renders += 1
    slug = re.sub(r"[^a-z0-9]+", "-", str(given.get("title", "")).lower()).strip("-")[:60]
    stem = slug or f"{form}-{settings.renders}"
    name, number = stem, 1
    while name in settings.rendered:
        number += 1
        name = f"{stem}-{number}"
    settings.rendered.add(name)
    return settings.render_folder / f"{name}.{kinds[0]}"


@family.function("render", result=STRING, uses_settings=True, form="String")
def render_value(settings: StdlibSettings, value: Any, form: Any = "", options: Any = None) -> str:
    """Draws the value as image, heatmap, chart, histogram, scatter, grid (png), table (html) or markdown (md). Gives the file's path."""
    options = {} if options is None else options
    if not isinstance(form, str) or not isinstance(options, dict):
        raise LibraryFault("0204", "`render` takes a value, the name of a form, and options by name")
    return str(render(value, form, options, settings))
