"""The native functions of a program: compiled together when the first of them is called, and called by Python from then on.

Until then a name of the program stands for what compiles them; a program that calls none never waits for it."""

import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from compiler.backends.host.naming import MARK
from compiler.backends.host.stopped_natively import StoppedInLoop, StoppedNatively
from compiler.backends.host.support import MISSING
from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_annotations import CRITICAL
from compiler.typed_ast.function_effects import FunctionEffects, ProgramEffects
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.rules.parts import cases_of, parts_of
from compiler.typed_ast.types import ArrayType, Scalar, Type
from runtime.records import Factory, define

if TYPE_CHECKING:
    from compiler.backends.host.boundary import NativeRoom
    from compiler.backends.native.link import Linked

DEEPEST = 1 << 22
"""Bytes of the stack that native functions which call themselves may take, where threads have twice as many."""


@define(eq=False)
class NativeFunctions:
    """`found`: what is known of the program's functions; `wanted`: those that Python calls natively, by the names in `python`."""

    checker: Checker
    found: ProgramEffects
    source: Source | None
    namespace: dict[str, Any]
    python: Mapping[str, str]
    of_loop: bool = False
    """It goes on with a loop, and Python's function knows nothing of it."""
    originals: dict[str, Callable[..., Any]] = Factory(dict)
    linked: "Linked | None" = None
    _lock: Any = Factory(threading.RLock)

    def install(self) -> None:
        """The names of the program's native functions stand for what makes them ready."""
        for name, python in self.python.items():
            self.originals[name] = self.namespace[python]
            self.namespace[python] = partial(self._first, python)

    def _first(self, python: str, *values: Any, **named: Any) -> Any:
        """The call of a function that may not be compiled yet."""
        self.ready()
        return self.namespace[python](*values, **named)

    def ready(self) -> None:
        """Compiles the functions, unless they are."""
        with self._lock:
            if self.linked is not None:
                return
            from compiler.backends.host.native_code import compiled
            from compiler.backends.native.stopping import listen

            listen()
            linked, symbols = compiled(self.checker, self.found, tuple(self.python), self.source, stack_bytes())
            for name, python in self.python.items():
                symbol = symbols.get(name)
                function = self.originals[name] if symbol is None else self._function(name, linked, symbol)
                self.namespace[python] = function
            self.linked = linked

    def _function(self, name: str, linked: "Linked", symbol: str) -> Callable[..., Any]:
        from compiler.backends.host.boundary import native_entry, python_function, room
        from compiler.backends.host.heap import free_blocks
        from compiler.backends.host.layouts import class_of_struct

        own, entry = self.found.functions[name], linked[symbol].entry
        free: list[NativeRoom] = []
        keeps = linked[symbol]
        call = native_entry(entry, keeps.address)
        parameters = own.function.parameters
        optional = next((len(parameters) - n for n, p in enumerate(parameters) if p.default is not None), 0)
        names = [_python_name(parameter.name) for parameter in parameters]

        def failed(used: "NativeRoom", *arguments: Any) -> Any:
            free_blocks(used[4][0])
            again = None if own.writes else lambda: made(*arguments)
            return self._failed(linked, used, again, None if own.writes else lambda: self.originals[name](*arguments))

        made = python_function(
            names,
            own.parameters,
            own.result,
            entry,
            call,
            partial(cases_of, self.checker),
            partial(class_of_struct, self.checker.declarations),
            self._otherwise(own),
            failed,
            (partial(room, entry), free),
            MISSING,
            optional,
            own.loops,
            changes_receiver(own.function),
            own.writes,
            own.makes is not None,
        )
        return made

    def _failed(self, linked: "Linked", used: "NativeRoom", again: Callable[[], Any] | None, on_python: Callable[[], Any] | None) -> Any:
        """Raises what a record tells. A run that was stopped although nobody wants any more is done `again` where it changed nothing; one
        that had too little memory, `on_python`, which knows how much there is."""
        from compiler.backends.host.native_faults import diagnostic

        record = used[2].raw
        fault = linked.fault(record)
        assert fault is not None
        if fault.code == "0809":
            if again is None:
                raise KeyboardInterrupt
            return again()
        if fault.code == "0804" and on_python is not None:
            return on_python()
        raise (StoppedInLoop if self.of_loop else StoppedNatively)(diagnostic(linked, fault, record))

    def _otherwise(self, own: FunctionEffects) -> Callable[..., Any]:
        """What a call does whose arguments aren't just what the types have on Python: they are converted, and where that fails, the
        function on Python says why."""
        name, convert = own.name, self.namespace.get(f"{MARK}convert")
        changing = changes_receiver(own.function)
        python, parameters = self.python[name], own.function.parameters

        def otherwise(*given: Any) -> Any:
            values: list[Any] = []
            plain = (given[0][0], *given[1:]) if changing else given
            if convert is None:
                return self.originals[name](*given)
            try:
                for parameter, type, value in zip(parameters, own.parameters, plain, strict=True):
                    if value is MISSING:
                        default = self.namespace.get(f"{MARK}default {python} {parameter.name}")
                        if default is None:
                            return self.originals[name](*given)
                        value = default()
                    values.append(convert(value, type))
            except LibraryFault:
                return self.originals[name](*given)
            if all(new is old for new, old in zip(values, plain, strict=True)):
                return self.originals[name](*given)
            if changing:
                given[0][0], values[0] = values[0], given[0]
            return self.namespace[python](*values)

        return otherwise


