"""Compute blocks to HIR: the block is walked until the types of its variables are settled, its sizes are solved from what the
walk saw, and a last walk emits the nest with every index proved or checked."""

from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from compiler.diagnostics import Diagnostic, Diagnostics, Label, Severity, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import INDEX, Mem, Tile
from compiler.lowering import collecting, conv, custom, flat, reductions, whole_tensor
from compiler.lowering.body import Access, Body, Fault, Memory, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.expressions import dotted, evaluate
from compiler.lowering.kernel import (
    Equation,
    KernelArgument,
    LaunchPlan,
    LoweredKernel,
    ResultArgument,
    ResultPlan,
    ScalarArgument,
    Signature,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    TensorInput,
    WorkspaceArgument,
)
from compiler.lowering.numbers import Operand, Tensor, affine, typed
from compiler.lowering.outputs import (
    Declared,
    covered,
    declared_dims,
    declared_results,
    extents,
    read_before_written,
    surely_uncovered,
    uncovered_warning,
)
from compiler.lowering.ranges import Range
from compiler.lowering.sizes import Candidates, Sizes, candidates, dim_form, unsolved
from compiler.lowering.statements import block_value, function_value, run_all
from compiler.lowering.work import nests_of
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import DType, Scalar, ShapeExpr, StaticShape, SymbolicShape, TensorShape, TensorType, TupleType, Type
from compiler.typed_ast.walk import walk

_MOST_WALKS = 12
_YIELDING = (KernelType.REDUCE, KernelType.SCAN, KernelType.SORT)


def lower_compute(compute: nodes.Compute, signature: Signature) -> LoweredKernel:
    """The block as a function in nest form and the plan of its launch. Raises ZyntaxError with all of the block's errors."""
    try:
        return Lowering(compute, signature).run()
    except Fault as found:
        raise ZyntaxError(found.diagnostic) from None


def outcome_type(lowered: LoweredKernel) -> Type:
    """The static type of the block's value: extents as far as they are numbers or declared sizes."""
    parts: list[Type] = []
    grouped: dict[int, list[Type]] = {}
    order: list[Type | int] = []
    for result in lowered.plan.results:
        one: Type = Scalar(result.dtype) if result.scalar else TensorType(Scalar(result.dtype), _shape(lowered, result))
        if result.group == 0:
            order.append(one)
            continue
        if result.group not in grouped:
            order.append(result.group)
        grouped.setdefault(result.group, []).append(one)
    parts = [TupleType(grouped[entry]) if isinstance(entry, int) else entry for entry in order]
    return parts[0] if len(parts) == 1 else TupleType(parts)


def _shape(lowered: LoweredKernel, result: ResultPlan) -> TensorShape:
    solved = {rule.name: rule.form for rule in lowered.plan.sizes}
    facts = {f"{t.name}.{axis}": dim_form(t, axis) for t in lowered.signature.tensors for axis in range(t.rank)}
    declared = {dim for tensor in lowered.signature.tensors for dim in tensor.dims if isinstance(dim, str)}
    undeclared = {name: form for name, form in solved.items() if name not in declared}
    dims: list[ShapeExpr | None] = []
    for dim in result.dims:
        for _ in range(len(undeclared) + 2):
            dim = dim.substitute(undeclared).substitute({name: form for name, form in facts.items() if str(form) != name})
        plain = all(isinstance(symbol, str) and symbol in declared for symbol, _ in dim.terms)
        dims.append(ShapeExpr(tuple((str(symbol), c) for symbol, c in dim.terms), dim.constant) if plain else None)
    numbers = [dim.value if dim is not None else None for dim in dims]
    if all(number is not None for number in numbers):
        return StaticShape(tuple(number or 0 for number in numbers))
    return SymbolicShape(dims)


@frozen(eq=False)
class _Written:
    """What the block writes by index, first place of each."""

    targets: dict[str, Span]
    yields: tuple[Span, ...]


