"""Results planned: dtype, extents, coverage and names, whether they are written or yielded. The function's parameters for them are
made here; what fills them is emitted elsewhere."""

from compiler.diagnostics import Diagnostic
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.prover import Inequalities
from compiler.hir.types import Mem
from compiler.lowering import collecting, reductions
from compiler.lowering.block import LoweredBlock, identifier
from compiler.lowering.body import Access, Body, Memory, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.kernel import (
    Equation,
    KernelArgument,
    ResultArgument,
)
from compiler.lowering.numbers import TensorOperand
from compiler.lowering.outputs import (
    DeclaredResult,
    covering,
    declared_dims,
    extents,
    read_before_written,
    surely_uncovered,
    uncovered_warning,
    written_whole,
)
from compiler.lowering.ranges import NumberRange
from compiler.lowering.result_plan import ResultPlan
from compiler.lowering.sizes import Sizes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from runtime.records import evolve


class ResultPlanning(LoweredBlock):
    """The part of lowering that decides on results, between the walks that find out and the one that emits."""

    facts: Inequalities

    def only_updates(self) -> bool:
        return bool(self.copies) or (not self.yielding and all(d.name not in self.written.targets for d in self.declared))

    # ---- results ----

    def plan_results(self, body: Body, seen: Body, warnings: list[Diagnostic]) -> list[tuple[Value, KernelArgument]]:
        if self.yielding:
            return self._plan_yielded(body)
        if self.only_updates():
            return []
        return [self._plan_result(body, declared, seen, warnings) for declared in self.declared]

    def plan_cleared(self, seen: Body) -> frozenset[str]:
        """The names of `shared var`s of which an element may be read before the iteration has written it."""
        shared = [memory for memory in seen.memories.values() if memory.role == "shared"]
        names = [memory.name for memory in shared]
        in_function = [access_in_function(access, self.sizes) for access in seen.accesses if access.memory in names]
        return frozenset(
            memory.name
            for memory in shared
            if names.count(memory.name) > 1
            or read_before_written(in_function, memory.name, tuple(map(self.sizes.in_function, memory.dims)), self.facts)
        )

    def _plan_result(self, body: Body, declared: DeclaredResult, seen: Body, warnings: list[Diagnostic]) -> tuple[Value, KernelArgument]:
        name = declared.name
        rank = len(seen.memories[name].dims)
        in_function = [access_in_function(access, self.sizes) for access in seen.accesses]
        given = declared_dims(body, declared)
        needs_extent = given is None or any(dim is None for dim in given)
        extents_, problems, needed = extents(in_function, name, rank, self.facts) if needs_extent else ([], [], [])
        self.diagnostics.extend(problems)
        dims = tuple(dim if dim is not None else extents_[axis] for axis, dim in enumerate(given or (None,) * rank)) if rank else ()
        for form in needed:
            body.equations.append(
                Equation(
                    form,
                    Affine(),
                    ">=",
                    Diagnostic("0802", f"the writes to `{name}` need larger inputs", seen.memories[name].span or self.result_write),
                )
            )
        dtype = declared.dtype or self.flows.before(("result", name), DType.F32).dtype
        needs = covering(in_function, name, dims, self.facts) if dims else ()
        custom = self.kernel.kernel_type is KernelType.CUSTOM
        if needs != () and not custom:
            blamed = surely_uncovered(in_function, name, dims, self.facts)
            if blamed is not None:
                warnings.append(uncovered_warning(name, blamed))
        always = custom or read_before_written(in_function, name, dims, self.facts)
        unless = () if always or needs is None else tuple(map(self.sizes.at_launch, needs))
        shape = self._full_shape(dims)
        inside = () if always or needs == () or len(shape) != len(dims) else written_whole(in_function, name, self.facts)
        mem = Mem(hir_name(dtype), dims)
        value = body.owner.value(identifier(name), mem)
        body.memories[name] = Memory(name, value, dtype, dims, "result", True, shape=dims, span=declared.span)
        body.names.bind(name, TensorOperand(name), declared.span or self.compute.span, "a result")
        position = len(self.results)
        self.results.append(
            ResultPlan(
                name,
                dtype,
                shape,
                scalar=declared.scalar,
                zeroed=always or needs != (),
                unless=unless,
                inside=[(self.sizes.at_launch(low), self.sizes.at_launch(high)) for low, high in inside],
            )
        )
        return value, ResultArgument(position)

    def _full_shape(self, dims: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The shape handed back: that of the flat inputs, where the result is as long as they are."""
        if self.flat_shape is not None and len(dims) == 1:
            rows = next(iter(self.sizes.rows.values()))
            if self.facts.proves_equal(dims[0], self.sizes.in_function(rows)):
                return self.flat_shape
        return tuple(map(self.sizes.at_launch, dims))

    def _plan_collected(self, body: Body, collection: collecting.Collection) -> list[tuple[Value, KernelArgument]]:
        collection.loops = tuple(range_in_function(loop, self.sizes) for loop in collection.loops)
        dims = collection.result_dims()
        parameters: list[tuple[Value, KernelArgument]] = []
        collection.dtypes = self._declared_dtypes(collection.dtypes)
        for position, dtype in enumerate(collection.dtypes):
            name = self._result_name(position, len(collection.dtypes))
            self._require_declared(body, position, len(collection.dtypes), dims)
            value = body.owner.value(identifier(name), Mem(hir_name(dtype), dims))
            collection.results.append(value)
            self.results.append(ResultPlan(name, dtype, tuple(map(self.sizes.at_launch, dims)), zeroed=collection.conditional))
            parameters.append((value, ResultArgument(position)))
        return parameters

    def _declared_dtypes(self, dtypes: list[DType]) -> list[DType]:
        """The dtypes of yielded results as the block declares them, where it does."""
        if len(self.declared) != len(dtypes):
            return dtypes
        for declared, dtype in zip(self.declared, dtypes, strict=True):
            if declared.dtype is not None and dtype.is_float and not declared.dtype.is_float:
                raise fault(
                    "0207",
                    f"what is yielded is {dtype.value}, which doesn't fit {declared.dtype.value} without loss",
                    declared.span,
                    hint=f"declare {dtype.value}, or convert what is yielded with `as {declared.dtype.value}`",
                )
        return [declared.dtype or dtype for declared, dtype in zip(self.declared, dtypes, strict=True)]

    def _require_declared(self, body: Body, position: int, count: int, dims: tuple[Affine, ...]) -> None:
        """A declared shape of a yielded result must be the one that the loops give."""
        if len(self.declared) != count:
            return
        declared = self.declared[position]
        given = declared_dims(body, declared)
        if given is None:
            return
        if len(given) != len(dims):
            raise fault(
                "0301",
                f"`{declared.name}` is declared with {len(given)} axes, but the loops give {len(dims)}",
                declared.span,
                hint="declare one dim for each axis that is left",
            )
        for axis, (want, have) in enumerate(zip(given, dims, strict=True)):
            if want is None or want == have:
                continue
            message = f"axis {axis} of `{declared.name}` is declared as {{left}}, but the loops give {{right}} elements"
            if want.value is not None and have.value is not None:
                shown = message.replace("{left}", str(want)).replace("{right}", str(have))
                raise fault("0302", shown, declared.span, hint=f"declare {have}, or `?`")
            body.equations.append(Equation(want, have, "==", Diagnostic("0802", message, declared.span, hint="declare `?`")))

    def _result_name(self, position: int, count: int) -> str:
        if len(self.declared) == count:
            return self.declared[position].name
        return "out" if position == 0 else f"out{position}"

    def _plan_yielded(self, body: Body) -> list[tuple[Value, KernelArgument]]:
        if self.collection is not None:
            return self._plan_collected(body, self.collection)
        reduction = self.reduction
        assert reduction is not None
        reduction.loops = tuple(range_in_function(loop, self.sizes) for loop in reduction.loops)
        reduction.strides = [self.sizes.in_function(form) for form in reduction.strides]
        reduction.starts = [self.sizes.in_function(form) for form in reduction.starts]
        dims = reduction.result_dims()
        dtypes = self._declared_dtypes([component.result for component in reduction.components] + [DType.I64] * reduction.index_parts)
        count = len(reduction.components)
        reduction.components = [evolve(c, result=dtype) for c, dtype in zip(reduction.components, dtypes[:count], strict=True)]
        reduction.index_types = dtypes[count:]
        parameters: list[tuple[Value, KernelArgument]] = []
        grouped = 1 if reduction.index_parts > 1 else 0
        for position, dtype in enumerate(dtypes):
            is_index = position >= len(reduction.components)
            name = self._result_name(position, len(dtypes))
            self._require_declared(body, position, len(dtypes), dims)
            value = body.owner.value(identifier(name), Mem(hir_name(dtype), dims))
            reduction.results.append(value)
            self.results.append(
                ResultPlan(
                    name,
                    dtype,
                    tuple(map(self.sizes.at_launch, dims)),
                    scalar=reduction.is_number,
                    group=grouped if is_index else 0,
                )
            )
            parameters.append((value, ResultArgument(len(self.results) - 1)))
        body.equations += reductions.emptiness(reduction, lambda form: form)
        return parameters


def range_in_function(loop: NumberRange, sizes: Sizes) -> NumberRange:
    return evolve(loop, low=sizes.in_function(loop.low), last=sizes.in_function(loop.last))


def access_in_function(access: Access, sizes: Sizes) -> Access:
    """An access of the walks before, in the function's symbols."""
    return evolve(
        access,
        index=tuple(sizes.in_function(form) for form in access.index),
        ranges=tuple(range_in_function(loop, sizes) for loop in access.ranges),
        guards=tuple(sizes.in_function(form) for form in access.guards),
    )
