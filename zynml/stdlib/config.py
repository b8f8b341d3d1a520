"""The program's `config { ... }`: which keys there are and what they do to a run."""

from typing import Any

from compiler.machines.emulated import require_present
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.suggest import did_you_mean
from runtime.device import NoDevice
from zynml.stdlib.settings import StdlibSettings

KEYS = ("device", "compute_device", "floats", "precision", "products", "seed")


def configure(settings: StdlibSettings, entries: dict[str, Any]) -> None:
    """Applies the entries. Raises LibraryFault for unknown keys and values that don't fit."""
    for key, value in entries.items():
        match key:
            case "seed":
                if not isinstance(value, int) or isinstance(value, bool):
                    raise LibraryFault("0203", f"`seed` is an int, not {value!r}")
                settings.set_seed(value)
            case "device" | "compute_device":
                if not isinstance(value, str):
                    raise LibraryFault("0203", f"`{key}` is the name of a device, not {value!r}")
                settings.device = _device(value)
            case "precision":
                if value != "f32":
                    raise LibraryFault("0109", f"precision `{value}` is valid, but not supported yet", 'precision: "f32" works')
            case "floats" | "products":
                pass  # read when the program is compiled
            case _:
                raise LibraryFault("0201", f"`config` has no `{key}`", did_you_mean(key, KEYS) or f"it knows {', '.join(KEYS)}")


def _device(name: str) -> str:
    """The device, if programs can use it here."""
    if name == "auto":
        return name
    try:
        return require_present(name)
    except NoDevice as fault:
        raise LibraryFault("0501", fault.message, fault.hint) from None