def _written(compute: nodes.Compute) -> _Written:
    targets: dict[str, Span] = {}
    yields: list[Span] = []
    for node in walk(compute.body):
        match node:
            case nodes.Assign(target=nodes.Index(value=value) as target):
                name = dotted(value)
                if name is not None:
                    targets.setdefault(name, target.span)
            case nodes.Assign(target=nodes.TupleLiteral(elements=elements)):
                for part in elements:
                    if isinstance(part, nodes.Index) and (name := dotted(part.value)) is not None:
                        targets.setdefault(name, part.span)
            case nodes.Assign(target=nodes.Name(name=name, span=span)):
                targets.setdefault(name, span)
            case nodes.Yield(span=span):
                yields.append(span)
            case nodes.Call(function=nodes.Name(name=name), arguments=arguments, span=span) if name.startswith("atomic_") and arguments:
                if isinstance(arguments[0].value, nodes.Index) and (target_name := dotted(arguments[0].value.value)) is not None:
                    targets.setdefault(target_name, span)
            case _:
                pass
    return _Written(targets, tuple(yields))


class Lowering:
    """One block on its way: what is known before a walk, and what the walks found."""

    def __init__(self, compute: nodes.Compute, signature: Signature) -> None:
        self.compute = compute
        self.signature = signature
        self.kernel = compute.kernel or KernelMetadata()
        self.diagnostics = Diagnostics()
        self.written = _written(compute)
        self.candidates: Candidates = candidates(compute)
        self.declared = declared_results(compute)
        self.flows: dict[tuple[Any, ...], tuple[DType, bool, DType | None]] = {}
        self.sizes = Sizes(signature)
        self.results: list[ResultPlan] = []
        self.reduction: reductions.Reduction | None = None
        self.collection: collecting.Collection | None = None
        self.yielding = bool(self.written.yields) or self.kernel.kernel_type in _YIELDING
        self.copies: list[str] = []
        self.flat = flat.flat_tensors(compute, signature, self.kernel.kernel_type, [declared.name for declared in self.declared])
        self.sizes.rows = {tensor.name: flat.row_form(tensor) for tensor in signature.tensors if tensor.name in self.flat}
        self.flat_shape: tuple[Affine, ...] | None = None

    # ---- the order of work ----

    def run(self) -> LoweredKernel:
        self._judge_writes()
        self.sizes.declare()
        if self.flat and self.kernel.kernel_type is not KernelType.CUSTOM:
            self.flat_shape = flat.common_shape(self.sizes, self.flat, self.diagnostics)
        seen = self._settle()
        self._solve(seen)
        self._raise()
        return self._emit(seen)

    def _raise(self) -> None:
        self.diagnostics.extend(self.sizes.diagnostics.sorted)
        self.diagnostics.raise_errors()

    # ---- what the block may write ----

    def _judge_writes(self) -> None:
        names = [declared.name for declared in self.declared]
        result = next((name for name in names if name in self.written.targets), None)
        if self.kernel.kernel_type in _YIELDING and not self.written.yields:
            kind = self.kernel.kernel_type
            assert kind is not None
            self.diagnostics.add(
                Diagnostic(
                    "0408", f"a `{kind.value}` kernel needs a `yield`", self.compute.span, hint="write `yield x[i]` inside the loops"
                )
            )
            self.diagnostics.raise_errors()
        if self.yielding and result is not None:
            self.diagnostics.add(
                Diagnostic(
                    "0408",
                    "`yield` and a write to `" + result + "` can't stand in one kernel",
                    self.written.targets[result],
                    "the write",
                    (_label(self.written.yields[0], "the `yield`"),) if self.written.yields else (),
                    hint="collect with `yield` alone, or write `out` alone",
                )
            )
            self.diagnostics.raise_errors()
        if self.written.yields and self.kernel.kernel_type not in (*_YIELDING, None):
            kind = self.kernel.kernel_type
            assert kind is not None
            self.diagnostics.add(
                Diagnostic(
                    "0408",
                    f"`yield` stands in a `{kind.value}` kernel, which writes `out`",
                    self.written.yields[0],
                    hint="write `out[...] = ...`, or use `@kernel(reduce)`",
                )
            )
            self.diagnostics.raise_errors()
        if result is None and not self.yielding:
            inputs = {tensor.name: tensor for tensor in self.signature.tensors if not tensor.captured}
            updated = [name for name in self.written.targets if name in inputs and inputs[name].mutable]
            self.copies = [name for name in self.written.targets if name in inputs and name not in updated]
            captured = any(tensor.name in self.written.targets for tensor in self.signature.tensors if tensor.captured)
            if not (self.copies or updated or captured) and self.kernel.kernel_type is not KernelType.CUSTOM:
                self.diagnostics.add(
                    Diagnostic(
                        "0408",
                        "the block computes nothing: it neither writes `out` nor yields",
                        self.compute.span,
                        hint="write `out[i] = ...`, or `yield` a value",
                    )
                )
                self.diagnostics.raise_errors()
        elif result is not None:
            self.result_write = self.written.targets[result]

    result_write: Span | None = None

    # ---- walks ----

    def _settle(self) -> Body:
        """Walk until the types of variables and results don't change any more."""
        for _ in range(_MOST_WALKS):
            body = self._walk_body(final=False)
            changed = body.new_flows != self.flows
            self.flows = dict(body.new_flows)
            if body.diagnostics.errors or not changed:
                break
        self.diagnostics.extend(body.diagnostics.sorted)
        return body

    def _new_body(self, final: bool) -> Body:
        kind = self.kernel.kernel_type
        form = Form.THREAD if kind is KernelType.CUSTOM else Form.NEST
        owner = FunctionBuilder(_function_name(self.kernel), form)
        body = Body(self.signature, self.kernel, owner, owner.body, final)
        body.flows = self.flows
        body.run_block = block_value
        body.results = tuple(declared.name for declared in self.declared)
        body.extra["evaluate"] = evaluate
        body.extra["function_value"] = function_value
        body.extra["result_write"] = self.result_write
        body.extra["numel"] = _numel
        body.extra["bounds"] = self.candidates.bounds
        body.extra["sizes"] = self.sizes if final else None
        body.extra["broadcast"] = dict(self.kernel.broadcast)
        custom.install(body)
        whole_tensor.install(body)
        if not final:
            body.size_candidates = frozenset(name for name in self.candidates.names if name not in self.sizes.solved)
        return body

    def _walk_body(self, final: bool) -> Body:
        body = self._new_body(final)
        self._bind_inputs(body)
        if not final:
            self._open_results(body)
        if self.yielding:
            self._start_yielding(body)
        run_all(body, self.compute.body.statements)
        return body

    def _bind_inputs(self, body: Body) -> None:
        """Names of inputs, sizes and scalars, for a walk that only finds out: extents are the launch's facts."""
        for name in self.sizes.solved:
            body.sizes[name] = Affine.of(name)
        for tensor in self.signature.tensors:
            dims = self.sizes.extents(tensor)
            value = body.owner.value(_identifier(tensor.name), Mem(hir_name(tensor.dtype), dims))
            self._bind_tensor(body, tensor, value, dims)
        for scalar in self.signature.scalars:
            if scalar.value is not None and isinstance(scalar.value, int) and scalar.dtype is DType.I64:
                body.bind(scalar.name, affine(Affine((), scalar.value)), scalar.span or self.compute.span, "a variable")
            elif scalar.dtype is DType.I64:
                body.bind(scalar.name, affine(Affine.of(scalar.name)), scalar.span or self.compute.span, "a variable")
            else:
                value = body.owner.value(_identifier(scalar.name), Tile(hir_name(scalar.dtype)))
                body.bind(
                    scalar.name,
                    typed(value, scalar.dtype, None, weak=scalar.dtype is DType.F64),
                    scalar.span or self.compute.span,
                    "a variable",
                )
        conv.bind_options(body, self.compute.span)

    def _bind_tensor(self, body: Body, tensor: TensorInput, value: Value, dims: tuple[Affine, ...]) -> None:
        writable = tensor.mutable or tensor.name in self.copies
        role = "captured" if tensor.captured else "input"
        shape = tuple(dim_form(tensor, axis) for axis in range(tensor.rank))
        if body.final:
            shape = tuple(map(self.sizes.in_function, shape))
        runs_flat = tensor.name in self.flat
        body.memories[tensor.name] = Memory(tensor.name, value, tensor.dtype, dims, role, writable, runs_flat, shape, tensor.span)
        body.bind(
            tensor.name, Tensor(tensor.name), tensor.span or self.compute.span, "a captured tensor" if tensor.captured else "an input"
        )

    def _open_results(self, body: Body) -> None:
        """Results of a walk that only finds out: the first write decides on the rank where the type doesn't."""
        if self.yielding or self.copies:
            return
        for declared in self.declared:
            try:
                given = declared_dims(body, declared)
            except Fault as found:
                body.report(found.diagnostic)
                given = None
            dtype = declared.dtype or self.flows.get(("result", declared.name), (DType.I64, True, None))[0]
            dims = tuple(dim if dim is not None else Affine.of(f"{declared.name}.{axis}") for axis, dim in enumerate(given or ()))
            value = body.owner.value(_identifier(declared.name), Mem(hir_name(dtype), dims))
            body.memories[declared.name] = Memory(declared.name, value, dtype, dims, "result", True, shape=dims, span=declared.span)
            body.bind(declared.name, Tensor(declared.name), declared.span or self.compute.span, "a result")
            if given is None and not declared.scalar:
                body.extra.setdefault("rank_open", {})[declared.name] = True
        body.extra["open_rank"] = _open_rank

    # ---- yield ----

    def _start_yielding(self, body: Body) -> None:
        if body.final:
            return
        if self.kernel.kernel_type in (KernelType.SCAN, KernelType.SORT):
            if self.collection is None:
                self.collection = collecting.collection_of(body, self.compute.span)
            collection = self.collection
            body.on_yield = lambda b, node: collecting.survey(b, collection, node)
            return
        if self.reduction is None:
            self.reduction = reductions.reduction_of(body, self.compute.span)
        reduction = self.reduction
        body.on_yield = lambda b, node: reductions.survey(b, reduction, node)

    # ---- sizes ----

    def _solve(self, seen: Body) -> None:
        wanted = [name for name in (*self.candidates.bounds, *self.candidates.guards) if name in seen.sizes_wanted]
        wanted = list(dict.fromkeys([*wanted, *seen.sizes_wanted]))
        self.sizes.solve(seen.accesses, wanted)
        if self.kernel.kernel_type in conv.KINDS:
            conv.solve_windows(self.sizes, seen.accesses, wanted)
        if self.diagnostics.errors:
            return
        for name in wanted:
            if name in self.sizes.solved:
                continue
            if name not in self.candidates.bounds:
                from compiler.lowering.expressions import undefined

                found = undefined(seen, name, nodes.Name(name=name, span=seen.sizes_wanted[name]))
                assert isinstance(found, Fault)
                self.diagnostics.add(found.diagnostic)
                continue
            self.diagnostics.add(unsolved(name, self.candidates.bounds[name], self.sizes.explain(name, seen.accesses)))

    # ---- the walk that emits ----

    def _emit(self, seen: Body) -> LoweredKernel:
        sizes = self.sizes
        sizes.name_parameters({scalar.name for scalar in self.signature.scalars})
        self.facts = sizes.facts()
        body = self._new_body(final=True)
        body.facts = self.facts
        owner = body.owner
        parameters: list[tuple[Value, KernelArgument]] = []
        warnings: list[Diagnostic] = []
        self._reserve_sizes(owner)
        for tensor in self.signature.tensors:
            parameters += self._tensor_parameters(body, tensor)
        outputs = self._plan_results(body, seen, warnings)
        self._raise()
        parameters += outputs
        parameters += self._scalar_parameters(body)
        for name in sizes.solved:
            body.sizes[name] = sizes.in_function(Affine.of(name))
        if self.yielding:
            self._emit_yielding(body, parameters)
        else:
            run_all(body, self.compute.body.statements)
        self.diagnostics.extend(body.diagnostics.sorted)
        self._raise()
        if self.reduction is not None:
            reductions.finish(body, self.reduction)
        if self.collection is not None:
            collecting.finish(body, self.collection)
        return self._finish(body, parameters, warnings)

    def _reserve_sizes(self, owner: FunctionBuilder) -> None:
        """Index parameters get their names before anything else may take them."""
        names = [name for name in self.sizes.solved if self.sizes.in_function(Affine.of(name)).value is None]
        names += list(self.sizes.parameters)
        names += [s.name for s in self.signature.scalars if s.dtype is DType.I64 and s.value is None]
        self.index_parameters = {name: owner.value(name, INDEX) for name in dict.fromkeys(names)}

    def _tensor_parameters(self, body: Body, tensor: TensorInput) -> list[tuple[Value, KernelArgument]]:
        dims = tuple(map(self.sizes.in_function, self.sizes.extents(tensor)))
        packed = tensor.name in self.flat
        full = tuple(dim_form(tensor, axis) for axis in range(tensor.rank))
        if packed and tensor.mutable and not tensor.contiguous:
            raise fault(
                "0109",
                f"one index over all of `{tensor.name}`, which isn't contiguous, isn't supported yet in an update",
                self.flat[tensor.name],
                hint="index each axis with a loop of its own",
            )
        name = _identifier(tensor.name)
        strides: tuple[Affine, ...] | None = None
        found: list[tuple[Value, KernelArgument]] = []
        written = tensor.name in self.copies
        if not tensor.contiguous and not written and not packed:
            values = [body.owner.value(f"{name}_stride{axis}", INDEX) for axis in range(tensor.rank)]
            strides = tuple(Affine.of(value.name) for value in values)
            found = [(value, StrideArgument(tensor.name, axis)) for axis, value in enumerate(values)]
        mem = Mem(hir_name(tensor.dtype), dims, strides, readonly=not (tensor.mutable or written))
        value = body.owner.value(name, mem)
        self._bind_tensor(body, tensor, value, dims)
        argument: KernelArgument = TensorArgument(tensor.name, packed and not tensor.contiguous)
        if written:
            argument = ResultArgument(len(self.results))
            self.results.append(ResultPlan(tensor.name, tensor.dtype, full, copy_of=tensor.name))
        elif tensor.mutable and tensor.name in self.written.targets and self._only_updates():
            self.results.append(ResultPlan(tensor.name, tensor.dtype, full, input=tensor.name))
        return [(value, argument), *found]

    def _only_updates(self) -> bool:
        return bool(self.copies) or (not self.yielding and all(d.name not in self.written.targets for d in self.declared))

    def _scalar_parameters(self, body: Body) -> list[tuple[Value, KernelArgument]]:
        found: list[tuple[Value, KernelArgument]] = []
        for scalar in self.signature.scalars:
            span = scalar.span or self.compute.span
            if scalar.dtype is DType.I64:
                form = Affine((), int(scalar.value)) if scalar.value is not None else Affine.of(scalar.name)
                body.bind(scalar.name, affine(form), span, "a variable")
                continue
            value = body.owner.value(_identifier(scalar.name), Tile(hir_name(scalar.dtype)))
            body.bind(scalar.name, typed(value, scalar.dtype, None, weak=scalar.dtype is DType.F64), span, "a variable")
            found.append((value, ScalarArgument(scalar.name, scalar.dtype)))
        conv.bind_options(body, self.compute.span)
        return found

    # ---- results ----

    def _plan_results(self, body: Body, seen: Body, warnings: list[Diagnostic]) -> list[tuple[Value, KernelArgument]]:
        if self.yielding:
            return self._plan_yielded(body)
        if self._only_updates():
            return []
        return [self._plan_result(body, declared, seen, warnings) for declared in self.declared]

    def _plan_result(self, body: Body, declared: Declared, seen: Body, warnings: list[Diagnostic]) -> tuple[Value, KernelArgument]:
        name = declared.name
        rank = len(seen.memories[name].dims)
        in_function = [evolve_access(access, self.sizes) for access in seen.accesses]
        for size in self.sizes.solved:
            body.sizes[size] = self.sizes.in_function(Affine.of(size))
        given = declared_dims(body, declared)
        needs_extent = given is None or any(dim is None for dim in given)
        found, problems, needed = extents(in_function, name, rank, self.facts) if needs_extent else ([], [], [])
        self.diagnostics.extend(problems)
        dims = tuple(dim if dim is not None else found[axis] for axis, dim in enumerate(given or (None,) * rank)) if rank else ()
        for form in needed:
            body.equations.append(
                Equation(
                    form,
                    Affine(),
                    ">=",
                    Diagnostic("0802", f"the writes to `{name}` need larger inputs", seen.memories[name].span or self.result_write),
                )
            )
        dtype = declared.dtype or self.flows.get(("result", name), (DType.F32, True, None))[0]
        complete = covered(in_function, name, dims, self.facts) if dims else True
        custom = self.kernel.kernel_type is KernelType.CUSTOM
        if not complete and not custom:
            blamed = surely_uncovered(in_function, name, dims, self.facts)
            if blamed is not None:
                warnings.append(uncovered_warning(name, blamed))
        zeroed = not complete or custom or read_before_written(in_function, name)
        mem = Mem(hir_name(dtype), dims)
        value = body.owner.value(_identifier(name), mem)
        body.memories[name] = Memory(name, value, dtype, dims, "result", True, shape=dims, span=declared.span)
        body.bind(name, Tensor(name), declared.span or self.compute.span, "a result")
        place = len(self.results)
        self.results.append(
            ResultPlan(
                name,
                dtype,
                self._full_shape(dims),
                scalar=declared.scalar,
                zeroed=zeroed,
            )
        )
        return value, ResultArgument(place)

    def _full_shape(self, dims: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The shape handed back: that of the flat inputs, where the result is as long as they are."""
        if self.flat_shape is not None and len(dims) == 1:
            rows = next(iter(self.sizes.rows.values()))
            if self.facts.proves_equal(dims[0], self.sizes.in_function(rows)):
                return self.flat_shape
        return tuple(map(self.sizes.at_launch, dims))

    def _plan_collected(self, body: Body, collection: collecting.Collection) -> list[tuple[Value, KernelArgument]]:
        collection.loops = tuple(_range_in_function(one, self.sizes) for one in collection.loops)
        dims = collection.result_dims()
        found: list[tuple[Value, KernelArgument]] = []
        collection.dtypes = self._declared_dtypes(collection.dtypes)
        for place, dtype in enumerate(collection.dtypes):
            name = self._result_name(place, len(collection.dtypes))
            self._require_declared(body, place, len(collection.dtypes), dims)
            value = body.owner.value(_identifier(name), Mem(hir_name(dtype), dims))
            collection.results.append(value)
            self.results.append(ResultPlan(name, dtype, tuple(map(self.sizes.at_launch, dims)), zeroed=collection.conditional))
            found.append((value, ResultArgument(place)))
        return found

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

    def _require_declared(self, body: Body, place: int, count: int, dims: tuple[Affine, ...]) -> None:
        """A declared shape of a yielded result must be the one that the loops give."""
        if len(self.declared) != count:
            return
        declared = self.declared[place]
        for size in self.sizes.solved:
            body.sizes[size] = self.sizes.in_function(Affine.of(size))
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

    def _result_name(self, place: int, count: int) -> str:
        if len(self.declared) == count:
            return self.declared[place].name
        return "out" if place == 0 else f"out{place}"

    def _plan_yielded(self, body: Body) -> list[tuple[Value, KernelArgument]]:
        if self.collection is not None:
            return self._plan_collected(body, self.collection)
        reduction = self.reduction
        assert reduction is not None
        reduction.loops = tuple(_range_in_function(one, self.sizes) for one in reduction.loops)
        reduction.strides = [self.sizes.in_function(form) for form in reduction.strides]
        reduction.starts = [self.sizes.in_function(form) for form in reduction.starts]
        dims = reduction.result_dims()
        dtypes = self._declared_dtypes([component.result for component in reduction.components] + [DType.I64] * reduction.index_parts)
        count = len(reduction.components)
        reduction.components = [evolve(c, result=dtype) for c, dtype in zip(reduction.components, dtypes[:count], strict=True)]
        reduction.index_types = dtypes[count:]
        found: list[tuple[Value, KernelArgument]] = []
        grouped = 1 if reduction.index_parts > 1 else 0
        for place, dtype in enumerate(dtypes):
            is_index = place >= len(reduction.components)
            name = self._result_name(place, len(dtypes))
            self._require_declared(body, place, len(dtypes), dims)
            value = body.owner.value(_identifier(name), Mem(hir_name(dtype), dims))
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
            found.append((value, ResultArgument(len(self.results) - 1)))
        body.equations += reductions.emptiness(reduction, lambda form: form)
        return found

    def _emit_yielding(self, body: Body, parameters: list[tuple[Value, KernelArgument]]) -> None:
        if self.collection is not None:
            collection = self.collection
            body.on_yield = lambda b, node: collecting.collect(b, collection, node)
            body.on_for = lambda b, node: collecting.nest(b, collection, node)
            run_all(body, self.compute.body.statements)
            return
        reduction = self.reduction
        assert reduction is not None
        if reduction.left:
            for place, dtype in enumerate(reductions.kept_dtypes(reduction)):
                own = place < len(reduction.components)
                if (own and reduction.components[place].result is dtype) or (not own and reduction.index_types == [DType.I64]):
                    reduction.kept.append(reduction.results[place])
                else:
                    dims = reduction.result_dims()
                    value = body.owner.value("partial", Mem(hir_name(dtype), dims))
                    reduction.kept.append(value)
                    parameters.append((value, WorkspaceArgument(hir_name(dtype), tuple(map(self.sizes.at_launch, dims)))))
        reductions.prepare(body, reduction)
        body.on_yield = lambda b, node: reductions.combine(b, reduction, node)
        run_all(body, self.compute.body.statements)

    # ---- the function and its plan ----

    def _finish(self, body: Body, parameters: list[tuple[Value, KernelArgument]], warnings: list[Diagnostic]) -> LoweredKernel:
        function = body.owner.finish()
        parameters += [
            (value, WorkspaceArgument(hir_name(dtype), tuple(map(self.sizes.at_launch, dims)))) for value, dtype, dims in body.workspaces
        ]
        parameters = _used(function, parameters)
        needed = _index_names(function, [value for value, _ in parameters])
        for name, value in self.index_parameters.items():
            if name in needed:
                form = self.sizes.parameters.get(name, Affine.of(name))
                parameters.append((value, SizeArgument(form)))
        order = {"mem": 0, "index": 1, "scalar": 2}
        parameters.sort(key=lambda pair: order["mem" if isinstance(pair[0].type, Mem) else "index" if pair[0].type == INDEX else "scalar"])
        function.parameters.extend(value for value, _ in parameters)
        function.sites = tuple(body.sites)
        function.kernel_info = HirKernelInfo(
            kernel_type=self.kernel.kernel_type or KernelType.FUSED,
            shared_memory_bytes=self.kernel.shared_memory_bytes or 0,
            max_registers=self.kernel.max_registers or None,
            workgroup=custom.workgroup(body) if self.kernel.kernel_type is KernelType.CUSTOM else self.kernel.workgroup_size,
        )
        equations = [*self.sizes.equations, *(self._at_launch(equation) for equation in body.equations)]
        used = body.accesses
        warnings += [
            Diagnostic(
                "0602",
                f"tensor `{t.name}` is captured",
                _first_use(used, t.name),
                hint=f"name it: `compute({t.name}, ...)`",
                severity=Severity.NOTE,
            )
            for t in self.signature.tensors
            if t.captured and _first_use(used, t.name) is not None
        ]
        work = [tuple(map(self.sizes.at_launch, nest)) for nest in nests_of(function)]
        plan = LaunchPlan(self.sizes.rules(), tuple(dict.fromkeys(equations)), [a for _, a in parameters], self.results, work)
        return LoweredKernel(function, plan, self.kernel.kernel_type, self.kernel, tuple(warnings), self.signature)

    def _at_launch(self, equation: Equation) -> Equation:
        at: Callable[[Affine], Affine] = self.sizes.at_launch
        return evolve(equation, left=at(equation.left), right=at(equation.right), when=tuple(map(at, equation.when)))


def _label(span: Span, text: str) -> Label:
    return Label(span, text)


def _identifier(name: str) -> str:
    """An input's path as a name in the HIR."""
    return name.replace(".", "_")


def _function_name(kernel: KernelMetadata) -> str:
    """A name that the HIR's text can hold."""
    given = kernel.name or (kernel.kernel_type.value if kernel.kernel_type else "kernel")
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in given)
    return name if name and not name[0].isdigit() else f"kernel_{name}"