def _python_name(name: str) -> str:
    return f"{name}{MARK}" if name in ("None", "True", "False", "__debug__") else name


def stack_bytes() -> int:
    """How many bytes of its stack a thread may give to functions that call themselves."""
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    threads = 1 << 21 if soft == resource.RLIM_INFINITY else soft
    return min(DEEPEST, threads // 2)


def native_functions(
    checker: Checker, program: nodes.Program, source: Source | None, namespace: dict[str, Any], declared: Mapping[str, str], all: bool
) -> NativeFunctions | None:
    """Those of a program, in its namespace; None where it has none that Python should call. `declared`: its functions, by the names that
    they are called by those in the namespace; `all`: also those where a call costs more than it spares."""
    if not declared:
        return None
    found = effects(checker, program, has_native_code)
    python = {name: declared[name] for name in called_by_python(checker, found, list(declared), all)}
    if not python:
        return None
    made = NativeFunctions(checker, found, source, namespace, python)
    made.install()
    return made


def called_by_python(checker: Checker, found: ProgramEffects, names: Sequence[str], all: bool) -> list[str]:
    """The static functions among these that Python calls natively; `all`: also those where a call costs more than it spares."""
    own = [found.functions[name] for name in names if name in found.functions]
    return [one.name for one in own if one.is_static and (all or one.loops or _is_asked_for(one)) and _passes(checker, one)]


def _is_asked_for(own: FunctionEffects) -> bool:
    return any(annotation.name in ("jit", CRITICAL) for annotation in own.function.annotations)


def _passes(checker: Checker, own: FunctionEffects) -> bool:
    """Whether Python can call it: arguments and result go between Python and native functions, arrays of numbers by their address. What a
    method leaves of what it is called on is no array."""
    left = own.parameters[:1] if changes_receiver(own.function) else ()
    alone = () if left else (own.result,)
    together = (own.result, *left) if left else ()
    return all(_is_array_of_numbers(found) or _crosses(checker, found) for found in (*own.parameters, *alone)) and all(
        _crosses(checker, found) for found in together
    )


def _is_array_of_numbers(type_: Type) -> bool:
    return isinstance(type_, ArrayType) and isinstance(type_.element, Scalar)


def _crosses(checker: Checker, type_: Type) -> bool:
    """Whether values of a type go between Python and native functions: those that travel as numbers."""
    return not isinstance(type_, ArrayType) and all(_crosses(checker, part) for part in parts_of(checker, type_) or ())
