"""The machine code of a plan: arguments taken, the launches prepared and run, the value given.

Everything that the way through the program decides on is looked at here, in its order where it matters. Nothing of the caller's is written
before a kernel runs that updates it; where a kernel reports a fault, what was made is given back and the call goes the way through the
program, which runs it once more and tells what is wrong."""

from typing import Any

from compiler.backends.llvm.writer import LlvmValue
from compiler.launch.native_calls import results
from compiler.launch.native_calls.arguments import TakenArray, take_array, take_number, take_tensor
from compiler.launch.native_calls.code import CallCode
from compiler.launch.native_calls.launches import LaunchCode, Taken, require_plannable
from compiler.launch.native_calls.numbers import WholeNumber
from compiler.launch.native_calls.plan import ArrayArgument, CallPlan, EarlierResult
from compiler.launch.native_calls.results import HeldMemory, Part
from compiler.launch.watch import WATCHED
from compiler.lowering.result_plan import grouped
from runtime.calls.answering import NEXT, SLOWLY


def emit_call(plan: CallPlan, unawaited: object, reading: object, code: CallCode) -> CallCode:
    """The code of a plan. `unawaited` and `reading`: dictionaries with something in them while futures are under way whose faults a call
    must tell, or that read arrays. Raises Unplannable."""
    return _Call(plan, code).emit(unawaited, reading)


class _Call:
    def __init__(self, plan: CallPlan, code: CallCode) -> None:
        self.plan, self.code, self.w = plan, code, code.w
        self.held = HeldMemory(code)
        self.sizes: dict[str, WholeNumber] = {}

    def emit(self, unawaited: object, reading: object) -> CallCode:
        code, w = self.code, self.w
        taken = self._take(unawaited, reading)
        launches: list[LaunchCode] = []
        require_plannable([planned.kernel for planned in self.plan.launches])
        for number, planned in enumerate(self.plan.launches):
            launches.append(LaunchCode(code, self.held, number, planned))
            launches[-1].prepare({name: self._origin(origin, taken, launches) for name, origin in planned.inputs.items()})
        # from here on nothing goes wrong but kernels, and a lack of memory
        for launch in launches:
            launch.make_room()
        for launch in launches:
            launch.run(self.plan.threads)
        value = self._parts(launches)
        self.held.give_back(only="free")
        self.held.give_back(only="Py_DecRef", but=_arrays_of(value))
        w.ret(self._made(value))
        w.start("failed")
        code.do("PyErr_Clear")
        self.held.give_back()
        w.branch("slow")
        code.end(SLOWLY, "slow")
        code.end(NEXT, "otherwise")
        return code

    # ---- arguments ----

    def _take(self, unawaited: object, reading: object) -> list[Taken]:
        code, arguments = self.code, self.plan.arguments
        given = code.given(len(arguments))
        code.require_empty(unawaited)
        if self.plan.of_host:
            code.require_empty(WATCHED)
        if any(isinstance(argument, ArrayArgument) and argument.updated for argument in arguments):
            code.require_empty(reading)
        taken: list[Taken] = []
        for held, argument in zip(given, arguments, strict=True):
            if isinstance(argument, ArrayArgument):
                taken.append((take_tensor if self.plan.of_host else take_array)(code, held, argument))
            else:
                taken.append(take_number(code, held, argument))
        arrays = {position: array for position, array in enumerate(taken) if isinstance(array, TakenArray)}
        self.sizes = {name: arrays[position].extents[axis] for name, (position, axis) in self.plan.sizes.items()}
        for array in arrays.values():
            for form, extent in zip(array.argument.extents, array.extents, strict=True):
                if form is not None:
                    code.require_same(code.number(form.evaluate(self.sizes.__getitem__)), extent)  # type: ignore[arg-type]
        return taken

    def _origin(self, origin: int | str | EarlierResult, taken: list[Taken], launches: list[LaunchCode]) -> Taken | WholeNumber:
        match origin:
            case int():
                return taken[origin]
            case str():
                return self.sizes[origin]
            case EarlierResult(launch, result):
                return launches[launch].handed_on(result)

    # ---- the value ----

    def _parts(self, launches: list[LaunchCode]) -> Any:
        """The value as its parts in tuples: new objects, numbers not made yet; None for Python's None."""
        if self.plan.gives_nothing:
            return None
        if self.plan.value is not None:
            parts = tuple(launches[origin.launch].part(origin.result) for origin in self.plan.value)
            return parts if len(parts) > 1 else parts[0]
        last = launches[-1]
        return grouped(last.results, [last.part(number) for number in range(len(last.results))])

    def _made(self, value: Any) -> LlvmValue:
        if value is None:
            return self.code.new_reference(self.code.object(None))
        if isinstance(value, tuple):
            return results.tuple_of(self.code, [self._made(part) for part in value])
        made = results.object_of(self.code, value)
        return results.tensor_of(self.code, made) if self.plan.of_host and not value.plan.scalar and value.plan.input is None else made


def _arrays_of(value: Any) -> list[LlvmValue]:
    """The arrays among the parts of a value."""
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays_of(part)]
    return [value.room.array] if isinstance(value, Part) and value.room.array is not None else []
