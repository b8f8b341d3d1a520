"""The types of a tensor's elements, as programs and as NumPy name them."""

from typing import Any

import ml_dtypes
import numpy as np

from runtime.plain_types import PLAIN

_OTHERS: dict[str, Any] = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}

_ORDER = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")

DTYPES: dict[str, np.dtype[Any]] = {name: PLAIN[name] if name in PLAIN else np.dtype(_OTHERS[name]) for name in _ORDER}
"""A program's name of each element type, and NumPy's."""

NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}
