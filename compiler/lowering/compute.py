"""Compute blocks to HIR: the block is walked until the types of its variables are settled, its sizes are solved from what the
walk saw, and a last walk emits the nest with every index proved or checked."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic, Severity, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirKernelInfo
from compiler.hir.types import INDEX, Mem, Tile
from compiler.lowering import (
    calls,
    collecting,
    conv,
    custom,
    elements,
    expressions,
    flat,
    folds,
    loops,
    names,
    reductions,
    stated_shapes,
    statements,
    variables,
)
from compiler.lowering.block import identifier
from compiler.lowering.body import Access, Body, Fault, Memory, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.flows import Flows
from compiler.lowering.kernel import (
    Equation,
    KernelArgument,
    LaunchPlan,
    LoweredKernel,
    NeedsNumbers,
    NumbersWanted,
    ResultArgument,
    ScalarArgument,
    Signature,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    TensorInput,
    WorkspaceArgument,
)
from compiler.lowering.numbers import TensorOperand, affine, typed
from compiler.lowering.outputs import (
    declared_dims,
)
from compiler.lowering.parameters import index_names, used_parameters
from compiler.lowering.result_plan import ResultPlan
from compiler.lowering.results import ResultPlanning
from compiler.lowering.serial_loops import keep_written_order
from compiler.lowering.sizes import dim_form, unsolved
from compiler.lowering.tile_blocks import written_out
from compiler.lowering.tile_sizes import slices_of_inputs
from compiler.lowering.walk import run_all
from compiler.lowering.work import nests_of
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import DType
from runtime.records import evolve

RULE_FILES = (calls, elements, expressions, loops, names, statements, variables)
"""Importing them fills the tables of rules."""

_MOST_WALKS = 12


def lower_compute(compute: nodes.Compute, signature: Signature) -> LoweredKernel:
    """The block as a function in nest form and the plan of its launch. Raises ZyntaxError with all of the block's errors."""
    try:
        return Lowering(written_out(compute, signature), signature, slices_of_inputs(compute.body, signature)).run()
    except Fault as found:
        raise ZyntaxError(found.diagnostic) from None


