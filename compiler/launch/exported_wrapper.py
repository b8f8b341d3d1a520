"""The function that C calls for a compute block, while it is written: it checks what it is given, makes room for temporaries, runs the
kernel and says what went wrong.

Extents of a call are known when it runs. The kernel's launch plan is computed by the wrapper, as machine code that answers calls from
Python does it (`launch/native_calls`)."""

import re
from collections.abc import Iterator, Mapping, Sequence

from compiler.backends.cpu.emit import ORDINARY, sizes_of_memories
from compiler.backends.host.exported_header import (
    C_NAMES,
    c_names,
    passed,
    refused,
)
from compiler.backends.host.exported_messages import compare_extents, fail, leave_if, printed
from compiler.backends.llvm.checks import RECORD_VALUES, CheckSite
from compiler.backends.llvm.types import I8, I32, I64, PTR, LlvmType, memory_type, vector
from compiler.backends.llvm.writer import LlvmValue, ModuleWriter, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.types import bytes_of, is_float
from compiler.launch import cpu
from compiler.launch.faults import WITHOUT_SITE
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls.numbers import MOST, WholeNumber, known
from compiler.launch.native_calls.plan import Unplannable
from compiler.lowering.dtypes import hir_name
from compiler.lowering.kernel import (
    Equation,
    ResultArgument,
    ScalarArgument,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    WorkspaceArgument,
)
from compiler.lowering.result_plan import ResultPlan
from compiler.source import Sources, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.native_tensors import extents
from compiler.typed_ast.types import Scalar, TensorType, TupleType, Type

_RELATIONS = {"==": "eq", "<=": "sle", ">=": "sge"}
_ALIGNMENT = 64
"""Bytes at whose multiples temporaries begin, as the schedules count on."""
NUMBERS = "kernels take and give numbers of up to 64 bits, bool, and tensors of these whose types say how many axes they have"


