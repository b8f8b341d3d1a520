"""One launch of a call in machine code: sizes computed and checked, room made for its results, the kernel run."""

from collections.abc import Mapping, Sequence

from compiler.backends.cpu.emit import ORDINARY, sizes_of_memories
from compiler.backends.llvm.checks import RECORD_VALUES
from compiler.backends.llvm.types import I64, PTR, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.memory import Alloc
from compiler.hir.module import Form
from compiler.hir.types import DTYPES
from compiler.launch import cpu
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls import results
from compiler.launch.native_calls.arguments import DOUBLE, TakenArray, TakenNumber, bounds_of
from compiler.launch.native_calls.code import CallCode
from compiler.launch.native_calls.grids import blocks_of
from compiler.launch.native_calls.kinds import ArrayLayout
from compiler.launch.native_calls.numbers import MOST, WholeNumber
from compiler.launch.native_calls.plan import ArrayArgument, PlannedLaunch, Unplannable
from compiler.launch.native_calls.results import HeldMemory, Part, Room
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
from compiler.typed_ast.types import DType
from runtime.tensor import numpy_dtype

WORTH_RELEASING = 1 << 16
"""Inner steps from which other threads of Python's may run meanwhile: some tens of microseconds of work."""

RELATIONS = {"==": "eq", "<=": "sle", ">=": "sge"}

Taken = TakenArray | TakenNumber


def kernel_symbol(number: int) -> str:
    """The symbol of the kernel of a launch."""
    return f"zyntax_kernel{number}"


def require_plannable(kernels: Sequence[BuiltKernel]) -> None:
    """Raises Unplannable for kernels that only the program launches one after the other: once inputs are updated, nothing may fail."""
    is_updated = False
    for kernel in kernels:
        updates = any(result.input is not None for result in kernel.lowered.plan.results)
        if (updates or is_updated) and kernel.nest.sites:
            raise Unplannable("a kernel that updates inputs, or comes later, and may fail")
        if (updates or is_updated) and any(isinstance(op, Alloc) for top in kernel.scheduled.function.body.body for op in top.walk()):
            raise Unplannable("a kernel that updates inputs, or comes later, and may run out of memory")
        if is_updated and any(isinstance(argument, WorkspaceArgument) for argument in kernel.lowered.plan.arguments):
            raise Unplannable("a kernel that has scratch memory, where inputs were updated before")
        is_updated = is_updated or updates


