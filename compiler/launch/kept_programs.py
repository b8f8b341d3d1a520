"""Programs kept in the user's cache: what must be known of one before a function of it is called. A text that another process found to
be right, with these options and this compiler, isn't parsed and checked again until a call isn't kept itself (see `launch.cuda.kept`)."""

from collections.abc import Mapping
from typing import Any

from attrs import asdict, evolve

from compiler.launch.cuda.repeats import Returning
from compiler.options import DriverOptions, origin
from compiler.source import Source
from compiler.typed_ast.function_heads import FunctionHead, ParameterHead
from runtime.cache.identity import compiler_identity
from runtime.cache.store import key_of, store
from runtime.device import is_present, parse_device
from runtime.records import frozen

if store() is not None:
    compiler_identity()  # of the files as they are loaded, before anyone edits them


@frozen
class KeptProgram:
    """`functions` by name, with what decides how their calls on a GPU come back. `devices`: those that it names, which must be here."""

    functions: Mapping[str, Returning | None]
    devices: tuple[str, ...]
    heads: Mapping[str, FunctionHead]


def found(source: Source, options: DriverOptions) -> KeptProgram | None:
    """The program of this text; None where no process kept it, or a device that it names isn't here."""
    cache = store()
    entry = None if cache is None else cache.get(_name(origin(source, options)))
    if entry is None:
        return None
    try:
        functions = {name: _returning(fields) for name, fields in entry[0]["functions"]}
        known = KeptProgram(functions, tuple(entry[0]["devices"]), {name: _head(fields) for name, fields in entry[0]["heads"]})
    except (KeyError, TypeError, ValueError):
        return None  # of another version of this file
    return known if all(is_present(parse_device(name)) for name in known.devices) else None


def keep(made_of: tuple[str, ...], program: KeptProgram) -> None:
    """Puts a program there that is made of this (see `origin`), if there is a cache."""
    cache = store()
    if cache is None:
        return
    functions = [[name, None if one is None else {**asdict(one), "sizes": sorted(one.sizes)}] for name, one in program.functions.items()]
    heads = [[name, asdict(evolve(head, span=None))] for name, head in program.heads.items()]
    cache.put(_name(made_of), {"functions": functions, "devices": program.devices, "heads": heads}, b"")


def _name(made_of: tuple[str, ...]) -> str:
    return key_of(["program", compiler_identity(), *made_of])


def _head(fields: dict[str, Any]) -> FunctionHead:
    return FunctionHead(**{**fields, "parameters": [ParameterHead(**one) for one in fields["parameters"]]})


def _returning(fields: dict[str, Any] | None) -> Returning | None:
    return None if fields is None else Returning(**{**fields, "sizes": frozenset(fields["sizes"])})