class KernelWrapper:
    """The function that C calls while it is written."""

    def __init__(
        self,
        writer: ModuleWriter,
        own: FunctionEffects,
        name: str,
        compute: nodes.Compute,
        kernel: BuiltKernel,
        sources: Sources,
        threads: bool,
    ) -> None:
        self.own, self.kernel, self.sources, self.threads = own, kernel, sources, threads
        self.span: Span | None = compute.span
        self.plan = kernel.lowered.plan
        self.parameter_of = {
            **{parameter.name: parameter.name for parameter in own.function.parameters},
            **{entry.name: entry.value.name for entry in compute.inputs if isinstance(entry.value, nodes.Name)},
        }
        """The parameter of the function that an input of the kernel is."""
        self.own_results = [plan for plan in self.plan.results if plan.input is None]
        self.result_names = [f"result{number}" if len(self.own_results) > 1 else "result" for number in range(len(self.own_results))]
        self.w = writer.function(name, I32, self._parameters(), "", "")
        self.facts: dict[str, WholeNumber] = {}
        self.values: dict[str, LlvmValue] = {}
        """The address or the number that is passed for a parameter, by its name."""
        self.extents: dict[str, list[LlvmValue]] = {}
        self.sizes: dict[str, LlvmValue] = {}
        """The sizes that the types of the parameters name."""
        self.places: list[LlvmValue] = []
        """Where results go."""
        self.results_given: list[list[LlvmValue]] = []
        self.held: list[LlvmValue] = []
        """Memory that is given back."""

    # ---- how it looks to C ----

    @property
    def declared(self) -> tuple[str, ...]:
        """The parameters as C declares them."""
        parameters = self.own.function.parameters
        names = c_names([parameter.name for parameter in parameters])
        declared = [
            text
            for parameter, type_, name in zip(parameters, self.own.parameters, names, strict=True)
            for text in passed(parameter, type_, name)
        ]
        added = []
        for plan, name in zip(self.own_results, self.result_names, strict=True):
            if plan.dtype.value not in C_NAMES:
                raise refused(f"`{self.own.name}` can't be exported: C has no form for `{plan.dtype.value}`", self.span, NUMBERS)
            added += [f"{C_NAMES[plan.dtype.value]} *{name}", *(f"int64_t {name}_extent{axis}" for axis in range(_rank_of(plan)))]
        taken = {text.rpartition(" ")[2].lstrip("*") for text in declared}
        both = taken & {text.rpartition(" ")[2].lstrip("*") for text in added}
        if both:
            message = f"`{self.own.name}` can't be exported: `{min(both)}` is the name of a result in C"
            raise refused(message, self.own.function.span, "rename the parameter")
        return (*declared, *added)

    def _parameters(self) -> list[tuple[LlvmType, str]]:
        parameters: list[tuple[LlvmType, str]] = []
        for number, type_ in enumerate(self.own.parameters):
            parameters.append((memory_type(hir_name(type_.dtype)) if isinstance(type_, Scalar) else PTR, f"p{number}"))
            parameters += [(I64, f"p{number}.{axis}") for axis in range(_rank(type_))]
        for number, plan in enumerate(self.own_results):
            parameters += [(PTR, f"r{number}"), *((I64, f"r{number}.{axis}") for axis in range(_rank_of(plan)))]
        return parameters

    # ---- the whole ----

    def write(self, fast: str, plain: str | None, report: str, checks: Sequence[CheckSite]) -> None:
        w = self.w
        self._take()
        self._solve()
        self._compare_results()
        arguments = [*enumerate(self.plan.arguments)]
        numbers = {position: self._size(position, argument) for position, argument in arguments if isinstance(argument, SizeArgument)}
        ordinary = self._ordinary(numbers) if plain is not None else None
        scratches = [self._count(argument) for argument in self.plan.arguments if isinstance(argument, WorkspaceArgument)]
        self._make_room(scratches)
        self._prepare_results()
        slots, record = self._slots(numbers)
        for symbol in filter(None, (fast, plain, report if checks else None)):
            w.module.declare(symbol, "i64 (ptr)")
        answer = self._run(fast, plain, ordinary, slots)
        failed, good = w.label("failed"), w.label("good")
        w.branch_if(w.compare("eq", answer, constant(I64, 0)), good, failed)
        w.start(failed)
        self._tell(answer, report, checks, slots, record)
        w.start(good)
        self._give_back()
        w.ret(constant(I32, 0))

    def _leave_if(self, condition: LlvmValue, code: str, text: str, values: Sequence[LlvmValue] = ()) -> None:
        leave_if(self.w, condition, code, text, values, self.span, self.sources)

    # ---- what it is given ----

    def _take(self) -> None:
        w, given = self.w, iter(self.w.parameters)
        for parameter, type_ in zip(self.own.function.parameters, self.own.parameters, strict=True):
            self.values[parameter.name] = next(given)
            if isinstance(type_, TensorType):
                self.extents[parameter.name] = [next(given) for _ in range(_rank(type_))]
        for plan in self.own_results:
            self.places.append(next(given))
            self.results_given.append([next(given) for _ in range(_rank_of(plan))])
        compare_extents(w, self.own, self.extents, self.sources)
        for parameter, type_ in zip(self.own.function.parameters, self.own.parameters, strict=True):
            names = extents(type_) if isinstance(type_, TensorType) else None
            for name, extent in zip(names or (), self.extents.get(parameter.name, ()), strict=True):
                if isinstance(name, str):
                    self.sizes.setdefault(name, extent)
        signature = self.kernel.lowered.signature
        for tensor in signature.tensors:
            own = self.extents[self._parameter(tensor.name)]
            for axis, extent in enumerate(own):
                text = f"axis {axis} of `{self._parameter(tensor.name)}` has the extent %lld"
                self._leave_if(w.compare("uge", extent, constant(I64, MOST)), "0802", text, [extent])
                self.facts[f"{tensor.name}.{axis}"] = WholeNumber(w, extent, MOST)
            factors = [self.facts[f"{tensor.name}.{axis}"] for axis in range(len(own))]
            self.facts[f"{tensor.name}.numel"] = self._product(factors, MOST // tensor.dtype.bytes, f"`{self._parameter(tensor.name)}`")
        used = self._names_in_forms()
        for scalar in signature.scalars:
            if scalar.value is not None:
                raise Unplannable("its block is compiled for values of a call")
            if scalar.name not in self.parameter_of and scalar.name in self.sizes:
                self.values[scalar.name] = self.sizes[scalar.name]
                self.facts[scalar.name] = WholeNumber(w, self.sizes[scalar.name], MOST)
            elif scalar.name in used and not scalar.dtype.is_float:
                name = self._parameter(scalar.name)
                wide = w.convert("sext" if scalar.dtype.is_signed else "zext", self.values[name], "i64")
                self._leave_if(w.compare("sgt", wide, constant(I64, MOST)), "0804", f"the size `{name}` is %lld", [wide])
                self._leave_if(w.compare("slt", wide, constant(I64, -MOST)), "0804", f"the size `{name}` is %lld", [wide])
                self.facts[scalar.name] = WholeNumber(w, wide, MOST)

    def _parameter(self, name: str) -> str:
        if name not in self.parameter_of:
            raise Unplannable(f"`{name}` isn't one of its parameters")
        return self.parameter_of[name]

    def _names_in_forms(self) -> set[str]:
        plan = self.plan
        forms = [rule.form for rule in plan.sizes]
        forms += [form for equation in plan.equations for form in (equation.left, equation.right, *equation.when)]
        forms += [form for result in plan.results for form in (*result.dims, *result.unless)]
        forms += [argument.form for argument in plan.arguments if isinstance(argument, SizeArgument)]
        forms += [dim for argument in plan.arguments if isinstance(argument, WorkspaceArgument) for dim in argument.dims]
        forms += [form for extents in plan.work for form in extents]
        return {name for form in forms for name in form.names}

    # ---- sizes ----

    def _of(self, form: Affine) -> WholeNumber:
        strange = [name for name in form.names if name not in self.facts]
        if strange:
            raise Unplannable(f"its sizes depend on `{strange[0]}`")
        number = form.evaluate(self.facts.__getitem__)  # type: ignore[arg-type]
        return number if isinstance(number, WholeNumber) else known(self.w, number)

    def _solve(self) -> None:
        for rule in self.plan.sizes:
            self.facts[rule.name] = self._of(rule.form)
        for equation in self.plan.equations:
            self._require(equation)

    def _require(self, equation: Equation) -> None:
        w, shown = self.w, equation.diagnostic
        left, right = self._of(equation.left).value, self._of(equation.right).value
        wrong = w.binary("xor", w.compare(_RELATIONS[equation.relation], left, right), w.true())
        for form in equation.when:
            wrong = w.binary("and", wrong, w.compare("sgt", self._of(form).value, constant(I64, 0)))
        numbers = {"{left}": left, "{right}": right}
        places = re.findall(r"\{left\}|\{right\}", shown.message)
        text = re.sub(r"\{left\}|\{right\}", "%lld", shown.message.replace("%", "%%"))
        leave_if(w, wrong, shown.code, text, [numbers[place] for place in places], shown.span or self.span, self.sources)

    def _require_dtypes(self) -> None:
        """Raises Unplannable where the block's numbers are others than those of the function, which converts them."""
        types = _flat(self.own.result)
        if types is not None and len(types) == len(self.own_results):
            for type_, plan in zip(types, self.own_results, strict=True):
                element = type_.element if isinstance(type_, TensorType) else type_
                if isinstance(element, Scalar) and element.dtype is not plan.dtype:
                    raise Unplannable(f"its block gives {plan.dtype.value}, and its result is {element.dtype.value}")

    def _declared_extents(self) -> list[int | None]:
        """The extents of the one result that its type gives as numbers. Names there are those that the block gives it."""
        syntax = self.own.function.result
        if not isinstance(syntax, nodes.TensorTypeSyntax) or len(self.own_results) != 1:
            return []
        return [dim.value.value if isinstance(dim.value, nodes.IntLiteral) else None for dim in syntax.dims or ()]

    def _compare_results(self) -> None:
        self._require_dtypes()
        for axis, (want, extent) in enumerate(
            zip(self._declared_extents(), self.results_given[0] if self.results_given else (), strict=False)
        ):
            if want is not None:
                text = f"axis {axis} of `result` has the extent %lld, and that of its type is {want}"
                self._leave_if(self.w.compare("ne", extent, constant(I64, want)), "0802", text, [extent])
        for plan, given, name in zip(self.own_results, self.results_given, self.result_names, strict=True):
            dims = [self._of(dim).at_least_0() for dim in plan.dims] if not plan.scalar else []
            for axis, (dim, extent) in enumerate(zip(dims, given, strict=True)):
                text = f"axis {axis} of `{name}` has the extent %lld, and that of the result is %lld"
                self._leave_if(self.w.compare("ne", extent, dim.value), "0802", text, [extent, dim.value])
            self._product(dims, MOST // plan.dtype.bytes, f"`{name}`")

    def _size(self, position: int, argument: SizeArgument) -> WholeNumber:
        size = self._of(argument.form)
        if self.kernel.nest.parameters[position].name in sizes_of_memories(self.kernel.nest) and size.bound > ORDINARY:
            text = f"the size `{argument.form}` is %lld"
            self._leave_if(self.w.compare("sge", size.value, constant(I64, ORDINARY)), "0804", text, [size.value])
        return size

    def _ordinary(self, numbers: Mapping[int, WholeNumber]) -> LlvmValue:
        """Whether extents are at least 0 and loops end no lower than they begin, which schedules count on."""
        w, nest = self.w, self.kernel.nest
        by_name = {nest.parameters[position].name: number for position, number in numbers.items()}
        holds = w.true()
        for name in sizes_of_memories(nest) & by_name.keys():
            holds = w.binary("and", holds, w.compare("sge", by_name[name].value, constant(I64, 0)))
        loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
        for low, high in dict.fromkeys((loop.low, loop.high) if loop.step > 0 else (loop.high, loop.low) for loop in loops):
            if by_name.keys() >= {*low.names, *high.names}:
                distance = (high - low).evaluate(by_name.__getitem__)  # type: ignore[arg-type]
                length = distance.value if isinstance(distance, WholeNumber) else constant(I64, distance)
                holds = w.binary("and", holds, w.compare("sge", length, constant(I64, 0)))
        return holds

    def _product(self, factors: Sequence[WholeNumber], most: int, what: str) -> WholeNumber:
        """The product of numbers that are at least 0; leaves where it is more than memory holds."""
        w = self.w
        total, rough = constant(I64, 1), constant(vector("double"), 1.0)
        for factor in factors:
            total = w.binary("mul", total, factor.value)
            rough = w.binary("fmul", rough, w.convert("sitofp", factor.value, "double"))
        text = f"{what} has more elements than any memory can hold"
        self._leave_if(w.compare("oge", rough, constant(rough.type, float(most))), "0804", text)
        return WholeNumber(w, total, most)

    def _count(self, argument: WorkspaceArgument) -> WholeNumber:
        return self._product([self._of(dim).at_least_0() for dim in argument.dims], MOST // 8, "a temporary")

    # ---- memory ----

    def _make_room(self, counts: Sequence[WholeNumber]) -> None:
        """Memory for temporaries. Where there is none, what there is of it is given back."""
        w = self.w
        arguments = [argument for argument in self.plan.arguments if isinstance(argument, WorkspaceArgument)]
        for argument, count in zip(arguments, counts, strict=True):
            size = w.mul(count.value, constant(I64, bytes_of(argument.dtype)))
            rounded = w.binary("and", w.add(size, constant(I64, 2 * _ALIGNMENT - 1)), constant(I64, -_ALIGNMENT))
            w.module.declare("aligned_alloc", "ptr (i64, i64)")
            self.held.append(w.call("aligned_alloc", PTR, constant(I64, _ALIGNMENT), rounded))
        missing: LlvmValue | None = None
        for address in self.held:
            none = w.compare("eq", address, LlvmValue(PTR, "null"))
            missing = none if missing is None else w.binary("or", missing, none)
        if missing is not None:
            bad, good = w.label("full"), w.label("room")
            w.branch_if(missing, bad, good)
            w.start(bad)
            self._give_back()
            self._fail("0804", WITHOUT_SITE["0804"])
            w.start(good)

    def _give_back(self) -> None:
        for address in self.held:
            self.w.module.declare("free", "void (ptr)")
            self.w.call_void("free", address)

    def _prepare_results(self) -> None:
        """Results that begin as zeros or as a copy."""
        w = self.w
        for plan, place in zip(self.own_results, self.places, strict=True):
            size = constant(I64, plan.dtype.bytes)
            for dim in plan.dims:
                size = w.binary("mul", size, self._of(dim).at_least_0().value)
            if plan.copy_of is not None:
                w.module.declare("llvm.memcpy.p0.p0.i64", "void (ptr, ptr, i64, i1)")
                w.line(f"call void @llvm.memcpy.p0.p0.i64({place}, {self.values[self._parameter(plan.copy_of)]}, {size}, i1 false)")
            elif plan.zeroed:
                w.module.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
                if plan.unless:
                    covered = w.true()
                    for form in plan.unless:
                        covered = w.binary("and", covered, w.compare("sge", self._of(form).value, constant(I64, 0)))
                    size = w.select(covered, constant(I64, 0), size)
                w.line(f"call void @llvm.memset.p0.i64({place}, i8 0, {size}, i1 false)")

    # ---- the kernel ----

    def _slots(self, numbers: Mapping[int, WholeNumber]) -> tuple[LlvmValue, LlvmValue]:
        """The kernel's arguments in memory, and the record behind them."""
        w, count = self.w, len(self.plan.arguments)
        slots = w.alloca(I64, count + 2, 8)
        record = w.alloca(I64, 1 + RECORD_VALUES, 8)
        scratches = iter(self.held)
        results = iter(self.places)
        place_of = {number: self._place(plan, results) for number, plan in enumerate(self.plan.results)}
        for position, argument in enumerate(self.plan.arguments):
            at = w.offset(slots, constant(I64, 8 * position), I8)
            match argument:
                case TensorArgument(name):
                    w.store(self.values[self._parameter(name)], at, 8)
                case StrideArgument(name, axis):
                    stride = constant(I64, 1)
                    for extent in self.extents[self._parameter(name)][axis + 1 :]:
                        stride = w.binary("mul", stride, extent)
                    w.store(stride, at, 8)
                case SizeArgument():
                    w.store(numbers[position].value, at, 8)
                case ScalarArgument(name, dtype):
                    own = name if name in self.sizes and name not in self.parameter_of else self._parameter(name)
                    w.store(self._number(self.values[own], hir_name(dtype)), at, 8)
                case ResultArgument(index):
                    w.store(place_of[index], at, 8)
                case WorkspaceArgument():
                    w.store(next(scratches), at, 8)
        w.store(self._team(), w.offset(slots, constant(I64, 8 * count), I8), 8)
        w.store(record, w.offset(slots, constant(I64, 8 * count + 8), I8), 8)
        return slots, record

    def _place(self, plan: ResultPlan, results: Iterator[LlvmValue]) -> LlvmValue:
        return self.values[self._parameter(plan.input)] if plan.input is not None else next(results)

    def _number(self, value: LlvmValue, dtype: str) -> LlvmValue:
        """A number as its slot holds it: C's bool is any byte but 0."""
        if dtype == "i1":
            return self.w.convert("zext", self.w.compare("ne", value, constant(value.type, 0)), "i64")
        if is_float(dtype):
            return value
        return self.w.convert("zext" if dtype.startswith("u") else "sext", value, "i64")

    def _team(self) -> LlvmValue:
        """How many threads: those of OpenMP, where there is enough work for them."""
        w = self.w
        if not self.threads:
            return constant(I64, 1)
        work = constant(vector("double"), 0.0)
        for nest in self.plan.work:
            steps = constant(vector("double"), 1.0)
            for extent in nest:
                steps = w.binary("fmul", steps, w.convert("sitofp", self._of(extent).at_least_0().value, "double"))
            work = w.binary("fadd", work, steps)
        w.module.declare("omp_get_max_threads", "i32 ()")
        most = w.convert("sext", w.call("omp_get_max_threads", I32), "i64")
        return w.select(w.compare("oge", work, constant(work.type, float(cpu.worth_threads(self.kernel)))), most, constant(I64, 1))

    def _run(self, fast: str, plain: str | None, ordinary: LlvmValue | None, slots: LlvmValue) -> LlvmValue:
        w = self.w
        if plain is None or ordinary is None:
            return w.call(fast, I64, slots)
        chosen = w.select(ordinary, LlvmValue(PTR, f"@{fast}"), LlvmValue(PTR, f"@{plain}"))
        return w.value(I64, f"call i64 {chosen.text}({slots})")

    # ---- what went wrong ----

    def _fail(self, code: str, text: str, values: Sequence[LlvmValue] = (), span: Span | None = None) -> None:
        fail(self.w, code, text, values, span or self.span, self.sources)

    def _tell(self, answer: LlvmValue, report: str, checks: Sequence[CheckSite], slots: LlvmValue, record: LlvmValue) -> None:
        """The message of a kernel that stopped. Which check fails first its nest says, which runs once more as it is written."""
        w = self.w
        full, checked = w.label("full"), w.label("checked")
        w.branch_if(w.compare("uge", answer, constant(I64, 2)), full, checked)
        w.start(checked)
        if checks:
            w.store(constant(I64, 1), w.offset(slots, constant(I64, 8 * len(self.plan.arguments)), I8), 8)
            again = w.call(report, I64, slots)
            self._give_back()
            told, strange = w.label("told"), w.label("strange")
            w.branch_if(w.compare("eq", again, constant(I64, 1)), told, strange)
            w.start(told)
            labels = [w.label("check") for _ in checks]
            cases = " ".join(f"i64 {number}, label %{label}" for number, label in enumerate(labels))
            w.line(f"switch {w.load(I64, record, 8)}, label %{strange} [ {cases} ]")
            w.terminated = True
            for check, label in zip(checks, labels, strict=True):
                w.start(label)
                self._tell_check(check, record)
            w.start(strange)
        else:
            self._give_back()
        self._fail("0801", "a kernel failed with code 0801")
        w.start(full)
        self._give_back()
        self._fail("0804", WITHOUT_SITE["0804"])

    def _tell_check(self, check: CheckSite, record: LlvmValue) -> None:
        w, sites = self.w, self.kernel.nest.sites
        if not 0 <= check.site < len(sites):
            self._fail(check.code, WITHOUT_SITE.get(check.code, f"a kernel failed with code {check.code}"))
            return
        site = sites[check.site]
        values = []
        for number, dtype in enumerate(check.dtypes[:RECORD_VALUES]):
            at = w.offset(record, constant(I64, 8 * (number + 1)), I8)
            values.append(w.load(vector("double") if is_float(dtype) else I64, at, 8))
        text, arguments = printed(w, site.message, check.dtypes, values)
        self._fail(site.code, text, arguments, site.span)


def _flat(type_: Type) -> list[Type] | None:
    """The types in a tuple, and in those within it; None where that isn't known."""
    match type_:
        case TupleType(elements=elements):
            parts = [_flat(element) for element in elements]
            return None if None in parts else [one for part in parts if part is not None for one in part]
        case Scalar() | TensorType():
            return [type_]
        case _:
            return None


def _rank(type_: object) -> int:
    return (type_.shape.rank or 0) if isinstance(type_, TensorType) else 0


def _rank_of(plan: ResultPlan) -> int:
    return 0 if plan.scalar else len(plan.dims)
