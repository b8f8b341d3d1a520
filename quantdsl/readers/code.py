"""What the readers' functions are written with: open arrays whose indices are known to be inside, and loops that go on while a condition
holds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.hir.host import MatchBytes, ReadBytes
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, NativeVariable, Number, Record
from compiler.hir.native_types import I32, I64, U8, U64
from compiler.hir.types import Array, HirType, Pointer
from runtime.records import frozen


def open_array(element: HirType) -> Pointer:
    """The type of a parameter that is an array of any length."""
    return Pointer(Array(element, None))


BYTES, I32S, I64S, U64S = map(open_array, (U8, I32, I64, U64))


@frozen
class OpenArray:
    """An array with `count` elements. Its user knows that indices are inside."""

    address: Record
    count: Expr

    @classmethod
    def of(cls, address: Record, count: Number) -> "OpenArray":
        return cls(address, address.code.number(count, "i64"))

    def __getitem__(self, index: Number) -> Record:
        code = self.address.code
        return code.read(code.row(self.address, index, self.count, proved=True))

    def __setitem__(self, index: Number, value: Number) -> None:
        code = self.address.code
        code.write(code.row(self.address, index, self.count, proved=True), value)

    def read(self, at: Expr, to: str, order: str = "little") -> Expr:
        """Of an array of bytes: the int whose bytes begin at that one."""
        read = ReadBytes(pointer=self.address.hir, at=at.hir, count=self.count.hir, to=to, order=order, site=-1)
        return at.code.emit(read)

    def matches(self, at: Expr, *values: Expr) -> Expr:
        """Of an array of bytes: which of the 64 from that one on are one of the values, a bit each."""
        compared = tuple(value.hir for value in values)
        return at.code.emit(MatchBytes(pointer=self.address.hir, at=at.hir, count=self.count.hir, values=compared, site=-1))


def advance(variable: NativeVariable, by: Number = 1) -> None:
    variable.value = variable.value.wrapping_add(by)


@contextmanager
def while_(code: FunctionCode, condition: Callable[[], Expr]) -> Iterator[None]:
    """A loop that looks at the condition before every turn."""
    with code.repeat():
        with code.when(~condition()):
            code.break_()
        yield
