"""The hot path of a launch, written out for a kernel's parameters: no loop over them, nothing allocated, one driver call. What is out
of the ordinary (another context, an empty grid, a cooperative launch, a failure) goes the plan's long way."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import Any, Protocol

from runtime.cuda.arguments import Arguments, LaunchParameter, bfloat16_bits
from runtime.cuda.array import DeviceArray
from runtime.cuda.device import CURRENT, CudaDevice
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.module import CudaKernel
from runtime.cuda.stream import Stream

MOST_WRITTEN_OUT = 64
"""Parameters beyond which a launch goes the long way; Python calls with more become slow themselves."""

_TEMPLATE = """
def launch(stream, {names}):
{pointers}
    try:
        packed = free.pop()
    except IndexError:
        packed = fresh()
    memory, base, address, _ = packed
    try:
        pack(memory, base, {packed})
    except FAULTS:
        raise complaint(({names})) from None
    shape = plan.ordinary
    if shape is None or stream.device is not device or CURRENT.context != device.only or device.lost is not None:
        return submit(stream, address, ({names}))
{call}
    if code:
        return submit(stream, address, ({names}), code)
    free.append(packed)
    stream.launched.append(site)
    if stream.recording is not None:
        stream.recording.launched(plan, ({names}))
"""
"""A launch has memory for its arguments to itself until the driver has read them, as other threads may launch the same plan: taking it
from a list and giving it back costs less than a lock."""

_PLAIN = """\
    gx, gy, gz, bx, by, bz, shared = shape
    code = driver(handle, gx, gy, gz, bx, by, bz, shared, stream.handle, address, 0)[0]"""

_EARLY = """\
    code = driver(plan.configurations.get(stream.number) or plan.configuration(stream), handle, address, 0)[0]"""

_POINTER = """\
    kind = {0}.__class__
    if kind is DeviceArray or kind is DeviceBuffer:
        if {0}.stream is not stream:
            {0}.used_on(stream)
        p{0} = {0}.pointer
    else:
        p{0} = {0}"""

_PACKED = {"pointer": "p{}", "bf16": "bfloat16_bits({})"}
"""How an argument is packed that isn't packed as it is."""


@lru_cache(256)
def _written(parameters: tuple[LaunchParameter, ...], early: bool) -> CodeType:
    names = [f"a{number}" for number in range(len(parameters))]
    packed = [_PACKED.get(each.name, "{}").format(name) for name, each in zip(names, parameters, strict=True)]
    pointers = [_POINTER.format(name) for name, each in zip(names, parameters, strict=True) if each.name == "pointer"]
    text = _TEMPLATE.format(
        names="".join(f"{name}, " for name in names),
        packed=", ".join(packed),
        pointers="\n".join(pointers),
        call=_EARLY if early else _PLAIN,
    )
    return compile(text, "<launch>", "exec")


def _fresh(signature: tuple[str, ...]) -> tuple[Any, int, int, Arguments]:
    arguments = Arguments(signature)
    return arguments.memory, arguments.base, arguments.address, arguments


class Launchable(Protocol):
    """A plan of launches. `call` names the driver's call; `launch_any` and `submit` are its long way."""

    arguments: Arguments
    device: CudaDevice
    early: bool
    kernel: CudaKernel
    site: str

    @property
    def call(self) -> str: ...

    def launch_any(self, stream: Stream, *values: Any) -> None: ...

    def submit(self, stream: Stream, address: int, values: tuple[Any, ...], code: Any = ...) -> None: ...


def launcher(plan: Launchable) -> Callable[..., None]:
    """`launch(stream, *values)` of a plan."""
    parameters: Sequence[LaunchParameter] = plan.arguments.parameters
    if len(parameters) > MOST_WRITTEN_OUT:
        return plan.launch_any
    arguments, device = plan.arguments, plan.device
    namespace: dict[str, Any] = {
        "plan": plan,
        "device": device,
        "pack": arguments.pack_into,
        "free": [],
        "fresh": partial(_fresh, tuple(each.name for each in parameters)),
        "complaint": arguments.complaint,
        "FAULTS": arguments.FAULTS,
        "driver": getattr(device.api, plan.call),
        "handle": plan.kernel.handle,
        "site": plan.site,
        "submit": plan.submit,
        "CURRENT": CURRENT,
        "DeviceArray": DeviceArray,
        "DeviceBuffer": DeviceBuffer,
        "bfloat16_bits": bfloat16_bits,
    }
    exec(_written(tuple(parameters), plan.early), namespace)
    written: Callable[..., None] = namespace["launch"]
    return written
