"""Several lowered blocks as one: their nests one after the other in one function, what one hands to the next as memory of the function's
own, which lifting then removes. Sizes of all blocks are written over the facts of what comes from outside, so that an extent which
several know has one name."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from compiler.fusion.digits import Digits, digits_stored, loops_in_digits, number_of
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Select, Unary
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.memory import Alloc, Store, mem_of
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import INDEX, Mem
from compiler.lowering.block import identifier
from compiler.lowering.kernel import (
    Equation,
    KernelArgument,
    LaunchPlan,
    LoweredKernel,
    ResultArgument,
    ScalarArgument,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    WorkspaceArgument,
)
from compiler.typed_ast.kernel import KernelHints, KernelMetadata, KernelType
from compiler.typed_ast.types import DType
from runtime.records import define, evolve, field, frozen

NUMBERS = (DType.F32, DType.F16, DType.BF16)
"""Types of numbers that a kernel takes as they are handed back."""


class NotMergeable(Exception):
    """Why blocks stay apart, in words."""


@frozen(eq=False)
class Stage:
    """A lowered block (`nest`: its loops after clean-up). `names`: its inputs' names in the merged kernel; `links`: inputs that are the
    value of an earlier stage, by its number. `kept`: its value is a result of the merged kernel; the last one's is."""

    lowered: LoweredKernel
    nest: HirFunction
    names: Mapping[str, str]
    links: Mapping[str, int]
    kept: bool = False


def merged(stages: Sequence[Stage]) -> LoweredKernel:
    """The stages as one lowered kernel whose results are those of earlier stages that are kept, then the last one's. Raises
    NotMergeable."""
    for stage in stages if any(stage.kept for stage in stages[:-1]) else stages[:-1]:
        _require_plain_result(stage)
    return _Merging(stages).run()


def _require_plain_result(stage: Stage) -> None:
    results = stage.lowered.plan.results
    if len(results) != 1:
        raise NotMergeable("it has several results")
    result = results[0]
    if result.scalar and (stage.kept or result.dtype not in NUMBERS):
        raise NotMergeable("its value is a number, which the host reads")
    if result.zeroed or result.copy_of is not None or result.input is not None:
        raise NotMergeable("it doesn't write each element once")


