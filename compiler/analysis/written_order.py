"""Sums and products of floats that nothing permits to reassociate: their axes run in time, one element after the other, in the order in
which the reduction names them. So do loops that the program marks as serial."""

from compiler.analysis.accesses import reorders
from compiler.hir.core import Reduce, Scan, dtype_of
from compiler.hir.module import HirFunction


def in_written_order(field: HirFunction) -> list[Reduce | Scan]:
    """The reductions and running values of a field whose order is fixed."""
    ordered: list[Reduce | Scan] = []
    for op in field.body.body:
        match op:
            case Reduce(monoid=monoid, values=(value, *_), flags=flags) | Scan(monoid=monoid, value=value, flags=flags):
                if not reorders(monoid, dtype_of(value), flags):
                    ordered.append(op)
            case _:
                pass
    return ordered


def axes_in_written_order(field: HirFunction) -> tuple[str, ...]:
    """Their axes, those of each in its order, and those that the program wants in it."""
    serial = [wish.axis for wish in field.loops if wish.serial]
    return tuple(dict.fromkeys([*(axis for op in in_written_order(field) for axis in op.over), *serial]))
