"""Fields whose sum reads copies of its operands instead of them, along axes of its own: what was an axis becomes a form of others."""

from collections.abc import Mapping
from typing import Any

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.cuts.workspaces import Copied
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.product_sums import SumOfLoads
from runtime.records import Factory, evolve, frozen


@frozen(eq=False)
class CopiedRead:
    """Where a copy is read instead of its source, or that itself as it is viewed."""

    copy: Copied | None
    index: tuple[Affine, ...]


@frozen(eq=False)
class Reading:
    """What is read where instead, and along which axis of the sum it is contiguous. `axes`: new ones, and extents that change; `forms`:
    axes that are gone, in terms of these; `exist`: what is at least 0 where elements of results exist, if not everywhere; `counting`:
    where products count, which are zeros elsewhere, but for numbers that aren't finite; `views`: memories whose last two dims are seen as
    one, and how long the last is."""

    function: HirFunction
    found: SumOfLoads
    along: str
    axes: Mapping[str, Affine]
    forms: Mapping[str, Affine]
    reads: Mapping[Load, CopiedRead]
    exist: tuple[Affine, ...] = ()
    counting: tuple[Affine, ...] = ()
    views: Mapping[Value, int] = Factory(dict)

    @property
    def copies(self) -> tuple[Copied, ...]:
        return tuple(read.copy for read in self.reads.values() if read.copy is not None)

    def field(self) -> tuple[HirFunction, SumOfLoads]:
        """The field that reads the copies, and its sum."""
        product = self.found
        field, out, loads = self.rewritten()
        target = out.values[product.target.results[0]].source
        assert isinstance(target, Contract | Reduce)
        a, b, scale = loads[product.a], loads[product.b], product.scale
        if scale is None:
            described = product_sum(target)
            assert described is not None
            return field, SumOfLoads(target, product.to, a, b, described, bounds=tuple(map(out.form, product.bounds)))
        described = evolve(product.described, op=target, a=a.result, b=b.result, k=target.over)
        scale = evolve(scale, values=tuple(out.values[value] for value in scale.values))
        return field, SumOfLoads(target, product.to, a, b, described, scale=scale)

    def rewritten(self) -> tuple[HirFunction, FieldCopy, dict[Load, Load]]:
        """The field alone; what stands for the values of the old one, and for its loads."""
        old, product = self.function, self.found
        out = FieldCopy(old, self.forms)
        dims = {memory: mem_of(memory).dims for memory in self.views}
        out.parameters(
            {memory: evolve(mem_of(memory), dims=(*dims[memory][:-2], dims[memory][-2] * last)) for memory, last in self.views.items()}
        )
        memories = {copy: out.function.parameter(copy.name, evolve(copy.mem, readonly=True)) for copy in self.copies}
        for axis, extent in {**old.axes, **self.axes}.items():
            if axis not in self.forms:
                out.function.axis(axis, extent)

        loads: dict[Load, Load] = {}
        for op in needed(old):
            changes: dict[str, Any] = {}
            if isinstance(op, Reduce | Contract):
                changes["over"] = (*(axis for axis in op.over if axis not in self.forms and axis != self.along), self.along)
            if isinstance(op, Load) and op in self.reads:
                read = self.reads[op]
                changes["mem"], changes["index"] = out.values[op.mem] if read.copy is None else memories[read.copy], read.index
            elif isinstance(op, Store) and op.mem in self.views:
                index = tuple(map(out.form, op.index))
                changes["index"] = (*index[:-2], index[-2] * self.views[op.mem] + index[-1])
            elif isinstance(op, Load | Store) and self.exist and any(name in self.forms for index in op.index for name in index.names):
                changes["where"] = self._existing(out.body, None if op.where is None else out.values[op.where])
            new = out.rebuilt(op, **changes)
            if op is product.target and self.counting:
                new = self._counted(out.body, new)
            new = out.emit(op, new)
            if isinstance(op, Load) and isinstance(new, Load):
                loads[op] = new
        return out.finish(), out, loads

    def _counted(self, b: Builder, sum: Instruction) -> Reduce:
        """A sum of those products only that count."""
        match sum:
            case Contract(a=left, b=right, over=over, to=to):
                value, flags = b.mul(b.cast(left, to), b.cast(right, to), *((("contract",),) if is_float(to) else ())), sum.flags
            case Reduce(values=(value,), over=over, flags=flags):
                to = dtype_of(value)
            case _:
                raise AssertionError(f"{sum.name} is no sum of products")
        where = b.none_negative(self.counting)
        assert where is not None
        counted = b.select(where, value, b.const(0.0 if is_float(to) else 0, to))
        return Reduce(monoid="add", values=(counted,), over=over, flags=flags, span=sum.span)

    def _existing(self, b: Builder, where: Value | None) -> Value | None:
        exists = b.none_negative(self.exist)
        return exists if where is None or exists is None else b.op("and", where, exists)


def dim_of(load: Load, axis: str) -> int | None:
    """The dim that runs along the axis and nothing else."""
    dims = [dim for dim, form in enumerate(load.index) if axis in form.names]
    return dims[0] if len(dims) == 1 and load.index[dims[0]] == Affine.of(axis) else None
