"""How much shared memory a kernel takes, by variable, and what is said when a block can't have that much."""

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import BarrierMake
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.types import Barrier, Mem, bytes_of
from runtime.records import frozen

_SWIZZLED = 1024
_PLAIN = 16


@frozen
class SharedUse:
    """A variable in shared memory: its bytes, and of how many bytes its place is a multiple."""

    name: str
    bytes: int
    align: int = _PLAIN


def shared_use(op: SharedAlloc | BarrierMake) -> SharedUse:
    if isinstance(op, BarrierMake):
        assert isinstance(op.type, Barrier)
        return SharedUse(op.result.name, 8 * op.type.count, 8)
    align = max(op.type.align, _SWIZZLED if op.type.swizzle else _PLAIN)
    return SharedUse(op.result.name, _elements(op.type) * bytes_of(op.type.dtype), align)


def _elements(mem: Mem) -> int:
    """From the first element to behind the last; the verifier wants constant extents."""
    total = 1
    for position, dim in enumerate(mem.dims):
        extent, stride = dim.value or 0, mem.strides[position].value if mem.strides is not None else None
        total = total * extent if stride is None else total + (extent - 1) * stride
    return total


def shared_uses(function: HirFunction) -> Iterator[SharedUse]:
    """The variables of constant size, in order."""
    for op in _operations(function):
        if isinstance(op, SharedAlloc | BarrierMake):
            yield shared_use(op)


def _operations(function: HirFunction) -> Iterator[Instruction]:
    for top in function.body.body:
        yield from top.walk()


def laid_out(uses: Iterable[SharedUse]) -> int:
    """Bytes of all, one behind the other."""
    total = 0
    for use in uses:
        total = above(total, use.align) + use.bytes
    return total


def above(offset: int, align: int) -> int:
    """The next place that is a multiple."""
    return -(-offset // align) * align


def over_limit(function: HirFunction, limit: int, device: str, more: Iterable[SharedUse] = ()) -> Diagnostic | None:
    """What is wrong when the function's variables, and `more` whose size the launch knows, don't fit in a block's shared memory on the
    device (code 0503), or in what `@shared` allows; None when they do."""
    uses = [*shared_uses(function), *more]
    total = laid_out(uses)
    cap = function.kernel_info.shared_memory_bytes if function.kernel_info is not None else 0
    if total <= (min(limit, cap) if cap else limit):
        return None
    most = f"`{device}` has {limit}" if total > limit else f"`@shared({cap})` allows {cap}"
    largest = max(uses, key=lambda use: use.bytes)
    return Diagnostic(
        "0503",
        f"a block needs {total} bytes of shared memory; {most}",
        function.span,
        notes=tuple(f"`{use.name}` takes {use.bytes} bytes" for use in uses),
        hint=f"make `{largest.name}` smaller",
    )
