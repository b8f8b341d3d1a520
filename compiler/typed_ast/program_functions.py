"""The functions of a program that its kernels may call, by name, and the types whose values these take."""

from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.nodes import Function, Program


class ProgramFunctions(dict[str, Function]):
    """`declared`: structs, enums and methods."""

    def __init__(self, functions: dict[str, Function] | None = None, declared: Declarations[Function] | None = None) -> None:
        super().__init__(functions or {})
        self.declared: Declarations[Function] = declared if declared is not None else Declarations((Function,))


def functions_of(program: Program) -> ProgramFunctions:
    """Those of a program, whose tree may have its types. Kernels take generic functions themselves, which stand before their copies."""
    declared = Declarations((Function,))
    declared.declare_all(program.statements)
    return ProgramFunctions({s.name: s for s in reversed(program.statements) if isinstance(s, Function)}, declared)
