"""Host code as other processes load it, out of the user's cache: Python's code object, and in words what its names stand for. A program
that has values which only its own process has is without such a form."""

import builtins
import marshal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from compiler.backends.host.layouts import NO_LAYOUTS, CaseLayout, NoLayouts, RecordLayouts
from compiler.backends.host.loaded import HostCode, HostProgram, MainFunction
from compiler.backends.host.loop_heat import LoopHeat
from compiler.backends.host.namespace import namespace_of
from compiler.backends.host.naming import MARK
from compiler.backends.host.positions import Positions
from compiler.backends.host.runtime import HostRuntime
from compiler.backends.host.straight_functions import let_come_back
from compiler.source import Span
from compiler.typed_ast import types
from compiler.typed_ast.library import Library
from runtime.lazy_numpy import np
from runtime.records import fields_of
from runtime.values import NONE, RecordValue, case_classes, struct_class

if TYPE_CHECKING:
    from compiler.backends.host.generate import Generator

PYTHON = f"{sys.implementation.cache_tag} {sys.hexversion:x}"
"""Of which Python code objects are."""


class NotPortable(Exception):
    """A value that only this process has."""


# ---- to words --------------------------------------------------------------------------------------------------------


def portable(host: HostProgram, generator: "Generator") -> HostCode | None:
    """The code of a program that was generated just now, and has not run; None where it has no such form."""
    if host.main is not None and host.main.refused is not None:
        return None
    from compiler.backends.host.overloaded_values import overloads_of

    heats = {heat: python for python, heat in generator.heats.items()}
    try:
        constants = {name: _written(name, value, generator.library, heats) for name, value in generator.constants.items()}
        overloads = {
            name: [[[*map(_constant, types)], python] for types, python in found]
            for name, found in overloads_of(generator.methods, generator.resolve).items()
        }
    except NotPortable:
        return None
    main = None if host.main is None else [host.main.python, host.main.is_async]
    native = dict(host.native.python) if host.native is not None else {}
    loops = {python: name for name, python in generator.native_names().items() if python in generator.heats}
    beside = generator.runs_beside
    head = {
        "constants": constants, "overloads": overloads, "main": main, "native": native, "loops": loops, "beside": beside,
        "straight": host.straight,
    }  # fmt: skip
    return HostCode(head, marshal.dumps(host.code))


def layouts_in_words(layouts: RecordLayouts) -> list[Any]:
    """The layouts that a program has asked for until now, without those that only this process has."""
    written: list[Any] = []
    for of, cases in layouts.known.items():
        if isinstance(of, types.DeclaredType):
            with suppress(NotPortable):
                written.append([_constant(of), None if cases is None else [*map(_case, cases.items())]])
    return written


def _case(named: tuple[str, CaseLayout]) -> Any:
    """Raises NotPortable."""
    name, case = named
    return [name, _constant(case.values), [[part, _constant(of)] for part, of in case.parts]]


def _written(name: str, value: Any, library: Library, heats: Mapping[Any, str]) -> Any:
    """Raises NotPortable."""
    if name.startswith(f"{MARK}library{MARK}"):
        return ["library", *_key_of(name.split(MARK)[2], value, library)]
    kind, _, dotted = name.removeprefix(MARK).partition("·")
    if kind in ("module", "start") and dotted:
        return [kind, dotted]
    if isinstance(value, LoopHeat) and value in heats:
        return ["heat", heats[value], value.eager]
    return _constant(value)


def _key_of(name: str, implementation: Any, library: Library) -> list[str]:
    """By what the library finds a function."""
    function = library.functions.get(name)
    if function is not None and function.implementation is implementation:
        return [name]
    for key in library.methods:
        if key[1] == name and library.methods[key].implementation is implementation:
            return [*key]
    raise NotPortable


