"""Optional variables that were just assigned a value that isn't none: until something may change them, they stand where such a value is
wanted.

    state v: f64? = none
    v = if let p = v { p + x } else { x }
    emit v

Only what follows in the same block knows of it."""

from collections.abc import Iterator

from compiler.typed_ast import nodes
from compiler.typed_ast.types import ERROR, NEVER, UNIT, OptionType, Type
from compiler.typed_ast.walk import walk
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.scope import CheckedVariable


def seen(variable: CheckedVariable, expected: Type | None) -> Type:
    """The type of a variable where a value of type `expected` is wanted."""
    wanted = expected is not None and expected not in (ERROR, UNIT) and not isinstance(expected, OptionType)
    if variable.present and wanted and isinstance(variable.type, OptionType):
        return variable.type.value
    return variable.type


def assigned(checker: QuantChecker, variable: CheckedVariable, value: nodes.Expression) -> None:
    """A value, whose types are known, was assigned to a whole variable."""
    forget(checker, variable)
    if isinstance(variable.type, OptionType) and _is_there(checker, value):
        variable.present = True
        checker.present.append(variable)


def _is_there(checker: QuantChecker, value: nodes.Node | None) -> bool:
    """Whether an expression gives a value whatever happens; in the branches of one that may give none each is looked at."""
    found = checker.types.get(id(value))
    if found == NEVER:
        return True
    match value:
        case nodes.If(then=then, otherwise=otherwise) | nodes.Conditional(then=then, otherwise=otherwise):
            return _is_there(checker, then) and _is_there(checker, otherwise)
        case nodes.Match(arms=arms):
            return all(_is_there(checker, arm.body) for arm in arms)
        case nodes.Block(statements=(*_, nodes.ExpressionStatement(value=last))):
            return _is_there(checker, last)
        case nodes.Call(function=nodes.Name(name="some")) if "some" not in checker.world.functions:
            return True
    return found is not None and found != ERROR and not isinstance(found, OptionType | qt.NoneType)


def forget(checker: QuantChecker, variable: CheckedVariable) -> None:
    if variable.present:
        variable.present = False
        checker.present.remove(variable)


def before(checker: QuantChecker, statement: nodes.Statement) -> None:
    """A loop sees what its later rounds assign; a function may change the states of its strategy at any moment of a statement."""
    if not checker.present:
        return
    loops = [found for found in walk(statement) if isinstance(found, nodes.While | nodes.For)]
    changed = {name for loop in loops for name in _assigned_in(loop)}
    calls = any(isinstance(found, nodes.Call) and _may_change_states(checker, found) for found in walk(statement))
    for variable in tuple(checker.present):
        if variable.name in changed or (calls and variable.kind == "state"):
            forget(checker, variable)


def behind(checker: QuantChecker, statement: nodes.Statement) -> None:
    """What a branch of a statement assigned isn't known behind it."""
    if checker.present:
        inside = statement.value if isinstance(statement, nodes.Assign) else statement
        changed = set(_assigned_in(inside))
        for variable in tuple(checker.present):
            if variable.name in changed:
                forget(checker, variable)


def leave(checker: QuantChecker, known: tuple[CheckedVariable, ...]) -> None:
    """The end of a block, at whose begin these were known."""
    for variable in tuple(checker.present):
        if variable not in known:
            forget(checker, variable)


def _assigned_in(node: nodes.Node) -> Iterator[str]:
    for found in walk(node):
        if isinstance(found, nodes.Assign):
            targets = found.target.elements if isinstance(found.target, nodes.TupleLiteral) else (found.target,)
            for target in targets:
                while isinstance(target, nodes.Field | nodes.Index):
                    target = target.value
                if isinstance(target, nodes.Name):
                    yield target.name


def _may_change_states(checker: QuantChecker, call: nodes.Call) -> bool:
    """Whether a call may be of a function that stands in a strategy."""
    name = call.function.name if isinstance(call.function, nodes.Name | nodes.Field) else None
    callee = checker.world.functions.get(name or "")
    return isinstance(callee, nodes.Function) and callee.body is not None and name not in checker.world.library
