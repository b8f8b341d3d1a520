"""What the `yield`s of a compute block give."""

from compiler.typed_ast.types import Type
from runtime.records import frozen


@frozen
class Yielded:
    """The numbers that the `yield`s of a block give: their types, by what they are combined, once the first is checked."""

    operators: tuple[str, ...]
    types: list[Type]

    def operator(self, part: int) -> str:
        return self.operators[part] if len(self.operators) > 1 else self.operators[0]
