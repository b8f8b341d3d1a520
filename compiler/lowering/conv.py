"""Convolutions: the names `stride`, `padding`, `dilation` and `groups` in their bodies, and the usual output formula for sizes that
no unguarded index states."""

from collections.abc import Iterable, Sequence

from compiler.hir.affine import Affine
from compiler.lowering.body import Access, Body
from compiler.lowering.numbers import Operand, Tuple, affine
from compiler.lowering.ranges import extreme
from compiler.lowering.sizes import Sizes, SizeStatement, dim_form, solve_for
from compiler.lowering.walk import evaluate
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType

KINDS = (KernelType.CONV2D, KernelType.CONV2D_DEPTHWISE)
_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def bind_options(body: Body, span: Span) -> None:
    """The options as names: what the annotation gives, else what is in scope, else the usual default."""
    if body.kind not in KINDS:
        return
    for name, default in _DEFAULTS.items():
        given = body.kernel.option(name)
        if given is None:
            if body.names.lookup(name) is None:
                body.names.bind(name, affine(Affine((), default)), span, "an option of the kernel")
            continue
        body.names.bind(name, _operand(body, given), span, "an option of the kernel")


def _operand(body: Body, given: object) -> Operand:
    if isinstance(given, nodes.Expression):
        return evaluate(body, given)
    if isinstance(given, tuple):
        return Tuple(tuple(_operand(body, element) for element in given))
    return affine(Affine((), int(given)))  # type: ignore[call-overload]


def solve_windows(sizes: Sizes, accesses: Sequence[Access], wanted: Iterable[str]) -> None:
    """Sizes of guarded windows: what lies outside on the low side, the padding, may lie outside on the high side too.

    `x[s*y + d*r - p]` gives s*(Y-1) + d*(R-1) - p <= dim - 1 + p, that is Y = (dim + 2p - d*(R-1) - 1) / s + 1."""
    unknown = [name for name in wanted if name not in sizes.solved]
    progress = True
    while progress:
        progress = False
        for name in unknown:
            if name in sizes.solved:
                continue
            window = _window(sizes, name, accesses, unknown)
            if window is not None:
                sizes.settle(name, window)
                progress = True
        if progress:
            sizes.solve(accesses, unknown)


def _window(sizes: Sizes, name: str, accesses: Sequence[Access], unknown: Sequence[str]) -> SizeStatement | None:
    for access in accesses:
        tensor = sizes.tensor(access.memory)
        if tensor is None or len(access.index) != tensor.rank or not access.guards:
            continue
        for axis, form in enumerate(access.index):
            high = extreme(form, access.ranges, upper=True)
            low = extreme(form, access.ranges, upper=False)
            if name not in high.names or low.value is None:
                continue
            if any(other in unknown and other not in sizes.solved and other != name for other in high.names):
                continue
            if any(name_ in access.opaque for name_ in high.names):
                continue
            extent = dim_form(tensor, axis) + max(0, -low.value)
            solution = solve_for(high + 1, extent, name)
            if solution is not None:
                return SizeStatement(solution, f"the output formula of `{access.words}`", access.span)
    return None
