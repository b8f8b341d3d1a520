"""Functions between Python and programs: those of a program as Python has them, Python's that a program calls, and a program's own that it
hands out. What Python's raise passes through the program untouched and leaves the call as it was raised."""

from collections.abc import Callable
from inspect import Signature
from types import MethodType, TracebackType
from typing import Any, NoReturn, Protocol

from runtime.calls.vectorcall import is_supported, vectorcall_type
from runtime.records import frozen


class Conversions(Protocol):
    """How the values of one call go from Python to the program and back; inside of `with` until the call ends.
    `errors`: which program's they are."""

    @property
    def errors(self) -> Any: ...

    def into(self, value: Any) -> Any:
        """The program's value for one of Python's."""

    def out(self, value: Any) -> Any:
        """Python's value for one of the program's."""

    def again(self) -> "Conversions":
        """Those of another call of the same program."""

    def __enter__(self) -> "Conversions": ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None: ...


class Raised(BaseException):
    """What a function of Python's raised, on its way through a program: nothing there takes it for a fault of its own."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def raise_again(raised: Raised) -> NoReturn:
    """Raises what Python's function raised, with its own traceback and context."""
    error = raised.error
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


@frozen(eq=False)
class PythonFunction:
    """Python's function as a program calls it: it takes and gives Python's values."""

    function: Callable[..., Any]
    crossing: Conversions

    def __call__(self, *values: Any, **named: Any) -> Any:
        into, out = self.crossing.into, self.crossing.out
        try:
            value = self.function(*[out(argument) for argument in values], **{name: out(argument) for name, argument in named.items()})
        except BaseException as error:
            raise (error if isinstance(error, Raised) else Raised(error)) from None
        return into(value)


@frozen(eq=False)
class ProgramFunction:
    """A program's function that isn't one of its names, as Python calls it."""

    function: Callable[..., Any]
    crossing: Conversions

    def __call__(self, *values: Any, **named: Any) -> Any:
        from compiler.backends.host.faults import translated_faults

        with self.crossing.again() as crossing:
            into = crossing.into
            with translated_faults():
                by_name = {name: into(argument) for name, argument in named.items()}
                value = self.function(*[into(argument) for argument in values], **by_name)
            return crossing.out(value)


class CompiledFunction:
    """A function of a program. It is called, shown, bound as a method and copied as Python's functions are; calls go to `_slow`, or to
    machine code (see `compiler.launch.native_calls`)."""

    _slow: Callable[..., Any]
    __name__: str
    __qualname__: str
    __signature__: Signature

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._slow(*values, **named)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__name__} at {id(self):#x}>"

    def __reduce__(self) -> str:
        return self.__qualname__


def _type_of_functions() -> tuple[type[CompiledFunction], dict[str, int] | None]:
    return vectorcall_type(CompiledFunction) if is_supported() else (CompiledFunction, None)


FunctionOfProgram, OFFSETS = _type_of_functions()
"""The type of a program's functions, and where its fields for machine code lie; None where no machine code is called."""