def _constant(value: Any) -> Any:
    """Raises NotPortable."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and value == value and abs(value) != float("inf")):
        return value
    if kind is type and value.__module__ in ("builtins", "numpy"):
        return ["class", value.__module__, value.__name__]
    if value is perf_counter:
        return ["clock"]
    if value is NONE:
        return ["none"]
    if kind is float:
        return ["float", value.hex()]
    if kind is tuple:
        return ["tuple", *map(_constant, value)]
    if kind is dict and not value:
        return ["dict"]  # what a function remembers
    if kind is Span:
        return ["span", value.path, value.start, value.end]
    if isinstance(value, Enum) and getattr(types, kind.__name__, None) is kind:
        return ["member", kind.__name__, value.value]
    if isinstance(value, type) and issubclass(value, RecordValue) and "__record__" in vars(value):
        shape = value.__record__
        if shape.enum:
            names = [name for name, _ in shape.cases]
            return ["case", shape.enum, [[name, [*parts]] for name, parts in shape.cases], names.index(shape.name)]
        return ["struct", shape.name, [*shape.parts], shape.suffix]
    if isinstance(value, RecordValue):
        return ["record", _constant(kind), *map(_constant, value)]
    if getattr(types, kind.__name__, None) is kind and hasattr(kind, "__declared__"):
        return ["type", kind.__name__, *[_constant(getattr(value, each.name)) for each in fields_of(kind)]]
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and value.shape == () and value.dtype.kind in "iufb":
        return ["number", value.dtype.name, value.tobytes().hex()]
    raise NotPortable


# ---- from words ------------------------------------------------------------------------------------------------------


def loaded(
    kept: HostCode,
    layouts_of_run: Sequence[Any],
    library: Library,
    runtime: HostRuntime,
    positions: Positions,
    compiled: Callable[[], HostProgram],
    module: Callable[[str], HostProgram],
) -> HostProgram:
    """The program, which has not run. `layouts_of_run`: see `layouts_in_words`; `module`: one that it takes in. `compiled` gives it as
    this process compiles it, where some of it is wanted. Raises ValueError, KeyError, TypeError or AttributeError for words without a
    meaning."""
    head = kept.head
    code = marshal.loads(kept.code)
    layouts = _KeptLayouts(compiled)
    namespace = namespace_of(positions, library, layouts, runtime, head["beside"])

    def read(words: Any) -> Any:
        return _read(words, library, partial(_loop, namespace, head["loops"], compiled))

    for name, words in head["constants"].items():
        match words:
            case ["module", dotted]:
                namespace[name] = module(dotted).namespace
            case ["start", dotted]:
                namespace[name] = module(dotted).start
            case _:
                namespace[name] = read(words)
    for of, cases in layouts_of_run:
        layouts.known[read(of)] = None if cases is None else {name: _read_case(read, *words) for name, *words in cases}
    overloads = {name: [(tuple(map(read, types)), python) for types, python in found] for name, found in head["overloads"].items()}
    if overloads:
        from compiler.backends.host.overloaded_values import with_overloads

        with_overloads(namespace, overloads, layouts)
    main = None if head["main"] is None else MainFunction(*head["main"])
    exec(code, namespace)
    lock = threading.RLock()
    for python in head["native"].values():
        namespace[python] = _FromNative(python, namespace, namespace[python], head["native"], compiled, lock)
    let_come_back(head["straight"], namespace, runtime)
    return HostProgram(positions.path, [], {}, namespace, positions, NO_LAYOUTS, main=main, code=code, settle=runtime.settle)


def _read_case(read: Callable[[Any], Any], values: Any, parts: Any) -> CaseLayout:
    return CaseLayout(read(values), tuple([(name, read(of)) for name, of in parts]))


def _read(words: Any, library: Library, loop: Callable[[str], bool]) -> Any:
    if not isinstance(words, list):
        return words
    match words:
        case ["library", name]:
            return library.functions[name].implementation
        case ["library", receiver, name]:
            return library.methods[receiver, name].implementation
        case ["heat", python, eager]:
            return LoopHeat(partial(loop, python), eager)
        case ["class", module, name]:
            return getattr(builtins if module == "builtins" else np, name)
        case ["clock"]:
            return perf_counter
        case ["none"]:
            return NONE
        case ["float", text]:
            return float.fromhex(text)
        case ["tuple", *parts]:
            return tuple([_read(part, library, loop) for part in parts])
        case ["dict"]:
            return {}
        case ["span", path, start, end]:
            return Span(path, start, end)
        case ["member", kind, value]:
            return getattr(types, kind)(value)
        case ["case", enum, cases, tag]:
            return case_classes(enum, cases)[tag]
        case ["struct", name, fields, suffix]:
            return struct_class(name, fields, suffix)
        case ["record", values, *parts]:
            return _read(values, library, loop)([_read(part, library, loop) for part in parts])
        case ["type", name, *parts]:
            return getattr(types, name)(*[_read(part, library, loop) for part in parts])
        case ["number", dtype, held]:
            return np.frombuffer(bytes.fromhex(held), np.dtype(dtype))[0]
    raise ValueError(words)


class _KeptLayouts(NoLayouts):
    """The layouts that the run before asked for; of others, the program knows once it is compiled."""

    def __init__(self, compiled: Callable[[], HostProgram]) -> None:
        super().__init__()
        self.compiled = compiled

    def cases(self, of: types.Type) -> Mapping[str, CaseLayout] | None:
        if of in self.known:
            return self.known[of]
        return self.compiled().layouts.cases(of) if isinstance(of, types.DeclaredType) else super().cases(of)


# ---- native functions ------------------------------------------------------------------------------------------------


class _FromNative:
    """Stands for a native function until one of the program's is called, by whatever thread: then the program is compiled, as if there were
    no cache."""

    def __init__(
        self,
        python: str,
        namespace: dict[str, Any],
        original: Any,
        names: Mapping[str, str],
        compiled: Callable[[], HostProgram],
        lock: Any,
    ) -> None:
        self.python, self.namespace, self.original, self.names, self.compiled = python, namespace, original, names, compiled
        self.lock = lock

    def __call__(self, *values: Any, **named: Any) -> Any:
        with self.lock:
            if self.namespace[self.python] is self:
                self._bring()
        return self.namespace[self.python](*values, **named)

    def _bring(self) -> None:
        from compiler.backends.host.native_functions import NativeFunctions

        for python in self.names.values():
            if isinstance(waiting := self.namespace[python], _FromNative):
                self.namespace[python] = waiting.original
        known = self.compiled().native
        assert known is not None
        functions = NativeFunctions(known.checker, known.found, known.source, self.namespace, known.python)
        functions.install()
        functions.ready()


def _loop(namespace: dict[str, Any], names: Mapping[str, str], compiled: Callable[[], HostProgram], python: str) -> bool:
    """Whether the function that goes on with a loop is native, and ready."""
    from compiler.backends.host.hot_loops import LoopFunctions

    known = compiled().loops
    assert known is not None
    return LoopFunctions(known.checker, known.program, known.source, namespace).prepare(names[python], python)
