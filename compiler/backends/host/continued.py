"""A program that goes on where another one ended: what is typed in, input by input. Its text begins with that of the other, whose
declarations it has anew; the statements at the top of that part have run, and their variables keep their values."""

import ast
from typing import Any

from compiler.backends.host.naming import MARK
from runtime.records import Factory, define, frozen


@define(eq=False)
class Variables:
    """The variables of all inputs: `keys` of the namespace, and the namespace in which they are now."""

    keys: set[str] = Factory(set)
    latest: dict[str, Any] = Factory(dict)


class Namespace(dict[str, Any]):
    """The names of one input, as its functions see them: variables have the values that later inputs gave them."""

    def __init__(self, names: dict[str, Any], variables: Variables) -> None:
        super().__init__(names)
        self.variables = variables

    def __getitem__(self, key: str) -> Any:
        variables = self.variables
        return super().__getitem__(key) if variables.latest is self or key not in variables.keys else variables.latest[key]


@frozen(eq=False)
class Continued:
    """How many lines have run, and the variables that they made."""

    lines: int
    variables: Variables

    def namespace(self, names: dict[str, Any]) -> Namespace:
        """The names of the program that goes on, with the variables so far."""
        variables = self.variables
        made = Namespace(names, variables)
        made |= {key: variables.latest[key] for key in variables.keys if key in variables.latest}
        return made


def leave_out(module: ast.Module, lines: int) -> None:
    """Takes the statements of the first lines out of what runs when the program starts."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == f"{MARK}top":
            kept: list[ast.stmt] = [each for each in node.body if isinstance(each, ast.Global) or each.lineno > lines]
            node.body = kept or [ast.copy_location(ast.Pass(), node)]
