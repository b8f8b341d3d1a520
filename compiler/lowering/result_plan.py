"""What a compute block results in: how lowering plans each result, and how they come to the program. Imports no stage of the compiler:
a call that was kept in the cache is made with nothing else."""

from typing import Any

from compiler.hir.affine import Affine
from compiler.typed_ast.types import DType
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class ResultPlan:
    """One result. `scalar`: a tensor of rank 0 handed back as a number. `zeroed`: must start at 0 (elements that no write
    covers, or custom kernels), but not at a launch where there are forms `unless` and each is at least 0. `copy_of`: starts as a copy
    of this input (`d[i] = ...` without `out`). `input`: is this mutable input itself."""

    name: str
    dtype: DType
    dims: tuple[Affine, ...] = field(converter=as_tuple)
    scalar: bool = False
    zeroed: bool = False
    unless: tuple[Affine, ...] = field(default=(), converter=as_tuple)
    inside: tuple[tuple[Affine, Affine], ...] = field(default=(), converter=as_tuple)
    """From where on and up to where all elements are written, by dimension: zeros are needed around it alone. Empty: nobody knows."""
    copy_of: str | None = None
    input: str | None = None
    group: int = 0
    """Results of one group > 0 form one tuple in the value (an index `(i, j)` beside its value)."""


def grouped(plans: tuple[ResultPlan, ...], results: list[Any]) -> Any:
    """One result is the value; several are a tuple; results of one group are a tuple inside it."""
    parts: list[Any] = []
    groups: dict[int, list[Any]] = {}
    for plan, result in zip(plans, results, strict=True):
        if plan.group == 0:
            parts.append(result)
        elif plan.group in groups:
            groups[plan.group].append(result)
        else:
            groups[plan.group] = [result]
            parts.append(groups[plan.group])
    closed = [tuple(part) if isinstance(part, list) else part for part in parts]
    return closed[0] if len(closed) == 1 else tuple(closed)


def number_of(array: Any, dtype: DType) -> Any:
    """A rank-0 result as the program's number: i64, f64 and bool are Python's own."""
    return array.item() if dtype in (DType.I64, DType.F64, DType.BOOL) else array[()]
