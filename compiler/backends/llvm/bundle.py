"""A HIR value as LLVM values: one for each point of its register axes, and the axis called `simd...` as the lanes of each.

Where a value with a simd axis is the same in all lanes it still is a vector, so that shapes follow from types alone."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from compiler.backends.llvm.writer import FunctionWriter, LlvmValue
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.types import HirType, Tile
from runtime.records import frozen

Point = tuple[int, ...]


def is_simd(axis: str) -> bool:
    return axis.startswith("simd")


def unsupported(feature: str, instead: str, backend: str = "CPU") -> ZyntaxError:
    """ZYN0109: valid, but this back end has no code for it; says what works."""
    return ZyntaxError(Diagnostic("0109", f"{feature} isn't supported yet by the {backend} back end", hint=instead))


def static_axes(type: HirType, backend: str = "CPU") -> tuple[tuple[tuple[str, int], ...], str | None, int]:
    """Register axes with extents, the simd axis and its lanes (0: none)."""
    assert isinstance(type, Tile)
    registers: list[tuple[str, int]] = []
    simd, lanes = None, 0
    for name, extent in type.axes:
        size = extent.value
        if size is None:
            feature = f"a tile whose extent `{extent}` along `{name}` isn't a number"
            raise unsupported(feature, "schedule the function first: axes left over must have static extents", backend)
        if is_simd(name):
            if simd is not None:
                raise unsupported(f"a value with two vector axes, `{simd}` and `{name}`", "place one of them in registers", backend)
            simd, lanes = name, size
        else:
            registers.append((name, size))
    return tuple(registers), simd, lanes


@frozen(eq=False)
class Bundle:
    """`items` by point of `axes`, row-major; `lanes` of each along `simd`."""

    dtype: str
    axes: tuple[tuple[str, int], ...]
    simd: str | None
    lanes: int
    items: tuple[LlvmValue, ...]

    @property
    def scalar(self) -> LlvmValue:
        """The one value of a bundle without register axes."""
        assert len(self.items) == 1
        return self.items[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    def at(self, point: dict[str, int]) -> LlvmValue:
        """The value at a point that names at least our axes."""
        position = 0
        for name, size in self.axes:
            position = position * size + point[name]
        return self.items[position]


def points(axes: Sequence[tuple[str, int]]) -> Iterator[dict[str, int]]:
    """Every point of the axes, last fastest."""
    names = [name for name, _ in axes]
    for numbers in product(*[range(size) for _, size in axes]):
        yield dict(zip(names, numbers, strict=True))


def scalar_bundle(dtype: str, value: LlvmValue) -> Bundle:
    return Bundle(dtype, (), None, 0, (value,))


def build(w: FunctionWriter, type: Tile, make: Callable[[dict[str, int]], LlvmValue]) -> Bundle:
    """A bundle of this type; scalars that `make` gives are spread over the lanes."""
    if not type.axes:
        return Bundle(type.dtype, (), None, 0, (make({}),))
    axes, simd, lanes = static_axes(type, w.module.backend)
    return Bundle(type.dtype, axes, simd, lanes, tuple(w.splat(make(point), lanes) for point in points(axes)))