def _open_rank(body: Body, memory: Memory, rank: int) -> None:
    """The first index of a result with no declared type decides on its rank."""
    memory.dims = memory.shape = tuple(Affine.of(f"{memory.name}.{axis}") for axis in range(rank))
    assert isinstance(memory.value.type, Mem)
    memory.value.type = Mem(memory.value.type.dtype, memory.dims)
    body.extra["rank_open"][memory.name] = False


def _numel(body: Body, memory: Memory) -> Operand:
    """The number of elements: an extent, or a fact of its own."""
    if len(memory.dims) == 1:
        return affine(memory.dims[0])
    numbers = [dim.value for dim in memory.dims]
    if all(number is not None for number in numbers):
        total = 1
        for number in numbers:
            total *= number or 0
        return affine(Affine((), total))
    if memory.role not in ("input", "captured"):
        raise fault("0109", f"`{memory.name}.numel()` isn't supported yet for results", memory.span, hint="multiply the extents")
    sizes: Sizes | None = body.extra.get("sizes")
    form = Affine.of(f"{memory.name}.numel")
    return affine(form if sizes is None else sizes.in_function(form))


def _range_in_function(one: Range, sizes: Sizes) -> Range:
    return evolve(one, low=sizes.in_function(one.low), last=sizes.in_function(one.last))