class Lowering(ResultPlanning):
    """One block on its way down: walks that find out, sizes, and the walk that emits."""

    # ---- the order of work ----

    def run(self) -> LoweredKernel:
        self.judge_writes()
        self.sizes.declare()
        stated_shapes.state(self.sizes, self.kernel.shapes)
        if self.flat and self.kernel.kernel_type is not KernelType.CUSTOM:
            self.flat_shape = flat.common_shape(self.sizes, self.flat, self.diagnostics)
        seen = self._settle()
        self._solve(seen)
        wanted = self._wanted(seen)
        try:
            self._raise()
            return evolve(self._emit(seen), wanted=wanted)
        except (ZyntaxError, Fault) as error:
            if not wanted.names:
                raise
            raise NeedsNumbers(wanted, *((error.diagnostic,) if isinstance(error, Fault) else error.diagnostics)) from None

    def _wanted(self, seen: Body) -> NumbersWanted:
        """The numbers that would make more of the block's indices affine, as far as a launch can find them."""
        if self.kernel.kernel_type is KernelType.CUSTOM:
            return NumbersWanted()
        scalars = {scalar.name for scalar in self.signature.scalars}
        names = [name for name in sorted(seen.factors) if name in scalars or name in self.sizes.solved or "." in name]
        return NumbersWanted(names, self.sizes.rules())

    def _raise(self) -> None:
        self.diagnostics.extend(self.sizes.diagnostics.sorted)
        self.diagnostics.raise_errors()

    # ---- walks ----

    def _settle(self) -> Body:
        """Walk until the types of variables and results don't change any more."""
        for _ in range(_MOST_WALKS):
            body = self._walk_body(final=False)
            changed = body.flows.new != body.flows.known
            self.flows = Flows(body.flows.new)
            if body.diagnostics.errors or not changed:
                break
        self.diagnostics.extend(body.diagnostics.sorted)
        return body

    def _new_body(self, final: bool) -> Body:
        kind = self.kernel.kernel_type
        form = Form.THREAD if kind is KernelType.CUSTOM else Form.NEST
        owner = FunctionBuilder(_function_name(self.kernel), form)
        body = Body(self.signature, self.kernel, owner, owner.body, final)
        body.flows = Flows(self.flows.known)
        body.results = tuple(declared.name for declared in self.declared)
        body.result_write = self.result_write
        body.names.of_loops = frozenset(self.candidates.bounds)
        if final:
            body.in_function = self.sizes.in_function
        if not final:
            cases = self.signature.declared.cases.keys() - self.candidates.bounds.keys()
            body.names.unsolved = frozenset(name for name in self.candidates.names if name not in {*self.sizes.solved, *cases})
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
            body.names.sizes[name] = self.sizes.bound(name)
        for tensor in self.signature.tensors:
            dims = self.sizes.extents(tensor)
            value = body.owner.value(identifier(tensor.name), Mem(hir_name(tensor.dtype), dims))
            self._bind_tensor(body, tensor, value, dims)
        self._scalar_parameters(body)

    def _bind_tensor(self, body: Body, tensor: TensorInput, value: Value, dims: tuple[Affine, ...]) -> None:
        writable = tensor.mutable or tensor.name in self.copies
        role = "captured" if tensor.captured else "input"
        shape = tuple(dim_form(tensor, axis) for axis in range(tensor.rank))
        if body.final:
            shape = tuple(map(self.sizes.in_function, shape))
        runs_flat = tensor.name in self.flat
        body.memories[tensor.name] = Memory(tensor.name, value, tensor.dtype, dims, role, writable, runs_flat, shape, tensor.span)
        body.names.bind(
            tensor.name,
            TensorOperand(tensor.name),
            tensor.span or self.compute.span,
            "a captured tensor" if tensor.captured else "an input",
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
            dtype = declared.dtype or self.flows.before(("result", declared.name), DType.I64).dtype
            dims = tuple(dim if dim is not None else Affine.of(f"{declared.name}.{axis}") for axis, dim in enumerate(given or ()))
            value = body.owner.value(identifier(declared.name), Mem(hir_name(dtype), dims))
            is_open = given is None and not declared.scalar
            body.memories[declared.name] = Memory(declared.name, value, dtype, dims, "result", True, False, dims, declared.span, is_open)
            body.names.bind(declared.name, TensorOperand(declared.name), declared.span or self.compute.span, "a result")

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
        wanted = [name for name in (*self.candidates.bounds, *self.candidates.guards) if name in seen.names.wanted]
        wanted = list(dict.fromkeys([*wanted, *seen.names.wanted]))
        self.sizes.solve(seen.accesses, wanted, self.slices)
        if self.kernel.kernel_type in conv.KINDS:
            conv.solve_windows(self.sizes, seen.accesses, wanted)
        if self.diagnostics.errors:
            return
        for name in wanted:
            if name in self.sizes.solved:
                continue
            if name not in self.candidates.bounds:
                error = names.undefined(seen, name, nodes.Name(name=name, span=seen.names.wanted[name]))
                assert isinstance(error, Fault)
                self.diagnostics.add(error.diagnostic)
                continue
            self.diagnostics.add(unsolved(name, self.candidates.bounds[name], self.sizes.explain(name, seen.accesses)))

    # ---- the walk that emits ----

    def _emit(self, seen: Body) -> LoweredKernel:
        sizes = self.sizes
        sizes.name_parameters({scalar.name for scalar in self.signature.scalars})
        self.facts = sizes.facts()
        body = self._new_body(final=True)
        body.here.facts = self.facts
        owner = body.owner
        parameters: list[tuple[Value, KernelArgument]] = []
        warnings: list[Diagnostic] = []
        self._reserve_sizes(owner)
        for tensor in self.signature.tensors:
            parameters += self._tensor_parameters(body, tensor)
        scalars = self._scalar_parameters(body)
        for name in sizes.solved:
            body.names.sizes[name] = sizes.in_function(Affine.of(name))
        parameters += self.plan_results(body, seen, warnings)
        body.cleared = self.plan_cleared(seen)
        self._raise()
        parameters += scalars
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
        name = identifier(tensor.name)
        strides: tuple[Affine, ...] | None = None
        parameters: list[tuple[Value, KernelArgument]] = []
        written = tensor.name in self.copies
        if not tensor.contiguous and not written and not packed:
            apart = [axis for axis in range(tensor.rank) if axis != tensor.dense]
            values = {axis: body.owner.value(f"{name}_stride{axis}", INDEX) for axis in apart}
            strides = tuple(Affine.of(values[axis].name if axis in values else 1) for axis in range(tensor.rank))
            parameters = [(value, StrideArgument(tensor.name, axis)) for axis, value in values.items()]
        mem = Mem(hir_name(tensor.dtype), dims, strides, readonly=not (tensor.mutable or written))
        value = body.owner.value(name, mem)
        self._bind_tensor(body, tensor, value, dims)
        argument: KernelArgument = TensorArgument(tensor.name, packed and not tensor.contiguous)
        if written:
            argument = ResultArgument(len(self.results))
            self.results.append(ResultPlan(tensor.name, tensor.dtype, full, copy_of=tensor.name))
        elif tensor.mutable and tensor.name in self.written.targets and self.only_updates():
            self.results.append(ResultPlan(tensor.name, tensor.dtype, full, input=tensor.name))
        return [(value, argument), *parameters]

    def _scalar_parameters(self, body: Body) -> list[tuple[Value, KernelArgument]]:
        parameters: list[tuple[Value, KernelArgument]] = []
        for scalar in self.signature.scalars:
            span = scalar.span or self.compute.span
            if scalar.dtype is DType.I64:
                form = Affine((), int(scalar.value)) if scalar.value is not None else Affine.of(scalar.name)
                body.names.bind(scalar.name, affine(form), span, "a variable")
                continue
            value = body.owner.value(identifier(scalar.name), Tile(hir_name(scalar.dtype)))
            body.names.bind(scalar.name, typed(value, scalar.dtype, None, weak=scalar.dtype is DType.F64), span, "a variable")
            parameters.append((value, ScalarArgument(scalar.name, scalar.dtype)))
        conv.bind_options(body, self.compute.span)
        return parameters

    def _emit_yielding(self, body: Body, parameters: list[tuple[Value, KernelArgument]]) -> None:
        if self.collection is not None:
            collection = self.collection
            body.on_yield = lambda b, node: collecting.collect(b, collection, node)
            body.on_for = lambda b, node: collecting.nest(b, collection, node)
            run_all(body, self.compute.body.statements)
            return
        reduction = self.reduction
        assert reduction is not None
        if reduction.fold is not None and reduction.left:
            body.on_for = lambda b, node: folds.nest(b, reduction, node)
        elif reduction.left:
            for position, dtype in enumerate(reductions.kept_dtypes(reduction)):
                own = position < len(reduction.components)
                if (own and reduction.components[position].result is dtype) or (not own and reduction.index_types == [DType.I64]):
                    reduction.kept.append(reduction.results[position])
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
        keep_written_order(function)
        parameters += [
            (value, WorkspaceArgument(hir_name(dtype), tuple(map(self.sizes.at_launch, dims)))) for value, dtype, dims in body.workspaces
        ]
        parameters = used_parameters(function, parameters)
        needed = index_names(function, [value for value, _ in parameters])
        for name, value in self.index_parameters.items():
            if name in needed:
                form = self.sizes.parameters.get(name, Affine.of(name))
                parameters.append((value, SizeArgument(form)))
        order = {"mem": 0, "index": 1, "scalar": 2}
        parameters.sort(key=lambda pair: order["mem" if isinstance(pair[0].type, Mem) else "index" if pair[0].type == INDEX else "scalar"])
        function.parameters.extend(value for value, _ in parameters)
        function.sites = tuple(body.sites)
        hints, is_custom = self.kernel.hints, self.kernel.kernel_type is KernelType.CUSTOM
        function.kernel_info = HirKernelInfo(
            kernel_type=self.kernel.kernel_type or KernelType.FUSED,
            shared_memory_bytes=self.kernel.shared_memory_bytes or 0,
            max_registers=self.kernel.max_registers or None,
            workgroup=custom.workgroup(body) if is_custom else self.kernel.workgroup_size,
            grid=custom.grid(body) if is_custom else None,
            cluster=(hints.cluster, 1, 1) if hints.cluster is not None and not is_custom else None,
            stages=hints.pipeline_stages,
            warps=hints.warps,
            tensor_cores=hints.use_tensor_cores,
            products=hints.products,
            strict=self.kernel.strict,
            relaxed=hints.relaxed,
            tile=hints.tile,
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


def _function_name(kernel: KernelMetadata) -> str:
    """A name that the HIR's text can hold."""
    given = kernel.name or (kernel.kernel_type.value if kernel.kernel_type else "kernel")
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in given)
    return name if name and not name[0].isdigit() else f"kernel_{name}"


def _first_use(accesses: list[Access], name: str) -> Span | None:
    return next((access.span for access in accesses if access.memory == name), None)
