"""What is shown of a program's functions: parameters and result as they are written, the comment above, sizes, and devices that its blocks
name. Plain data, which the cache keeps beside a program: imports no stage of the compiler."""


from compiler.source import Span
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class ParameterHead:
    """A parameter as it is written; `default` None: it must be given. `mutable`: the function may update the argument."""

    name: str
    type: str = ""
    default: str | None = None
    mutable: bool = False

    def __str__(self) -> str:
        type = f": {self.type}" if self.type else ""
        return f"{'mut ' if self.mutable else ''}{self.name}{type}" + (f" = {self.default}" if self.default is not None else "")


@frozen
class FunctionHead:
    """A function without its body."""

    parameters: tuple[ParameterHead, ...] = field(default=(), converter=as_tuple)
    result: str = ""
    comment: str = ""
    sizes: tuple[str, ...] = field(default=(), converter=as_tuple)
    devices: tuple[str, ...] = field(default=(), converter=as_tuple)
    span: Span | None = field(default=None, eq=False)
    """Where its name stands; None of a function from the cache."""

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))})" + (f": {self.result}" if self.result else "")
