"""Calls kept in the user's cache. A function that is one compute block, and was called in another process with arrays that were laid out
the same, launches what that call came to: nothing is parsed, checked, scheduled or compiled. An entry is named by the program's text,
its options, the compiler, the device, and all that calls are known by; it holds the machine code and the numbers of the launches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import asdict

from compiler.launch.cache import GPU_CALLS
from compiler.launch.cuda.direct import CallStep, DirectCall
from compiler.launch.cuda.maps import LaunchMap, LaunchMaps
from compiler.launch.cuda.memory import CallMemory, LastingZeros
from compiler.launch.cuda.repeat import RepeatedCall
from compiler.launch.slots import BoundArguments, Slots
from compiler.lowering.result_plan import ResultPlan
from compiler.machines.access import ALIGNMENT
from compiler.typed_ast.types import DType
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.cuda.tensor_map import TensorBoxes
from runtime.records import frozen
from runtime.tensor import Tensor

FLOATS: dict[str, type] = {kind.__name__: kind for kind in (float, np.float32, np.float64)}


@frozen
class KeptCalls:
    """The calls of one function. `origin`: the program's text and options, and the function's name."""

    origin: tuple[str, ...]

    def find(self, given: Sequence[Any], gpu: Gpu, stream: Stream) -> RepeatedCall | None:
        """The call for these values, loaded; None where no process made it."""
        return GPU_CALLS.find(lambda: self._name(given, gpu), lambda head, image: _revived(head, image, gpu, stream))

    def keep(self, repeat: RepeatedCall, given: Sequence[Any]) -> None:
        """Put a call there. One without launches needs nothing."""
        steps = repeat.call.steps
        if not steps:
            return
        image = steps[0].plan.kernel.module.image
        if any(step.plan.kernel.module.image is not image for step in steps):
            return
        code = image.encode() if isinstance(image, str) else image
        GPU_CALLS.keep(lambda: self._name(given, repeat.call.gpu), _as_json(repeat, isinstance(image, str)), code)

    def _name(self, given: Sequence[Any], gpu: Gpu) -> str:
        device = gpu.device
        return GPU_CALLS.name(*self.origin, f"{device.properties} {device.driver.version}", *map(_layout, given))


def _layout(value: Any) -> str:
    """What of a value a call is known by, in any process."""
    if isinstance(value, Tensor):
        assert isinstance(value.remote, OnGpu)
        elements = value.remote.elements
        return f"{elements.dtype} {elements.shape} {elements.strides} {elements.pointer % ALIGNMENT} {elements.read_only}"
    return type(value).__name__ if isinstance(value, float | np.floating) else f"{type(value).__name__} {value}"


def _as_json(repeat: RepeatedCall, is_text: bool) -> dict[str, Any]:
    call = repeat.call
    plans = list({id(step.plan): step.plan for step in call.steps}.values())
    numbers = {id(plan): number for number, plan in enumerate(plans)}
    return {
        "ptx": is_text,
        "plans": [
            {
                "kernel": call_plan.kernel.name,
                "signature": [each.name for each in call_plan.arguments.parameters],
                **{name: getattr(call_plan, name) for name in ("grid", "block", "shared", "cooperative", "early", "where")},
            }
            for call_plan in plans
        ],
        "steps": [
            [numbers[id(step.plan)], step.number, step.after, [[map.place, asdict(map.boxes)] for map in step.maps.maps]]
            for step in call.steps
        ],
        "launches": call.launches,
        "results": [[memory.shape, memory.dtype] for memory in call.results if memory is not None],
        "workspaces": [[memory.shape, memory.dtype, isinstance(memory, LastingZeros)] for memory in call.workspaces],
        "values": [[plan.name, plan.dtype.value, plan.group] for plan in call.plans],
        "slots": asdict(call.bound.slots),
        "arguments": [value.item() if isinstance(value, np.generic) else value for value in repeat.arguments],
        "arrays": repeat.arrays,
        "floats": [[position, number, kind.__name__] for position, number, kind in repeat.floats],
    }


def _revived(head: dict[str, Any], image: bytes, gpu: Gpu, stream: Stream) -> RepeatedCall:
    module = gpu.modules.load(image.decode() if head["ptx"] else image, head["plans"][0]["kernel"])
    plans = [CheckedLaunch(**{**fields, "kernel": module.kernel(fields["kernel"])}) for fields in head["plans"]]
    slots = Slots(**{name: tuple((position, source) for position, source in places) for name, places in head["slots"].items()})
    steps = tuple(
        CallStep(plans[plan], number, tuple(after), LaunchMaps(tuple(LaunchMap(position, _boxes(boxes)) for position, boxes in maps)))
        for plan, number, after, maps in head["steps"]
    )
    call = DirectCall(
        gpu,
        tuple(CallMemory.of(shape, dtype) for shape, dtype in head["results"]),
        tuple((LastingZeros if zeros else CallMemory).of(shape, dtype) for shape, dtype, zeros in head["workspaces"]),
        BoundArguments(tuple(head["arguments"]), slots, ()),
        steps,
        tuple(ResultPlan(name, DType(dtype), (), group=group) for name, dtype, group in head["values"]),
        head["launches"],
    )
    arrays = tuple((position, number) for position, number in head["arrays"])
    floats = tuple((position, number, FLOATS[kind]) for position, number, kind in head["floats"])
    return RepeatedCall(call, stream, head["arguments"], arrays, floats)


def _boxes(fields: dict[str, Any]) -> TensorBoxes:
    window = fields["window"]
    corners = None if window is None else (tuple(window[0]), tuple(window[1]))
    shape, strides, box, step = (tuple(fields[name]) for name in ("shape", "strides", "box", "step"))
    return TensorBoxes(fields["dtype"], shape, strides, box, fields["swizzle"], corners, step, fields["rounded"])
