"""The names of a compute block that mean something outside it: what the host hands over besides the declared inputs."""

from collections.abc import Iterator
from typing import Any

from compiler.typed_ast import nodes
from runtime.records import define, field, fields_of


@define(eq=False)
class _Names:
    """The names that one block of the body declares."""

    parent: "_Names | None"
    own: set[str] = field(factory=set)

    def __contains__(self, name: str) -> bool:
        names: _Names | None = self
        while names is not None:
            if name in names.own:
                return True
            names = names.parent
        return False


@define
class _Bind:
    """A step of the walk: from here on the block knows these names."""

    names: tuple[str, ...]


def free_names(compute: nodes.Compute) -> tuple[str, ...]:
    """Every name that the body, the annotations and the result types mention and that neither the block's inputs and results nor the
    body itself declare, once, in the order of their first mention. Sizes and library functions are among them: whoever asks keeps
    what is a variable outside."""
    results = {r.name for r in compute.results if r.name is not None} or {"out"}
    top = _Names(None, {i.name for i in compute.inputs} | results)
    waiting: list[tuple[Any, _Names]] = [(compute.body, top)]
    waiting += [(r.type_syntax, top) for r in reversed(compute.results)]
    waiting += [(part, top) for a in reversed(compute.annotations) for part in reversed(_arguments(a))]
    return _found(waiting)


def names_from_outside(node: nodes.Node) -> tuple[str, ...]:
    """Every name that a function, or other code with variables of its own, mentions and doesn't declare before that."""
    return _found([(node, _Names(None))])


def _found(waiting: list[tuple[Any, _Names]]) -> tuple[str, ...]:
    """The names in the order of their first mention; what is `waiting` comes last first."""
    found: dict[str, None] = {}
    while waiting:
        step, names = waiting.pop()
        match step:
            case tuple():
                waiting += [(part, names) for part in reversed(step)]
            case _Bind():
                names.own.update(step.names)
            case nodes.Name(name=name):
                if name not in names:
                    found.setdefault(name)
            case nodes.Annotation():
                waiting += [(part, names) for part in reversed(_arguments(step))]
            case nodes.Node():
                waiting += reversed(list(_parts(step, names)))
    return tuple(found)


def captured_names(compute: nodes.Compute) -> tuple[str, ...]:
    """Those that mean something where the block stands: none in a copy, which takes all that it needs as inputs."""
    return () if compute.inlined_at is not None else free_names(compute)


def _arguments(annotation: nodes.Annotation) -> list[nodes.Expression]:
    """Of `@kernel(reduce, mean, axis=a)` only what follows a name, and a function, can mention a variable: the rest are words."""
    if annotation.name != "kernel":
        return [a.value for a in annotation.arguments]
    given: list[nodes.Expression] = []
    for argument in annotation.arguments:
        if argument.name is not None or isinstance(argument.value, nodes.Lambda):
            given.append(argument.value)
        elif isinstance(argument.value, nodes.Call):
            given += [a.value for a in argument.value.arguments if a.name is not None or isinstance(a.value, nodes.Lambda)]
    return given


def _parts(node: nodes.Node, names: _Names) -> Iterator[tuple[Any, _Names]]:
    """What lies below a node, in the order in which names become known."""
    match node:
        case nodes.Block(statements=statements):
            yield statements, _Names(names)
        case nodes.Compute(inputs=inputs, annotations=annotations, results=results, body=body):
            yield inputs, names
            inner = _Names(names, {i.name for i in inputs} | ({r.name for r in results if r.name is not None} or {"out"}))
            yield (annotations, results, body), inner
        case nodes.Let(pattern=pattern, annotation=annotation, value=value):
            yield (value, annotation), names
            yield _Bind(tuple(_pattern_names(pattern))), names
        case nodes.SharedVariable(name=name, dims=dims):
            yield dims, names
            yield _Bind((name,)), names
        case nodes.For(clauses=clauses, body=body, annotations=annotations):
            inner = _Names(names)
            yield annotations, names
            for clause in clauses:
                yield clause.source, inner
                yield _Bind(clause.names), inner
            yield body, inner
        case nodes.Comprehension(names=own, source=source, condition=condition, element=element, key=key):
            inner = _Names(names, set(own))
            yield source, names
            yield (condition, key, element), inner
        case nodes.Lambda(parameters=parameters, body=body):
            yield parameters, names
            yield body, _Names(names, {p.name for p in parameters})
        case nodes.Function(name=name, parameters=parameters, body=body):
            names.own.add(name)
            yield parameters, names
            yield body, _Names(names, {p.name for p in parameters})
        case nodes.Arm(pattern=pattern, guard=guard, body=body):
            yield (guard, body), _Names(names, set(_pattern_names(pattern)))
        case _:
            yield tuple(getattr(node, attribute.name) for attribute in fields_of(type(node))), names


def _pattern_names(pattern: nodes.Pattern) -> Iterator[str]:
    waiting: list[Any] = [pattern]
    while waiting:
        match waiting.pop():
            case nodes.BindingPattern(name=name):
                yield name
            case tuple() as parts:
                waiting += reversed(parts)
            case nodes.Node() as inner:
                waiting += [getattr(inner, attribute.name) for attribute in fields_of(type(inner))]
