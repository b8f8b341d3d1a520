"""Where each compute block of a program runs. The user's `--device` comes before the block's `@device`, that before the program's
`config`, that before the device on which the program itself put an input. Where nobody says anything, costs decide."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from compiler.devices.explain import Decision, DeviceCandidate, Explain
from compiler.devices.places import Block, DevicePlaces, bytes_of
from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.launch.block import ComputeBlock
from compiler.launch.cache import PLACED, Cache
from compiler.launch.native_calls.host_blocks import MISSED
from compiler.machines.emulated import require_present
from compiler.source import Span
from compiler.typed_ast import nodes
from runtime.device import CPU, Device, NoDevice, is_present, parse_device
from runtime.records import Factory, define, evolve, frozen
from runtime.tensor import Tensor

if TYPE_CHECKING:
    from compiler.devices.heterogeneous import HeterogeneousBlock
    from compiler.devices.split import SplitBlock


@frozen
class Wish:
    """A device by the name that somebody gave it, and who, in words. `others`: the devices that share the block with it."""

    device: Device
    by: str
    others: tuple[Device, ...] = ()


def wish_of(compute: nodes.Compute, override: str | None, default: str) -> Wish | None:
    """What is said about a block's device; None when that is left to inputs and costs. `override` is the user's, `default` the
    program's. Raises NoDevice."""
    metadata = compute.kernel
    says = metadata is not None and any(annotation.name == "device" for annotation in compute.annotations)
    if override is not None:
        return _wish(override, "named by `--device`")
    if metadata is None or not says:
        return _wish(default, "named by `config`")
    named, fallback = metadata.devices, metadata.fallback
    if fallback is not None:
        absent = next((name for name in named if name != "auto" and not is_present(parse_device(name))), None)
        if absent is not None:
            return _wish(str(fallback), f"`{absent}` is not here, and `fallback=` names it")
    first, *others = [_wish(name, "named by `@device`") for name in named]
    return first if first is None else evolve(first, others=tuple(other.device for other in others if other is not None))


def _wish(name: str, by: str) -> Wish | None:
    return None if name == "auto" else Wish(require_present(name), by)


def require_devices(computes: Iterable[nodes.Compute], override: str | None) -> None:
    """Every device that the program names must be here, unless the user overrides it or the block names a fallback. Raises
    ZyntaxError (0501) for all that aren't."""
    if override is not None:
        try:
            _wish(override, "")
        except NoDevice as fault:
            raise ZyntaxError(_absent(fault, None)) from None
        return
    missing = []
    for compute in computes:
        try:
            wish_of(compute, None, "auto")
        except NoDevice as fault:
            missing.append(_absent(fault, compute))
    if missing:
        raise ZyntaxError(*missing)


def required_devices(computes: Iterable[nodes.Compute], override: str | None) -> list[str]:
    """Those devices, by name."""
    if override is not None:
        return [] if override == "auto" else [override]
    kernels = [compute.kernel for compute in computes if compute.kernel is not None and compute.kernel.fallback is None]
    named = dict.fromkeys(name for kernel in kernels for name in kernel.devices)
    return [name for name in named if name != "auto"]


def _absent(fault: NoDevice, compute: nodes.Compute | None) -> Diagnostic:
    if compute is None:
        return Diagnostic("0501", fault.message, hint=fault.hint)
    span: Span = next((a.span for a in compute.annotations if a.name == "device"), compute.span)
    named = ", ".join(f'"{name}"' for name in compute.kernel.devices) if compute.kernel is not None else '"auto"'
    if compute.kernel is not None and compute.kernel.parallel is not None:
        hint = f'`--device cpu` runs the program on the CPU; `@device([{named}], fallback="cpu")` falls back'
    else:
        hint = f'`--device cpu` runs the program on the CPU, as does `@device("auto")` here; `@device({named}, fallback="cpu")` falls back'
    return Diagnostic("0501", fault.message, span, "this block is to run there", notes=(fault.hint,), hint=hint)