@define(eq=False)
class _Merging:
    stages: Sequence[Stage]
    out: FunctionBuilder = field(init=False)
    facts: list[dict[str, Affine]] = field(factory=list)
    """Of each stage: its solved sizes, and the facts of what it is handed, over the facts of the merged kernel."""
    equal: dict[str, Affine] = field(factory=dict)
    """Facts that equations make equal to others."""
    handed: list[Value] = field(factory=list)
    memories: list[tuple[Value, KernelArgument]] = field(factory=list)
    indices: dict[str, tuple[Value, KernelArgument]] = field(factory=dict)
    scalars: dict[ScalarArgument, Value] = field(factory=dict)
    equations: list[Equation] = field(factory=list)

    def run(self) -> LoweredKernel:
        stages, last = self.stages, self.stages[-1]
        strict = {stage.lowered.metadata.strict for stage in stages}
        if len(strict) > 1:
            raise NotMergeable("only one of them computes floats as written")
        if len({stage.lowered.metadata.hints.products for stage in stages}) > 1:
            raise NotMergeable("they multiply factors of f32 in different ways")
        self.out = FunctionBuilder(last.nest.name, Form.NEST)
        for stage in stages:
            self._solve(stage)
        for number, stage in enumerate(stages):
            self._append(stage, number)
        function = self.out.finish()
        pairs = [*self.memories, *self.indices.values(), *((value, argument) for argument, value in self.scalars.items())]
        function.parameters.extend(value for value, _ in pairs)
        hints = KernelHints(floats=last.lowered.metadata.hints.floats, products=last.lowered.metadata.hints.products)
        function.kernel_info = HirKernelInfo(
            kernel_type=KernelType.FUSED,
            tensor_cores=_tensor_cores(stages),
            strict=last.lowered.metadata.strict,
            products=hints.products,
        )
        results = tuple(
            evolve(
                r,
                dims=self._over_facts(r.dims, number),
                unless=self._over_facts(r.unless, number),
                inside=[self._over_facts(side, number) for side in r.inside],
            )
            for number, stage in enumerate(stages)
            if stage.kept or stage is last
            for r in stage.lowered.plan.results
        )
        work = [[self.over_facts(d, n) for d in nest] for n, stage in enumerate(stages) for nest in stage.lowered.plan.work]
        plan = LaunchPlan((), tuple(dict.fromkeys(self.equations)), [argument for _, argument in pairs], results, map(tuple, work))
        metadata = KernelMetadata(kernel_type=KernelType.FUSED, name=last.lowered.metadata.name, hints=hints)
        return LoweredKernel(function, plan, KernelType.FUSED, metadata)

    # ---- sizes ----

    def over_facts(self, form: Affine, number: int) -> Affine:
        """A form of a stage over the facts of what comes from outside."""
        return form.substitute({name: self._fact(name, number) for name in form.names})

    def _over_facts(self, forms: Sequence[Affine], number: int) -> list[Affine]:
        return [self.over_facts(form, number) for form in forms]

    def _fact(self, name: str, number: int) -> Affine:
        stage, known = self.stages[number], self.facts[number]
        if name in known:
            return known[name]
        base, dot, axis = name.rpartition(".")
        if not dot or base in stage.links:
            if base in stage.links:
                raise NotMergeable(f"its elements are counted as one axis in `{base}`, and as several where they are made")
            return Affine.of(stage.names.get(name, name))
        return Affine.of(f"{stage.names[base]}.{axis}")

    def canonical(self, form: Affine) -> Affine:
        """The form with facts that are equal by one name."""
        while any(name in self.equal for name in form.names):
            form = form.substitute(self.equal)
        return form

    def _solve(self, stage: Stage) -> None:
        number, plan = len(self.facts), stage.lowered.plan
        known: dict[str, Affine] = {}
        self.facts.append(known)
        for name, maker in stage.links.items():
            result = self.stages[maker].lowered.plan.results[0]
            dims = [self.over_facts(dim, maker) for dim in result.dims]
            known.update({f"{name}.{axis}": dim for axis, dim in enumerate(dims)})
            flat = self._flat_extent(maker)
            if flat is not None:
                known[f"{name}.numel"] = flat
        for rule in plan.sizes:
            known[rule.name] = self.over_facts(rule.form, number)
        for equation in plan.equations:
            left, right = (self.over_facts(form, number) for form in (equation.left, equation.right))
            when = [self.over_facts(form, number) for form in equation.when]
            self.equations.append(evolve(equation, left=left, right=right, when=when))
            if equation.relation == "==" and not when:
                self._same(left, right)

    def _same(self, left: Affine, right: Affine) -> None:
        left, right = self.canonical(left), self.canonical(right)
        for side, other in ((right, left), (left, right)):
            if len(side.names) == 1 and side == Affine.of(side.names[0]) and side.names[0] not in other.names:
                self.equal[side.names[0]] = other
                return

    def _flat_extent(self, number: int) -> Affine | None:
        """The number of elements of a stage's value, where it is an affine form."""
        stage = self.stages[number]
        mem = mem_of(_result_of(stage))
        return self._over_sizes(mem.dims[0], number) if mem.rank == 1 else None

    def _over_sizes(self, form: Affine, number: int) -> Affine:
        """A form of a stage's function over the facts of what comes from outside."""
        stage = self.stages[number]
        pairs = zip(stage.nest.parameters, stage.lowered.plan.arguments, strict=True)
        forms = {p.name: self.over_facts(a.form, number) for p, a in pairs if isinstance(a, SizeArgument) and p.name in form.names}
        return form.substitute(forms)

    # ---- parameters ----

    def _index(self, key: str, argument: KernelArgument, name: str) -> Value:
        if key not in self.indices:
            self.indices[key] = self.out.value(name, INDEX), argument
        return self.indices[key][0]

    def _in_function(self, form: Affine, name: str) -> Affine:
        """A form over facts as one over the function's parameters, which are made for it. `name` is what a new one is called where
        it is all of the form."""
        form = self.canonical(form)
        alone = len(form.names) == 1 and form == Affine.of(form.names[0])
        names = {
            fact: self._index(fact, SizeArgument(Affine.of(fact)), name if alone else fact.replace(".", "_")).name for fact in form.names
        }
        return form.substitute(names)

    def _append(self, stage: Stage, number: int) -> None:
        copy = _Copy(self.out)
        last = number == len(self.stages) - 1
        before = sum(earlier.kept for earlier in self.stages[:number])
        pairs = list(zip(stage.nest.parameters, stage.lowered.plan.arguments, strict=True))
        for value, argument in pairs:
            if isinstance(argument, SizeArgument):
                copy.names[value.name] = self._in_function(self.over_facts(argument.form, number), value.name)
            elif isinstance(argument, StrideArgument):
                if argument.name in stage.links:
                    raise NotMergeable("what it is handed has gaps")
                tensor = stage.names[argument.name]
                stride = self._index(f"{tensor} {argument.axis}", StrideArgument(tensor, argument.axis), value.name)
                copy.names[value.name] = Affine.of(stride.name)
        for value, argument in pairs:
            match argument:
                case TensorArgument(name, _) if name in stage.links:
                    value_ = self.handed[stage.links[name]]
                    if mem_of(value_).rank != mem_of(value).rank:
                        raise NotMergeable(f"its elements are counted as one axis in `{name}`, and as several where they are made")
                    copy.values[value] = value_
                case TensorArgument(name, packed):
                    copy.values[value] = self._memory(value.name, copy.memory(value), TensorArgument(stage.names[name], packed))
                case ResultArgument() if not (last or stage.kept):
                    copy.values[value] = self.out.body.emit(Alloc(type=copy.memory(value)), self._name_of(number)).result
                    self.handed.append(copy.values[value])
                case ResultArgument(index):
                    name = value.name if last else self._name_of(number)
                    copy.values[value] = self._memory(name, copy.memory(value), ResultArgument(before + index))
                    self.handed.append(copy.values[value])
                case WorkspaceArgument(dtype, dims):
                    over = [self.over_facts(dim, number) for dim in dims]
                    copy.values[value] = self._memory(value.name, copy.memory(value), WorkspaceArgument(dtype, over))
                case ScalarArgument(name, dtype) if name in stage.links:
                    value_ = self.handed[stage.links[name]]
                    if mem_of(value_).rank or mem_of(value_).dtype != dtype.value:
                        raise NotMergeable(f"`{name}` is converted before it is read")
                    copy.values[value] = self.out.body.load(value_, [])
                case ScalarArgument(name, dtype):
                    scalar = ScalarArgument(stage.names.get(name, name), dtype)
                    if scalar not in self.scalars:
                        self.scalars[scalar] = self.out.value(value.name, value.type)
                    copy.values[value] = self.scalars[scalar]
                case _:
                    copy.index_parameter(value)
        copy.digits = {
            variable: digits
            for value, argument in pairs
            if isinstance(argument, TensorArgument) and argument.name in stage.links
            for variable, digits in self._digits(stage, value, stage.links[argument.name], copy).items()
        }
        copy.all(stage.nest.body.body, self.out.body)
        if not last:
            self._rounded(self.handed[-1])

    def _digits(self, stage: Stage, memory: Value, maker: int, copy: "_Copy") -> dict[str, Digits]:
        """The loops of a stage that walk along what an earlier one stores in digits."""
        stored = digits_stored(self.out.function, self.handed[maker])
        return loops_in_digits(stage.nest, memory, stored, lambda form: self._known(form, copy)) if stored else {}

    def _known(self, form: Affine, copy: "_Copy") -> Affine:
        return copy.form(form) if set(form.names) <= copy.names.keys() else form

    def _name_of(self, number: int) -> str:
        """What its first reader among the stages calls a stage's value; "out" where none reads it."""
        names = (identifier(name) for stage in self.stages for name, maker in stage.links.items() if maker == number)
        return next(names, "out")

    def _memory(self, name: str, mem: Mem, argument: KernelArgument) -> Value:
        for value, known in self.memories:
            if known == argument and value.type == mem and isinstance(argument, TensorArgument):
                return value
        value = self.out.value(name, mem)
        self.memories.append((value, argument))
        return value

    def _rounded(self, memory: Value) -> None:
        """What is handed on is a number of its own dtype: a product isn't joined with a sum behind it."""
        for top in self.out.body.region.body:
            for op in top.walk():
                if isinstance(op, Store) and op.mem is memory:
                    _without_contraction(op.value)


