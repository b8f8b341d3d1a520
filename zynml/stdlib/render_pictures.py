"""Renderings that are pixels: tensors as pictures, and several of them side by side."""

import io
import math
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from runtime.extras import required
from runtime.tensor import Array
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import array_dtype, float_array
from zynml.stdlib.images import picture, require_picture
from zynml.stdlib.printing import to_text
from zynml.stdlib.render_figures import figure_of, names_of, plain, written_figure
from zynml.stdlib.shapes import is_int, shape_text

MAX_SIDE = 16384
MAX_PICTURES = 1024
GAP = 4
"""Pixels between the pictures of a grid."""


def draw_image(array: Array, given: dict[str, Any], kind: str) -> bytes:
    """A tensor as it is, a pixel an element; `scale`, `width` and `height` enlarge without blurring. With a title: on a page."""
    resampling = required("PIL.Image").Resampling
    image = picture(_as_pixels(array))
    size = _picture_size(image.width, image.height, given)
    if size != image.size:
        grows = size[0] >= image.width and size[1] >= image.height
        image = image.resize(size, resampling.NEAREST if grows else resampling.LANCZOS)
    if "title" not in given:
        return _png(image)
    figure = figure_of(max(160, image.width + 40), image.height + 70)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.axis("off")
    figure.figimage(np.asarray(image), xo=(int(figure.bbox.width) - image.width) // 2, yo=20, cmap="gray", vmin=0, vmax=255)
    figure.text(0.5, 1 - 25 / figure.bbox.height, plain(given["title"]), ha="center", va="center", fontsize=12)
    return written_figure(figure, "png")


def _png(image: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def _as_pixels(array: Array) -> Array:
    """The picture that a tensor is, its values moved to 0..1 where they are no pixels."""
    array = require_picture(array)
    return _stretched(array) if _needs_stretching(array) else array


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


# ---- grids -----------------------------------------------------------------------------------------------------------


def pictures_of(value: Any) -> list[Array]:
    """The pictures of a grid: a list of tensors of rank 2 or 3, or a tensor of them, [N, H, W] or [N, H, W, C]."""
    if isinstance(value, list) and not (value and isinstance(value[0], int | float)):
        found = [to_tensor(part).contents for part in value]
    else:
        array = to_tensor(value).contents
        if array.ndim not in (3, 4):
            raise LibraryFault("0301", f"a grid has shape [N, H, W] or [N, H, W, C], not {shape_text(array.shape)}")
        found = list(array)
    if not 1 <= len(found) <= MAX_PICTURES:
        raise LibraryFault("0301", f"a grid has 1 to {MAX_PICTURES} pictures, and this is {len(found)}")
    return found


def draw_grid(arrays: list[Array], given: dict[str, Any], kind: str) -> bytes:
    """Pictures row by row, `columns` of them in each, every one a pixel an element times `scale`, or as many times as `width`
    has room for; labels under them, a title above."""
    columns = given.get("columns", math.ceil(math.sqrt(len(arrays))))
    if not is_int(columns) or not 1 <= columns <= MAX_PICTURES:
        raise LibraryFault("0203", f"`columns` is a whole number of at least 1, not {to_text(columns)}")
    tiles = [picture(_as_pixels(array)) for array in arrays]
    columns = min(int(columns), len(tiles))
    fitting = given.get("width", 0) // columns // max(tile.width for tile in tiles)
    scale = given.get("scale", max(1, fitting))
    if not is_int(scale) or not 1 <= scale <= MAX_SIDE:
        raise LibraryFault("0203", f"`scale` is a whole number of at least 1, not {to_text(scale)}")
    labels = names_of(given, "labels", len(arrays))
    wide, high = (max(getattr(tile, side) for tile in tiles) * int(scale) for side in ("width", "height"))
    rows = math.ceil(len(tiles) / columns)
    under, above = (18 if labels else 0), (40 if "title" in given else 0)
    width, height = columns * (wide + GAP) - GAP, rows * (high + under + GAP) - GAP + above
    if max(width, height) > MAX_SIDE:
        raise LibraryFault("0807", f"a picture of {width} x {height} pixels is over the limit of {MAX_SIDE} a side")
    Image = required("PIL.Image")
    page = Image.new("RGB", (width, height), "white")
    corners = [((n % columns) * (wide + GAP), (n // columns) * (high + under + GAP) + above) for n in range(len(tiles))]
    for tile, (x, y) in zip(tiles, corners, strict=True):
        page.paste(tile.convert("RGB").resize((tile.width * int(scale), tile.height * int(scale)), Image.Resampling.NEAREST), (x, y))
    if not labels and "title" not in given:
        return _png(page)
    figure = figure_of(width, height)
    figure.figimage(np.asarray(page))
    if "title" in given:
        figure.text(0.5, 1 - 20 / height, plain(given["title"]), ha="center", va="center", fontsize=12)
    for label, (x, y) in zip(labels or (), corners, strict=False):
        figure.text((x + wide / 2) / width, 1 - (y + high + under / 2) / height, label, ha="center", va="center", fontsize=8)
    return written_figure(figure, "png")
