"""Whole numbers in machine code, with how large they can be: arithmetic on them never leaves 64 bits."""

from compiler.backends.llvm.types import I64
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.launch.native_calls.plan import Unplannable
from runtime.records import frozen

MOST = 1 << 47
"""Extents, counts of elements and numbers of the caller's are below it in size; calls with others go the way through the program."""

_LARGEST = 1 << 62


@frozen(eq=False)
class WholeNumber:
    """A number that is computed when the code runs, at most `bound` in size. Raises Unplannable where the result of an operation may be too
    large. Affine forms are evaluated with it as with ints."""

    w: FunctionWriter
    value: LlvmValue
    bound: int

    def __attrs_post_init__(self) -> None:
        if self.bound > _LARGEST:
            raise Unplannable("a number may not fit in 64 bits")

    def of(self, other: "WholeNumber | int") -> "WholeNumber":
        return other if isinstance(other, WholeNumber) else known(self.w, other)

    def __add__(self, other: "WholeNumber | int") -> "WholeNumber":
        second = self.of(other)
        return WholeNumber(self.w, self.w.add(self.value, second.value), self.bound + second.bound)

    __radd__ = __add__

    def __mul__(self, factor: int) -> "WholeNumber":
        return WholeNumber(self.w, self.w.mul(self.value, constant(I64, factor)), self.bound * abs(factor))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> "WholeNumber":
        """Rounded down; the divisor is above 0."""
        w, by = self.w, constant(I64, divisor)
        quotient, rest = w.binary("sdiv", self.value, by), w.binary("srem", self.value, by)
        below = w.convert("sext", w.compare("slt", rest, constant(I64, 0)), "i64")
        return WholeNumber(w, w.add(quotient, below), self.bound // divisor + 1)

    def at_least_0(self) -> "WholeNumber":
        return WholeNumber(self.w, self.w.intrinsic("smax", self.value, constant(I64, 0)), self.bound)

    def largest(self, other: "WholeNumber | int") -> "WholeNumber":
        second = self.of(other)
        return WholeNumber(self.w, self.w.intrinsic("smax", self.value, second.value), max(self.bound, second.bound))

    def smallest(self, other: "WholeNumber | int") -> "WholeNumber":
        second = self.of(other)
        return WholeNumber(self.w, self.w.intrinsic("smin", self.value, second.value), max(self.bound, second.bound))


def known(w: FunctionWriter, number: int) -> WholeNumber:
    return WholeNumber(w, constant(I64, number), abs(number))
