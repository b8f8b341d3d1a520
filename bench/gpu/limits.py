"""What a device can do at most, by its maker's data sheet, and what of it a workload needs: the roofline model (Williams, Waterman and
Patterson, 2009)."""

from collections.abc import Mapping

from attrs import frozen


@frozen
class Limits:
    """Bytes a second of the device's memory, and operations a second by the type in which they are done."""

    bytes: float
    operations: Mapping[str, float]


_HOPPER = {"bf16": 989e12, "f16": 989e12, "tf32": 495e12, "f8": 1979e12, "i8": 1979e12, "f32": 67e12, "f64": 67e12}
DEVICES = {"H200": Limits(4.8e12, _HOPPER), "H100": Limits(3.35e12, _HOPPER)}
"""By a word of the device's name (SXM boards, dense matrices)."""


def limits_of(device: str) -> Limits | None:
    return next((limits for word, limits in DEVICES.items() if word in device), None)


@frozen
class Cost:
    """What a workload can't do without: operations of a type, and bytes read and written, each once. `unit`: in which its rate is told."""

    operations: float
    type: str
    bytes: float
    unit: str

    def rate(self, seconds: float) -> float:
        """In `unit`, which is a million millions a second."""
        return (self.bytes if self.unit == "TB/s" else self.operations) / seconds / 1e12

    def least_seconds(self, limits: Limits) -> float:
        return max(self.operations / limits.operations[self.type], self.bytes / limits.bytes)

    def bound(self, limits: Limits) -> str:
        """Which of the two limits it would meet first."""
        return "memory" if self.bytes / limits.bytes >= self.operations / limits.operations[self.type] else self.type


def of_products(m: int, n: int, k: int, type: str, bytes_in: int, bytes_out: int, batch: int = 1) -> Cost:
    """Of `batch` products of m x k and k x n matrices, whose elements have these sizes."""
    moved = batch * ((m * k + k * n) * bytes_in + m * n * bytes_out)
    return Cost(2.0 * batch * m * n * k, type, moved, "TOP/s" if type == "i8" else "TFLOP/s")


def of_bytes(count: float) -> Cost:
    """Of what moves bytes and computes little."""
    return Cost(0.0, "f32", count, "TB/s")


def of_keys(count: int, bytes_each: int) -> Cost:
    """Of sorting; the rate is told in keys."""
    return Cost(float(count), "f32", 2.0 * count * bytes_each, "T keys/s")