def evolve_access(access: Access, sizes: Sizes) -> Access:
    """An access of the walks before, in the function's symbols."""
    return evolve(
        access,
        index=tuple(sizes.in_function(form) for form in access.index),
        ranges=tuple(_range_in_function(one, sizes) for one in access.ranges),
        guards=tuple(sizes.in_function(form) for form in access.guards),
    )


def _first_use(accesses: list[Access], name: str) -> Span | None:
    return next((access.span for access in accesses if access.memory == name), None)


def _used(function: HirFunction, parameters: list[tuple[Value, KernelArgument]]) -> list[tuple[Value, KernelArgument]]:
    """Parameters that the function mentions; results always."""
    values: set[int] = set()
    names: set[str] = set()
    for op in function.body.body:
        for inner in op.walk():
            values.update(id(value) for value in inner.operand_values)
            names.update(inner.symbols)
    kept = [
        (value, argument)
        for value, argument in parameters
        if id(value) in values or value.name in names or isinstance(argument, (ResultArgument, StrideArgument))
    ]
    strides = {name for value, _ in kept if isinstance(value.type, Mem) for form in value.type.strides or () for name in form.names}
    return [(v, a) for v, a in kept if not isinstance(a, StrideArgument) or v.name in strides or v.name in names]


def _index_names(function: HirFunction, values: list[Value]) -> set[str]:
    names: set[str] = set()
    for op in function.body.body:
        for inner in op.walk():
            names.update(inner.symbols)
            names.update(name for value in inner.results if isinstance(value.type, Mem) for dim in value.type.dims for name in dim.names)
    for value in values:
        if isinstance(value.type, Mem):
            names.update(name for dim in value.type.dims for name in dim.names)
    return names
