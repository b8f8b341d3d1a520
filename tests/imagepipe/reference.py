"""ImagePipe's operations once more, in NumPy's float64, as its page states them."""

import numpy as np

Picture = np.ndarray


def bytes_of(values: np.ndarray) -> Picture:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def brighten(x: Picture, amount: float) -> Picture:
    return bytes_of(x.astype(np.float64) + amount)


def contrast(x: Picture, percent: float) -> Picture:
    return bytes_of((x.astype(np.float64) - 127.5) * ((100 + percent) / 100) ** 2 + 127.5)


def invert(x: Picture) -> Picture:
    return (255 - x.astype(np.int64)).astype(np.uint8)


def grayscale(x: Picture) -> Picture:
    luma = x.astype(np.float64) @ np.array([0.2126, 0.7152, 0.0722])
    return np.repeat(bytes_of(luma)[:, :, None], 3, axis=2)


def blur(x: Picture, sigma: float) -> Picture:
    reach = int(np.ceil(3 * sigma))
    if reach == 0:
        return x
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * sigma**2))
    weights /= weights.sum()
    padded = np.pad(x.astype(np.float64), ((reach, reach), (reach, reach), (0, 0)), mode="edge")
    across = sum(w * padded[:, i : i + x.shape[1]] for i, w in enumerate(weights))
    return bytes_of(np.asarray(sum(w * across[i : i + x.shape[0]] for i, w in enumerate(weights))))


def resize(x: Picture, width: int, height: int) -> Picture:
    rows, columns = x.shape[:2]
    v = np.clip((np.arange(height) + 0.5) * rows / height - 0.5, 0, rows - 1)
    u = np.clip((np.arange(width) + 0.5) * columns / width - 0.5, 0, columns - 1)
    top, left = np.floor(v).astype(int), np.floor(u).astype(int)
    down, right = np.minimum(top + 1, rows - 1), np.minimum(left + 1, columns - 1)
    a, b = (u - left)[None, :, None], (v - top)[:, None, None]
    wide = x.astype(np.float64)
    upper = (1 - a) * wide[top][:, left] + a * wide[top][:, right]
    lower = (1 - a) * wide[down][:, left] + a * wide[down][:, right]
    return bytes_of((1 - b) * upper + b * lower)


def crop(x: Picture, left: int, top: int, right: int, bottom: int) -> Picture:
    return x[top:bottom, left:right]


def rotate(x: Picture, angle: int) -> Picture:
    return np.rot90(x, -angle // 90)


def flip(x: Picture, way: str) -> Picture:
    return x[:, ::-1] if way == "horizontal" else x[::-1]
