"""Pictures and tensors: [H, W] is grey, [H, W, C] has 1 (grey), 3 (colour) or 4 (with opacity) channels; u8, or floats in 0..1."""

from pathlib import Path
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from runtime.extras import required
from runtime.tensor import Array
from zynml.stdlib.dtypes import array_dtype, float_array
from zynml.stdlib.shapes import require_memory, shape_text

CHANNELS = (1, 3, 4)
_KEPT = {"L": "L", "RGB": "RGB", "RGBA": "RGBA", "1": "L", "LA": "RGBA", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}


def load_image(path: Path) -> Array:
    """A png or jpg as u8 (16-bit grey as u16)."""
    import warnings

    pillow, Image = required("PIL"), required("PIL.Image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(path, formats=("PNG", "JPEG")) as image:
                require_memory((image.height, image.width), 8)
                return _pixels(image)
        except pillow.UnidentifiedImageError:
            raise LibraryFault("0807", "this is no picture in its format, or a damaged one") from None
        except Image.DecompressionBombError:
            raise LibraryFault("0804", "the picture has too many pixels") from None
        except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise LibraryFault("0807", "this is no picture in its format, or a damaged one") from None


def _pixels(image: Any) -> Array:
    if image.mode.startswith("I"):
        return np.array(image).astype(np.uint16)
    if image.mode == "P":
        mode = "RGBA" if "transparency" in image.info else "RGB"
    else:
        mode = _KEPT.get(image.mode, "RGB")
    return np.array(image if image.mode == mode else image.convert(mode), dtype=np.uint8)


def to_bytes(array: Array) -> Array:
    """Pixels as u8: bools black and white, floats from 0..1 (rounded; what lies outside is cut), ints as they are."""
    dtype = array_dtype(array)
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.asarray(np.rint(np.clip(np.nan_to_num(float_array(array), nan=0.0), 0.0, 1.0) * 255.0)).astype(np.uint8)
    if array.size and (int(array.min()) < 0 or int(array.max()) > 255):
        wrong = int(array.min()) if int(array.min()) < 0 else int(array.max())
        raise LibraryFault("0807", f"a pixel is {wrong}, outside 0 to 255", "scale to floats in 0..1")
    return array.astype(np.uint8)


def require_picture(array: Array) -> Array:
    """The array as [H, W] or [H, W, 3 or 4]; fault 0301 for other shapes."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in CHANNELS):
        raise LibraryFault("0301", f"a picture has shape [H, W] or [H, W, C] with C = 1, 3 or 4, not {shape_text(array.shape)}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise LibraryFault("0301", f"a picture of shape {shape_text(array.shape)} has no pixels")
    return array


def picture(array: Array) -> Any:
    """A PIL image of a tensor."""
    Image = required("PIL.Image")
    return Image.fromarray(np.ascontiguousarray(to_bytes(require_picture(array))))


def save_image(path: Path, array: Array, format: str = "PNG") -> None:
    image = picture(array)
    if format == "JPEG" and image.mode == "RGBA":
        raise LibraryFault("0807", "a jpg has no opacity", "leave the fourth channel out: `t[:, :, :3]`")
    image.save(path, format=format, **({"quality": 95} if format == "JPEG" else {}))