def _without_contraction(value: Value) -> None:
    match value.source:
        case Binary(operator="mul") as product:
            product.flags = tuple(flag for flag in product.flags if flag != "contract")
        case Unary(operator="neg", value=inner):
            _without_contraction(inner)
        case Select(then=then, otherwise=otherwise):
            _without_contraction(then)
            _without_contraction(otherwise)


def _result_of(stage: Stage) -> Value:
    pairs = zip(stage.nest.parameters, stage.lowered.plan.arguments, strict=True)
    return next(value for value, argument in pairs if isinstance(argument, ResultArgument))


def _tensor_cores(stages: Sequence[Stage]) -> bool | None:
    said = {s.lowered.function.kernel_info.tensor_cores for s in stages if s.lowered.function.kernel_info is not None} - {None}
    if len(said) > 1:
        raise NotMergeable("`@tensor_cores` says on in one and off in the other")
    return next(iter(said), None)


class _Copy:
    """A stage's instructions in the merged function: `values` for its values, `names` for its names in affine forms."""

    def __init__(self, out: FunctionBuilder) -> None:
        self.out = out
        self.values: dict[Value, Value] = {}
        self.names: dict[str, Affine] = {}
        self.digits: dict[str, Digits] = {}
        """Of loops that become several, by variable."""

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def memory(self, value: Value) -> Mem:
        mem = mem_of(value)
        strides = None if mem.strides is None else tuple(map(self.form, mem.strides))
        return evolve(mem, dims=tuple(map(self.form, mem.dims)), strides=strides)

    def index_parameter(self, value: Value) -> None:
        self.values[value] = self.out.body.index(self.names[value.name], value.name)

    def all(self, ops: Sequence[Instruction], b: Builder) -> None:
        for op in ops:
            self._one(op, b)

    def _one(self, op: Instruction, b: Builder) -> None:
        if isinstance(op, For) and op.variable.name in self.digits:
            self._in_digits(op, self.digits[op.variable.name], b)
            return
        regions = {}
        for name in op.fields(Role.REGION, Role.OPTIONAL_REGION):
            old = getattr(op, name)
            regions[name] = None if old is None else self._region(old, b)
        changes = {"type": evolve(op.type, dims=tuple(map(self.form, op.type.dims)))} if isinstance(op, Alloc) else {}
        copy = b.emit(rebuilt(op, self.values.__getitem__, self.form, regions, **changes), op.results[0].name if op.results else "")
        for old_value, new in zip(op.results, copy.results, strict=True):
            self._bind(old_value, new)

    def _in_digits(self, loop: For, digits: Digits, b: Builder) -> None:
        """Loops, one in another; of no digits the only turn."""
        for parameter, first in zip(loop.body.parameters[1:], loop.carried, strict=True):
            self.values[parameter] = self.values[first]
        with ExitStack() as loops:
            variables = []
            for extent in digits:
                b, handle = loops.enter_context(b.loop(loop.variable.name, 0, extent, 1, (), loop.place, **dict(loop.marks)))
                variables.append(handle.variable.name)
            element = number_of(digits, variables)
            self.names[loop.variable.name] = element
            self.values[loop.variable] = b.index(element)
            self.all([op for op in loop.body.body if not isinstance(op, Yield)], b)
        yielded = next((op.operand_values for op in loop.body.body if isinstance(op, Yield)), ())
        for result, last in zip(loop.results, yielded, strict=True):
            self.values[result] = self.values[last]

    def _region(self, region: Region, b: Builder) -> Region:
        copy = Region()
        for parameter in region.parameters:
            self._bind(parameter, self.out.value(parameter.name, parameter.type))
            copy.parameters.append(self.values[parameter])
        self.all(region.body, b.child(copy))
        return copy

    def _bind(self, old: Value, new: Value) -> None:
        self.values[old] = new
        if new.type == INDEX:
            self.names[old.name] = Affine.of(new.name)