@define(eq=False)
class PlacedBlock:
    """A compute block, and where it runs."""

    block: ComputeBlock
    wish: Wish | None
    places: DevicePlaces
    explain: Explain | None = None
    answered: Callable[[Mapping[str, Any]], Any] | None = None
    """Gives the value where machine code has it at once, else MISSED; None where nothing does, or the device isn't always the same."""
    _heterogeneous: "HeterogeneousBlock | None" = None
    _split: "SplitBlock | None" = None
    _known: Cache[Device, Block] = Factory(partial(Cache, PLACED))

    @property
    def always_on_cpu(self) -> bool:
        """Whether arrays on the host never make it run elsewhere."""
        return self.wish.device == CPU and not self.wish.others if self.wish is not None else self.places.present == (CPU,)

    def for_values(self, values: Mapping[str, Any]) -> Block:
        """The block as it runs with these inputs. Raises ZyntaxError (0501) when they lie on several devices, and nothing says
        which of them is meant."""
        if self.wish is not None and self.wish.others:
            if self._split is None:
                from compiler.devices.split import SplitBlock

                devices = (self.wish.device, *self.wish.others)
                self._split = SplitBlock(self.block, devices, self.wish.by, self.places, self.explain)
            return self._split
        device, name = (self.wish.device, "") if self.wish is not None else self._of_inputs(values)
        if device is not None:
            if self.explain is not None:
                self._explain(self.wish or Wish(device, f"`{name}` was put there"), values)
            return self._known.get(device) or self._known.keep(device, self._at(device))
        if self._heterogeneous is None:
            from compiler.devices.heterogeneous import HeterogeneousBlock

            self._heterogeneous = HeterogeneousBlock(self.block, self.places, self.explain)
        return self._heterogeneous.for_values(values)

    def _at(self, device: Device) -> Block:
        block = self.places.at(device).block(self.block)
        if self.wish is not None and self.explain is None:
            self.answered = getattr(block, "answered", None)
        return block

    def value(self, values: Mapping[str, Any]) -> Any:
        """The block's value with these inputs. Raises ZyntaxError."""
        if self.answered is not None and (value := self.answered(values)) is not MISSED:
            return value
        return self.for_values(values)(values)

    def _of_inputs(self, values: Mapping[str, Any]) -> tuple[Device | None, str]:
        """Where inputs were put by name, and the first of them."""
        device, first = None, ""
        for name, value in values.items():
            if value.__class__ is Tensor and (remote := value.remote) is not None and remote.named:
                if device is None:
                    device, first = remote.device, name
                elif remote.device != device:
                    raise ZyntaxError(self._several({device: first, remote.device: name}))
        return device, first

    def _several(self, names_by_device: Mapping[Device, str]) -> Diagnostic:
        (first, x), (second, y), *_ = names_by_device.items()
        spans = {entry.name: entry.span for entry in self.block.compute.inputs}
        return Diagnostic(
            "0501",
            f"`{x}` lies on `{first}` and `{y}` on `{second}`, and nothing says where this block runs",
            self.block.compute.span,
            others=[Label(spans[name], f"on `{device}`") for device, name in names_by_device.items() if name in spans],
            hint=f'`@device("{first}")` runs it there, with a copy of `{y}`; so does `{y}.to_device("{first}")` before it',
            running=True,
        )

    def _explain(self, wish: Wish, values: Mapping[str, Any]) -> None:
        assert self.explain is not None
        device_place = self.places.at(wish.device)
        moved = sum(bytes_of(value) for value in values.values() if type(value) is Tensor and not device_place.holds(value))
        self.explain(Decision.of(self.block.compute, values, (DeviceCandidate(wish.device, moved),), wish.device, wish.by))


@define(eq=False)
class Placement:
    """The rules of one session. `default` is asked late: the program's `config` may come first."""

    override: str | None
    default: Callable[[], str]
    places: DevicePlaces
    explain: Explain | None = None

    def of(self, block: ComputeBlock) -> PlacedBlock:
        """Raises ZyntaxError (0501) for a device that isn't here."""
        try:
            wish = wish_of(block.compute, self.override, self.default())
        except NoDevice as fault:
            raise ZyntaxError(_absent(fault, block.compute)) from None
        return PlacedBlock(block, wish, self.places, self.explain)