class LaunchCode:
    """A launch while it is written. `in_threads`, once it is prepared: whether it is worth threads."""

    in_threads: LlvmValue

    def __init__(self, code: CallCode, held: HeldMemory, number: int, planned: PlannedLaunch) -> None:
        self.code, self.w, self.held, self.number = code, code.w, held, number
        self.kernel = planned.kernel
        self.launch = planned.kernel.lowered.plan
        self.results = self.launch.results
        self.facts: dict[str, WholeNumber] = {}
        """Extents, counts of elements, ints and sizes by name."""
        self.arrays: dict[str, TakenArray] = {}
        self.numbers: dict[str, TakenNumber] = {}
        self._sizes: dict[int, WholeNumber] = {}
        self._extents: list[list[WholeNumber]] = []
        self._counts: list[WholeNumber] = []
        self._unless: list[list[WholeNumber]] = []
        self._inside: list[list[list[WholeNumber]]] = []
        self._scratches: dict[int, WholeNumber] = {}
        """The number of elements of scratch memory, by the argument's position."""
        self._rooms: list[Room] = []
        self._grid: list[WholeNumber] = []

    # ---- before anything runs ----

    def prepare(self, inputs: Mapping[str, Taken | WholeNumber]) -> None:
        """Looks at the inputs. The call goes on only where the kernel may run with them."""
        for name, taken in inputs.items():
            match taken:
                case TakenArray():
                    self.arrays[name] = taken
                    self.facts.update({f"{name}.{axis}": extent for axis, extent in enumerate(taken.extents)})
                case TakenNumber():
                    self.numbers[name] = taken
                    if taken.whole is not None:
                        self.facts[name] = taken.whole
                case WholeNumber():
                    self.facts[name] = taken
        self._require_apart()
        for scalar in self.kernel.lowered.signature.scalars:
            if isinstance(scalar.value, float):
                raise Unplannable("a kernel that is made for a float")
            if scalar.value is not None:  # the kernel is made for that number
                self.code.require(self.code.holds("eq", self._of(Affine.of(scalar.name)), scalar.value))
        self._solve()
        self._extents = [[self._of(dim).at_least_0() for dim in plan.dims] for plan in self.results]
        self._counts = [
            self.code.product(extents, MOST // plan.dtype.bytes) for extents, plan in zip(self._extents, self.results, strict=True)
        ]
        work = self._work()
        if self.kernel.lowered.function.form is Form.THREAD:
            work = self._prepare_grid(work)
        self.in_threads = self.w.compare("oge", work, constant(work.type, float(cpu.worth_threads(self.kernel))))
        self.takes_long = self.w.compare("oge", work, constant(work.type, float(WORTH_RELEASING)))
        self._unless = [[self._of(form) for form in plan.unless] for plan in self.results]
        self._inside = [[[self._of(form) for form in side] for side in plan.inside] for plan in self.results]
        for position, argument in enumerate(self.launch.arguments):
            if isinstance(argument, WorkspaceArgument):
                extents = [self._of(dim).at_least_0() for dim in argument.dims]
                self._scratches[position] = self.code.product(extents, MOST // 8)

    def handed_on(self, result: int) -> Taken:
        """A result as a later launch takes it."""
        plan = self.results[result]
        if plan.input is not None:
            raise Unplannable("an updated input that is handed on")
        if plan.scalar:
            if plan.dtype not in (DType.F32, DType.F64):
                raise Unplannable("a whole number that is handed on")
            element = DOUBLE if plan.dtype is DType.F64 else vector("float")
            return TakenNumber(plan.dtype, lambda: self.w.load(element, self._rooms[result].data))
        extents = tuple(self.code.require_below(extent.value) for extent in self._extents[result])
        dtype = numpy_dtype(plan.dtype.value)
        argument = ArrayArgument(dtype, len(extents), ArrayLayout(contiguous=True), (None,) * len(extents))
        return TakenArray(argument, lambda: self._rooms[result].data, extents)

    def part(self, result: int) -> Part:
        """A result as a part of the value."""
        return Part(self.results[result], self._rooms[result])

    def _require_apart(self) -> None:
        """No array of the caller's shares memory with one that is updated, as far as the ends of their memory tell."""
        given = {name: array for name, array in self.arrays.items() if array.object is not None}
        bounds = {name: bounds_of(self.code, array) for name, array in given.items()} if self._updated else {}
        for updated in self._updated:
            low, high = bounds[updated]
            for name, (other_low, other_high) in bounds.items():
                if name != updated:
                    below, above = self.w.compare("ule", high, other_low), self.w.compare("ule", other_high, low)
                    self.code.require(self.w.binary("or", below, above))

    @property
    def _updated(self) -> list[str]:
        return [result.input for result in self.launch.results if result.input is not None]

    def _of(self, form: Affine) -> WholeNumber:
        """The value of a form over facts and sizes."""
        for name in form.names:
            if name not in self.facts:
                self.facts[name] = self._count_of(name)
        return self.code.number(form.evaluate(self.facts.__getitem__))  # type: ignore[arg-type]

    def _count_of(self, name: str) -> WholeNumber:
        array, _, property_ = name.rpartition(".")
        if property_ != "numel" or array not in self.arrays:
            raise Unplannable(f"a launch by `{name}`")
        return self.code.product(list(self.arrays[array].extents))

    def _solve(self) -> None:
        """The value of each size argument by its position, all equations checked; only for sizes that schedules count on."""
        for rule in self.launch.sizes:
            self.facts[rule.name] = self._of(rule.form)
        for equation in self.launch.equations:
            self._require_equation(equation)
        nest = self.kernel.nest
        extents = sizes_of_memories(nest)
        known: dict[str, WholeNumber] = {}
        for position, argument in enumerate(self.launch.arguments):
            if isinstance(argument, SizeArgument):
                name = nest.parameters[position].name
                size = known[name] = self._sizes[position] = self._of(argument.form)
                if name in extents:
                    self.code.require_below(size.value, ORDINARY)
        loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
        for low, high in dict.fromkeys((loop.low, loop.high) if loop.step > 0 else (loop.high, loop.low) for loop in loops):
            if known.keys() >= {*low.names, *high.names}:
                first, last = (self.code.number(form.evaluate(known.__getitem__)) for form in (low, high))  # type: ignore[arg-type]
                self.code.require(self.code.holds("sge", last, first))

    def _require_equation(self, equation: Equation) -> None:
        holds = self.code.holds(RELATIONS[equation.relation], self._of(equation.left), self._of(equation.right))
        for form in equation.when:
            holds = self.w.binary("or", holds, self.code.holds("sle", self._of(form), 0))
        self.code.require(holds)

    def _work(self) -> LlvmValue:
        """Inner steps of the launch, roughly."""
        w = self.w
        total = self.code.rough(self.code.number(0))
        for nest in self.launch.work:
            steps = self.code.rough(self.code.number(1))
            for extent in nest:
                steps = w.binary("fmul", steps, self.code.rough(self._of(extent).at_least_0()))
            total = w.binary("fadd", total, steps)
        return total

    def _prepare_grid(self, work: LlvmValue) -> LlvmValue:
        """Blocks of a custom kernel. Gives its work, at least a look at each element (see `CpuCall`)."""
        inputs = {name: list(array.extents) for name, array in self.arrays.items()}
        counts = [self.code.product(extents) for extents in inputs.values()]
        names = [parameter.name for parameter in self.kernel.nest.parameters]
        known = {names[position]: size for position, size in self._sizes.items()}
        for position, argument in enumerate(self.launch.arguments):
            if isinstance(argument, ScalarArgument) and argument.name in self.facts:
                known[names[position]] = self.facts[argument.name]
        self._grid = blocks_of(self.code, self.kernel, known, [*inputs.values(), *self._extents], [*counts, *self._counts])
        looks = self.code.rough(self.code.number(0))
        for count in counts:
            looks = self.w.binary("fadd", looks, self.code.rough(count))
        return self.w.select(self.w.compare("ogt", looks, work), looks, work)

    # ---- memory and run ----

    def make_room(self) -> None:
        """Room for the results."""
        for plan, extents, count in zip(self.results, self._extents, self._counts, strict=True):
            self._rooms.append(self._room(plan, extents, count))

    def _room(self, plan: ResultPlan, extents: list[WholeNumber], count: WholeNumber) -> Room:
        if plan.input is not None:
            array = self.arrays[plan.input]
            return Room(array.data(), array.object)
        if plan.scalar:
            return results.new_number(self.code)
        return results.new_array(self.code, plan, extents, count, self.held, "failed")

    def run(self, threads: int) -> None:
        """Runs the kernel; other threads of Python's run meanwhile where it takes long."""
        w, code = self.w, self.code
        for number, (plan, room, count) in enumerate(zip(self.results, self._rooms, self._counts, strict=True)):
            width = numpy_dtype(plan.dtype.value).itemsize
            size = w.mul(count.value, constant(I64, width))
            if plan.copy_of is not None:
                results.copy(code, room.data, self._packed(plan.copy_of).data(), size)
            elif plan.zeroed and plan.input is None:
                results.clear(code, room, size, self._unless[number], results.Around(self._extents[number], self._inside[number], width))
        slots = self._slots(w.select(self.in_threads, constant(I64, threads), constant(I64, 1)))

        def run() -> LlvmValue:
            return code.call(kernel_symbol(self.number), I64, slots)

        def run_beside() -> LlvmValue:
            thread = code.call("PyEval_SaveThread", PTR)
            status = run()
            code.do("PyEval_RestoreThread", thread)
            return status

        if self.kernel.has_open_loops:
            status = run_beside()  # the data decide how long it takes
        else:
            status = code.either(self.takes_long, run_beside, run)
        ended = w.label("ended")
        w.branch_if(w.compare("eq", status, constant(I64, 0)), ended, "failed")
        w.start(ended)

    def _slots(self, threads: LlvmValue) -> LlvmValue:
        """The kernel's arguments as it takes them."""
        code, w, arguments = self.code, self.w, self.launch.arguments
        slots, record = w.alloca(I64, len(arguments) + len(self._grid) + 2), w.alloca(I64, 1 + RECORD_VALUES)
        for position, argument in enumerate(arguments):
            match argument:
                case TensorArgument(name):
                    value = (self._packed(name) if argument.packed else self.arrays[name]).data()
                case StrideArgument(name, axis):
                    value = self._stride(self.arrays[name], axis)
                case SizeArgument():
                    value = self._sizes[position].value
                case ScalarArgument(name):
                    value = self._number(name, argument.dtype)
                case ResultArgument(index):
                    value = self._rooms[index].data
                case WorkspaceArgument():
                    value = results.scratch(code, self._scratches[position], max(1, DTYPES[argument.dtype] // 8), self.held, "failed")
            w.store(value, code.at(slots, 8 * position))
        for position, number in enumerate([*(blocks.value for blocks in self._grid), threads, record], len(arguments)):
            w.store(number, code.at(slots, 8 * position))
        return slots

    def _packed(self, name: str) -> TakenArray:
        array = self.arrays[name]
        if not array.argument.layout.contiguous:
            raise Unplannable("an array that is copied first")
        return array

    def _stride(self, array: TakenArray, axis: int) -> LlvmValue:
        if not array.strides:
            raise Unplannable("strides of a contiguous array")
        return self.w.binary("sdiv exact", array.strides[axis], constant(I64, array.width))

    def _number(self, name: str, dtype: DType) -> LlvmValue:
        if name in self.numbers:
            taken = self.numbers[name]
            if taken.dtype is not dtype:
                raise Unplannable(f"a {taken.dtype.value} as a {dtype.value}")
            return taken.value()
        if dtype is not DType.I64:
            raise Unplannable(f"a size as a {dtype.value}")
        return self._of(Affine.of(name)).value
