"""The types of elements that are NumPy's own, by a program's names. What knows the others, too (`runtime.element_types`), takes longer to
import than a first call that meets none of them."""

from typing import Any

import numpy as np

PLAIN: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}

PLAIN_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in PLAIN.items()}
