"""Optional variables that were just assigned a value that isn't none: until something may change them, they stand where such a value is
wanted.

    state v: f64? = none
    v = if let p = v { p + x } else { x }
    emit v

Only what follows in the same block knows of it."""

from collections.abc import Iterator

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.scope import Variable, VariableKind
from compiler.typed_ast.types import ERROR, NEVER, UNIT, NoneType, OptionType, Type
from compiler.typed_ast.walk import walk


def seen(variable: Variable, expected: Type | None) -> Type:
    """The type of a variable where a value of type `expected` is wanted."""
    wanted = expected is not None and expected not in (ERROR, UNIT) and not isinstance(expected, OptionType)
    if variable.present and wanted and isinstance(variable.type, OptionType):
        return variable.type.value
    return variable.type


def assigned(checker: Checker, variable: Variable, value: nodes.Expression) -> None:
    """A value, whose types are known, was assigned to a whole variable."""
    forget(checker, variable)
    if isinstance(variable.type, OptionType) and _is_there(checker, value):
        variable.present = True
        checker.present.append(variable)


def _is_there(checker: Checker, value: nodes.Node | None) -> bool:
    """Whether an expression gives a value whatever happens; in the branches of one that may give none each is looked at."""
    found = checker.findings.types.get(id(value))
    if found == NEVER:
        return True
    match value:
        case nodes.If(then=then, otherwise=otherwise) | nodes.Conditional(then=then, otherwise=otherwise):
            return _is_there(checker, then) and _is_there(checker, otherwise)
        case nodes.Match(arms=arms):
            return all(_is_there(checker, arm.body) for arm in arms)
        case nodes.Block(statements=(*_, nodes.ExpressionStatement(value=last))):
            return _is_there(checker, last)
        case nodes.Call(function=nodes.Name(name=name)) if name == checker.meaning.some and name not in checker.declarations.functions:
            return True
    return found is not None and found != ERROR and not isinstance(found, OptionType | NoneType)


def forget(checker: Checker, variable: Variable) -> None:
    if variable.present:
        variable.present = False
        checker.present.remove(variable)


def before(checker: Checker, statement: nodes.Statement) -> None:
    """A loop sees what its later rounds assign; a call may change states at any moment of a statement."""
    if not checker.present:
        return
    loops = [found for found in walk(statement) if isinstance(found, nodes.While | nodes.For)]
    changed = {name for loop in loops for name in _assigned_in(checker, loop)}
    changes_states = checker.meaning.rules.changes_states
    calls = any(isinstance(found, nodes.Call) and changes_states(checker, found) for found in walk(statement))
    for variable in tuple(checker.present):
        if variable.name in changed or (calls and variable.kind is VariableKind.STATE):
            forget(checker, variable)


def behind(checker: Checker, statement: nodes.Statement) -> None:
    """What a branch of a statement assigned isn't known behind it."""
    if checker.present:
        inside = statement.value if isinstance(statement, nodes.Assign) else statement
        changed = set(_assigned_in(checker, inside))
        for variable in tuple(checker.present):
            if variable.name in changed:
                forget(checker, variable)


def leave(checker: Checker, known: tuple[Variable, ...]) -> None:
    """The end of a block, at whose begin these were known."""
    for variable in tuple(checker.present):
        if variable not in known:
            forget(checker, variable)


def _assigned_in(checker: Checker, node: nodes.Node) -> Iterator[str]:
    for found in walk(node):
        match found:
            case nodes.Assign(target=nodes.TupleLiteral(elements=targets)):
                pass
            case nodes.Assign(target=target):
                targets = (target,)
            case nodes.Call(function=nodes.Field(value=target, name=name)) if checker.declarations.may_change(name):
                targets = (target,)
            case _:
                targets = ()
        for target in targets:
            while isinstance(target, nodes.Field | nodes.Index):
                target = target.value
            if isinstance(target, nodes.Name):
                yield target.name
