"""The machine code of a plan: arguments taken, sizes computed and checked, memory made, the kernel run, the value given.

Everything that the way through the program decides on is looked at here, in its order where it matters. Nothing is written before the
kernel runs; where it reports a fault, what was made is given back and the call goes the way through the program, which runs it
once more and tells what is wrong."""

from typing import Any

from compiler.backends.cpu.emit import ORDINARY, sizes_of_memories
from compiler.backends.llvm.checks import RECORD_VALUES
from compiler.backends.llvm.types import I8, I64, PTR
from compiler.backends.llvm.writer import Value, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For, While
from compiler.hir.memory import Alloc
from compiler.hir.module import Form
from compiler.hir.types import DTYPES
from compiler.launch import cpu
from compiler.launch.native_calls import results
from compiler.launch.native_calls.arguments import TakenArray, bounds_of, take_array, take_number
from compiler.launch.native_calls.code import NULL, CallCode
from compiler.launch.native_calls.entry import SLOWLY
from compiler.launch.native_calls.numbers import MOST, WholeNumber
from compiler.launch.native_calls.plan import ArrayArgument, ArrayLayout, CallPlan, Unplannable
from compiler.launch.native_calls.results import Held, Room
from compiler.lowering.kernel import (
    Equation,
    ResultArgument,
    ScalarArgument,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    WorkspaceArgument,
)
from compiler.lowering.result_plan import ResultPlan, grouped
from compiler.typed_ast.types import DType
from runtime.tensor import numpy_dtype

WORTH_RELEASING = 1 << 16
"""Inner steps from which other threads of Python's may run meanwhile: some tens of microseconds of work."""

RELATIONS = {"==": "eq", "<=": "sle", ">=": "sge"}

KERNEL, NEXT = "zyntax_kernel", "zyntax_next_call"
"""Symbols of the kernel, and of the code for other calls."""

FORKED = "zyntax_forked"
"""Symbol of the byte that isn't 0 in a forked process."""


def emit_call(plan: CallPlan, unawaited: object, reading: object, attributes: tuple[str, ...]) -> CallCode:
    """The code of a plan. `unawaited` and `reading`: dictionaries with something in them while futures are under way whose faults a call
    must tell, or that read arrays. Raises Unplannable."""
    _require_plannable(plan)
    return _Call(plan, CallCode(attributes)).emit(unawaited, reading)


def _require_plannable(plan: CallPlan) -> None:
    kernel = plan.kernel
    if kernel.nest.form is Form.THREAD:
        raise Unplannable("a kernel whose grid is computed")
    if any(scalar.value is not None for scalar in kernel.lowered.signature.scalars):
        raise Unplannable("a kernel that is specialised on a number")
    if any(result.input is not None for result in plan.kernel.lowered.plan.results):
        if kernel.nest.sites:
            raise Unplannable("a kernel that updates inputs, and may fail")
        if any(isinstance(op, Alloc) for top in kernel.scheduled.function.body.body for op in top.walk()):
            raise Unplannable("a kernel that updates inputs, and may run out of memory")


class _Call:
    def __init__(self, plan: CallPlan, code: CallCode) -> None:
        self.plan, self.code, self.w = plan, code, code.w
        self.launch = plan.kernel.lowered.plan
        self.facts: dict[str, WholeNumber] = {}
        """Extents, counts of elements, ints and sizes of the launch by name."""
        self.arrays: dict[str, TakenArray] = {}
        self.scalars: dict[str, Value] = {}
        """Numbers by the block's name for them."""
        self.held = Held(code)

    def emit(self, unawaited: object, reading: object) -> CallCode:
        code, w = self.code, self.w
        self._take(unawaited, reading)
        sizes = self._sizes()
        work = self._work()
        in_threads = w.compare("oge", work, constant(work.type, float(cpu.WORTH_THREADS)))
        if self.plan.threads > 1:
            self._require_own_threads(in_threads)
        rooms, slots = self._memory(sizes, w.select(in_threads, constant(I64, self.plan.threads), constant(I64, 1)))
        status = self._run(slots, work)
        self.held.give_back(only="free")
        ended = w.label("ended")
        w.branch_if(w.compare("eq", status, constant(I64, 0)), ended, "faulty")
        w.start(ended)
        w.ret(self._value(rooms))
        w.start("failed")
        code.do("PyErr_Clear")
        self.held.give_back()
        w.branch("slow")
        w.start("faulty")
        self.held.give_back(only="Py_DecRef")
        w.branch("slow")
        code.end(SLOWLY, "slow")
        code.end(NEXT, "otherwise")
        return code

    # ---- arguments ----

    def _take(self, unawaited: object, reading: object) -> None:
        code, w, arguments = self.code, self.w, self.plan.arguments
        _, given, count, keywords = w.parameters
        code.require(w.compare("eq", keywords, NULL))
        # the highest bit says something else
        count = w.binary("and", count, constant(I64, (1 << 63) - 1))
        code.require(w.compare("eq", count, constant(I64, len(arguments))))
        self._require_empty(unawaited)
        if any(isinstance(argument, ArrayArgument) and argument.updated for argument in arguments):
            self._require_empty(reading)
        taken: list[TakenArray | tuple[Value, WholeNumber | None]] = []
        for position, argument in enumerate(arguments):
            held = w.load(PTR, code.at(given, 8 * position))
            taken.append(take_array(code, held, argument) if isinstance(argument, ArrayArgument) else take_number(code, held, argument))
        for name, (position, axis) in self.plan.sizes.items():
            array = taken[position]
            assert isinstance(array, TakenArray)
            self.facts[name] = array.extents[axis]
        for array in taken:
            if isinstance(array, TakenArray):
                self._require_extents(array)
        for name, position in self.plan.inputs.items():
            self._bind(name, taken[position])
        self._require_apart()

    def _require_empty(self, dictionary: object) -> None:
        size = self.code.call("PyDict_Size", I64, self.code.object(dictionary))
        self.code.require(self.w.compare("eq", size, constant(I64, 0)))

    def _require_extents(self, array: TakenArray) -> None:
        """The extents are those of the declared type."""
        for form, extent in zip(array.argument.extents, array.extents, strict=True):
            if form is not None:
                self.code.require_same(self._of(form), extent)

    def _bind(self, name: str, taken: "TakenArray | tuple[Value, WholeNumber | None]") -> None:
        if isinstance(taken, TakenArray):
            self.arrays[name] = taken
            self.facts.update({f"{name}.{axis}": extent for axis, extent in enumerate(taken.extents)})
            return
        self.scalars[name], number = taken
        if number is not None:
            self.facts[name] = number

    def _require_apart(self) -> None:
        """No array shares memory with one that is updated, as far as the ends of their memory tell."""
        bounds = {name: bounds_of(self.code, array) for name, array in self.arrays.items()} if self._updated else {}
        for updated in self._updated:
            low, high = bounds[updated]
            for name, (other_low, other_high) in bounds.items():
                if name != updated:
                    below, above = self.w.compare("ule", high, other_low), self.w.compare("ule", other_high, low)
                    self.code.require(self.w.binary("or", below, above))

    @property
    def _updated(self) -> list[str]:
        return [result.input for result in self.launch.results if result.input is not None]

    # ---- sizes ----

    def _of(self, form: Affine) -> WholeNumber:
        """The value of a form over facts and sizes."""
        for name in form.names:
            if name not in self.facts:
                self.facts[name] = self._count_of(name)
        return self.code.number(form.evaluate(self.facts.__getitem__))  # type: ignore[arg-type]

    def _count_of(self, name: str) -> WholeNumber:
        array, _, what = name.rpartition(".")
        if what != "numel" or array not in self.arrays:
            raise Unplannable(f"a launch by `{name}`")
        return self.code.product(list(self.arrays[array].extents))

    def _sizes(self) -> dict[int, WholeNumber]:
        """The value of each size argument by its position, all equations checked; only for sizes that schedules count on."""
        for rule in self.launch.sizes:
            self.facts[rule.name] = self._of(rule.form)
        for equation in self.launch.equations:
            self._require_equation(equation)
        nest = self.plan.kernel.nest
        extents = sizes_of_memories(nest)
        known: dict[str, WholeNumber] = {}
        sizes: dict[int, WholeNumber] = {}
        for position, argument in enumerate(self.launch.arguments):
            if isinstance(argument, SizeArgument):
                name = nest.parameters[position].name
                size = known[name] = sizes[position] = self._of(argument.form)
                if name in extents:
                    self.code.require_below(size.value, ORDINARY)
        loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
        for low, high in dict.fromkeys((loop.low, loop.high) if loop.step > 0 else (loop.high, loop.low) for loop in loops):
            if known.keys() >= {*low.names, *high.names}:
                first, last = (self.code.number(form.evaluate(known.__getitem__)) for form in (low, high))  # type: ignore[arg-type]
                self.code.require(self.code.holds("sge", last, first))
        return sizes

    def _require_equation(self, equation: Equation) -> None:
        holds = self.code.holds(RELATIONS[equation.relation], self._of(equation.left), self._of(equation.right))
        for form in equation.when:
            holds = self.w.binary("or", holds, self.code.holds("sle", self._of(form), 0))
        self.code.require(holds)

    def _work(self) -> Value:
        """Inner steps of the launch, roughly."""
        w = self.w
        total = self.code.rough(self.code.number(0))
        for nest in self.launch.work:
            steps = self.code.rough(self.code.number(1))
            for extent in nest:
                steps = w.binary("fmul", steps, self.code.rough(self._of(extent).at_least_0()))
            total = w.binary("fadd", total, steps)
        return total

    # ---- the run ----

    def _require_own_threads(self, in_threads: Value) -> None:
        """A forked process begins its teams elsewhere."""
        w = self.w
        self.code.module.globals.append(f"@{FORKED} = external global i8")
        parent = w.compare("eq", w.load(I8, Value(PTR, f"@{FORKED}")), constant(I8, 0))
        self.code.require(w.binary("or", parent, w.binary("xor", in_threads, w.true())))

    def _memory(self, sizes: dict[int, WholeNumber], threads: Value) -> tuple[list[Room], Value]:
        """Room for the results, and the kernel's arguments as it takes them."""
        code, w, plans = self.code, self.w, self.launch.results
        extents = [[self._of(dim).at_least_0() for dim in plan.dims] for plan in plans]
        counts = [code.product(dims, MOST // plan.dtype.bytes) for dims, plan in zip(extents, plans, strict=True)]
        scratches = {
            position: ([self._of(dim).at_least_0() for dim in argument.dims], DTYPES[argument.dtype])
            for position, argument in enumerate(self.launch.arguments)
            if isinstance(argument, WorkspaceArgument)
        }
        # from here on nothing but a lack of memory goes wrong
        rooms = [self._room(plan, dims, count) for plan, dims, count in zip(plans, extents, counts, strict=True)]
        slots = w.alloca(I64, len(self.launch.arguments) + 2)
        for position, argument in enumerate(self.launch.arguments):
            match argument:
                case TensorArgument(name):
                    value = self._array_for(name, argument.packed).data
                case StrideArgument(name, axis):
                    value = self._stride(self.arrays[name], axis)
                case SizeArgument():
                    value = sizes[position].value
                case ScalarArgument(name):
                    value = self._scalar(name, argument.dtype)
                case ResultArgument(index):
                    value = rooms[index].data
                case WorkspaceArgument():
                    dims, bits = scratches[position]
                    value = results.scratch(code, dims, max(1, bits // 8), self.held, "failed")
            w.store(value, code.at(slots, 8 * position))
        record = w.alloca(I64, 1 + RECORD_VALUES)
        w.store(threads, code.at(slots, 8 * len(self.launch.arguments)))
        w.store(record, code.at(slots, 8 * len(self.launch.arguments) + 8))
        return rooms, slots

    def _array_for(self, name: str, packed: bool) -> TakenArray:
        array = self.arrays[name]
        if packed and array.argument.layout is not ArrayLayout.CONTIGUOUS:
            raise Unplannable("an array that is copied first")
        return array

    def _stride(self, array: TakenArray, axis: int) -> Value:
        if not array.strides:
            raise Unplannable("strides of a contiguous array")
        return self.w.binary("sdiv exact", array.strides[axis], constant(I64, array.width))

    def _scalar(self, name: str, dtype: DType) -> Value:
        if name in self.scalars:
            taken = self.plan.arguments[self.plan.inputs[name]]
            if taken.dtype is not dtype:
                raise Unplannable(f"a {taken.dtype} as a {dtype.value}")
            return self.scalars[name]
        if dtype is not DType.I64:
            raise Unplannable(f"a size as a {dtype.value}")
        return self._of(Affine.of(name)).value

    def _room(self, plan: ResultPlan, extents: list[WholeNumber], count: WholeNumber) -> Room:
        code, width = self.code, constant(I64, numpy_dtype(plan.dtype.value).itemsize)
        if plan.input is not None:
            array = self.arrays[plan.input]
            return Room(array.data, array.object)
        room = results.new_number(code) if plan.scalar else results.new_array(code, plan, extents, count, self.held, "failed")
        if plan.copy_of is not None:
            results.copy(code, room, self._array_for(plan.copy_of, packed=True).data, self.w.mul(count.value, width))
        elif plan.zeroed:
            results.clear(code, room, self.w.mul(count.value, width), [self._of(form) for form in plan.unless])
        return room

    def _run(self, slots: Value, work: Value) -> Value:
        """The kernel's status; other threads of Python's run meanwhile where it takes long."""
        w, code = self.w, self.code

        def run() -> Value:
            return code.call(KERNEL, I64, slots)

        def run_beside() -> Value:
            thread = code.call("PyEval_SaveThread", PTR)
            status = run()
            code.do("PyEval_RestoreThread", thread)
            return status

        if any(isinstance(op, While) for top in self.plan.kernel.nest.body.body for op in top.walk()):
            return run_beside()  # the data decide how long it takes
        return code.either(w.compare("oge", work, constant(work.type, float(WORTH_RELEASING))), run_beside, run)

    # ---- the value ----

    def _value(self, rooms: list[Room]) -> Value:
        plans = self.launch.results
        if self.plan.gives_nothing:
            self.held.give_back(only="Py_DecRef")
            none = self.code.object(None)
            self.code.do("Py_IncRef", none)
            return none
        return self._grouped(grouped(plans, [self._result(plan, room) for plan, room in zip(plans, rooms, strict=True)]))

    def _result(self, plan: ResultPlan, room: Room) -> Value:
        if plan.scalar:
            return results.number_of(self.code, room, plan.dtype)
        assert room.array is not None
        if plan.input is not None:
            self.code.do("Py_IncRef", room.array)
        return room.array

    def _grouped(self, value: "Value | tuple[Any, ...]") -> Value:
        return value if isinstance(value, Value) else results.tuple_of(self.code, [self._grouped(part) for part in value])
