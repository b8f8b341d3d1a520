"""Values of types that implement `Iterator`: loops over them, and the lazy methods that all such values have."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import ZYNML_RULES, Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.overloads import by_trait
from compiler.typed_ast.rules.calls import method_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.signatures import result_type
from compiler.typed_ast.stream_steps import STEPS
from compiler.typed_ast.trait_impls import trait_name
from compiler.typed_ast.traits import bound_by
from compiler.typed_ast.type_arguments import substituted
from compiler.typed_ast.types import UNKNOWN, OptionType, Type
from runtime.records import evolve

ITERATED = "·iterated"
"""The library's function that hands out what a function gives until that is none."""
_LAZY = ("map", "filter", "take", "skip", "enumerate", "take_while", "zip", "chain")
_ENDS = ("collect", "to_list", "iter")
_OTHERS = ("for_each", "join", "to_map", "to_set")
_OF_LISTS = tuple(name for name, form in STEPS.items() if form.of_lists)
METHODS = (*_LAZY, *_ENDS, *_OTHERS, *_OF_LISTS)


def item_of(checker: Checker, type_: Type) -> Type | None:
    """What a value hands out whose type implements `Iterator`; None of other types."""
    if not checker.declarations.impls:
        return None
    meant = by_trait(checker, "Iterator", "next", type_, ())
    if meant is None:
        return None
    impl = checker.declarations.impl_of[id(meant[1])]
    bound = bound_by(checker, impl, strong(type_)) or {}
    given = substituted(result_type(checker, meant[1], checker.top), bound, set(bound))
    return given.value if isinstance(given, OptionType) else UNKNOWN


def _has_any(checker: Checker) -> bool:
    return any(trait_name(impl) == "Iterator" for impl in checker.declarations.impls)


# ---- loops -----------------------------------------------------------------------------------------------------------


def loop(checker: Checker, node: nodes.For, scope: Scope) -> bool | None:
    """`for x in it { }` is `while true { match it.next() { Some(x) => { }, None => break } }`, of a copy of `it`."""
    checker.findings.rewrites.pop(id(node), None)
    if not _has_any(checker):
        return None
    first, *rest = node.clauses
    if isinstance(first.source, nodes.Range):
        if all(isinstance(clause.source, nodes.Range) for clause in rest):
            return None  # else each clause has a loop of its own
    elif not _is_iterator(checker, first.source, scope):
        chained = _lazily(checker, first.source, scope)
        if chained is None:
            return None
        again = evolve(node, clauses=(evolve(first, source=chained), *rest))
        checker.kept += (node, again)
        checker.statement(again, scope)
        checker.findings.rewrites[id(node)] = again
        return True
    body = node.body
    if rest:
        inner = evolve(node, clauses=tuple(rest))
        body = nodes.Block(statements=(inner,), span=node.body.span)
    checker.kept.append(node)
    made: nodes.Statement
    if isinstance(first.source, nodes.Range):
        made = evolve(node, clauses=(first,), body=body)
        checker.statement(made, scope)
    else:
        block = _drained(node, first, body)
        made = nodes.ExpressionStatement(value=block, span=node.span)
        checker.infer(block, scope, used=False)
    checker.kept.append(made)
    checker.findings.rewrites[id(node)] = made
    return True


def _is_iterator(checker: Checker, source: nodes.Expression, scope: Scope) -> bool:
    return item_of(checker, checker.infer(source, scope)) is not None


def _drained(node: nodes.For, clause: nodes.ForClause, body: nodes.Block) -> nodes.Block:
    span, source = node.span, clause.source
    own = f"·iterator {span.start}"
    spans = (*clause.name_spans, *(span,) * len(clause.names))
    names = tuple(nodes.BindingPattern(name=name, span=at) for name, at in zip(clause.names, spans, strict=False))
    bound: nodes.Pattern = names[0] if len(names) == 1 else nodes.TuplePattern(elements=names, span=span)
    some = nodes.Arm(pattern=nodes.VariantPattern(path=("Some",), arguments=(bound,), span=source.span), body=body, span=body.span)
    leave = nodes.Block(statements=(nodes.Break(span=source.span),), span=source.span)
    none = nodes.Arm(pattern=nodes.VariantPattern(path=("None",), span=source.span), body=leave, span=source.span)
    step = nodes.Match(subject=_next(own, source), arms=(some, none), span=span)
    turn = nodes.Block(statements=(nodes.ExpressionStatement(value=step, span=span),), span=body.span)
    forever = nodes.While(condition=nodes.BoolLiteral(value=True, span=source.span), body=turn, span=span)
    return nodes.Block(statements=(_kept(own, source), forever), span=span)


def _kept(name: str, source: nodes.Expression) -> nodes.Let:
    return nodes.Let(pattern=nodes.BindingPattern(name=name, span=source.span), value=source, mutable=True, span=source.span)


def _next(name: str, source: nodes.Expression) -> nodes.Call:
    target = nodes.Field(value=nodes.Name(name=name, span=source.span), name="next", span=source.span)
    return nodes.Call(function=target, span=source.span)


# ---- lazy methods ----------------------------------------------------------------------------------------------------


def chained(checker: Checker, node: nodes.Call, target: nodes.Field, scope: Scope) -> Type | None:
    """The type of `it.map(f).take(3)` and the like, which are steps of a stream; None of calls that begin elsewhere."""
    if target.name not in METHODS or not _has_any(checker):
        return None
    found = _stream(checker, node, scope)
    if found is None:
        return None
    checker.kept += (node, found)
    type_ = checker.infer(found, scope)
    checker.findings.rewrites[id(node)] = found
    return type_


def collected(checker: Checker, source: nodes.Expression, type_: Type) -> nodes.Expression | None:
    """The values of an iterator as a list; None of what is none."""
    if item_of(checker, type_) is None:
        return None
    step = nodes.StreamStep(name="collect", span=source.span)
    return nodes.Stream(source=_source(source), steps=(step,), span=source.span)


def _lazily(checker: Checker, node: nodes.Expression, scope: Scope) -> nodes.Expression | None:
    """A chain of lazy steps as what hands out its values one by one; `enumerate(it)` is one, too."""
    match node:
        case nodes.Call(function=nodes.Name(name="enumerate", span=span), arguments=[nodes.Argument(name=None, value=inside)]):
            node = evolve(node, function=nodes.Field(value=inside, name="enumerate", span=span), arguments=())
    steps, root = _steps(node)
    if not steps or not all(step.name in _LAZY for step in steps) or not _is_iterator(checker, root, scope):
        return None
    return nodes.Stream(source=_source(root), steps=tuple(steps), span=node.span)


def _steps(node: nodes.Expression) -> tuple[list[nodes.StreamStep], nodes.Expression]:
    """The methods of a chain, and what it begins with."""
    steps: list[nodes.StreamStep] = []
    while isinstance(node, nodes.Call) and isinstance(node.function, nodes.Field) and node.function.name in METHODS:
        steps.insert(0, nodes.StreamStep(name=node.function.name, arguments=node.arguments, span=node.span))
        node = node.function.value
    return steps, node


def _stream(checker: Checker, node: nodes.Call, scope: Scope) -> nodes.Expression | None:
    steps, root = _steps(node)
    type_ = checker.infer(root, scope)
    if item_of(checker, type_) is None or method_of(checker, steps[0].name, type_, scope) is not None:
        return None
    lazy = 0
    while lazy < len(steps) and steps[lazy].name in _LAZY:
        lazy += 1
    taken, rest = steps[:lazy], steps[lazy:]
    collects = nodes.StreamStep(name="collect", span=node.span)
    taken.append(rest.pop(0) if rest and rest[0].name in _OF_LISTS else collects)
    value: nodes.Expression = nodes.Stream(source=_source(root), steps=tuple(taken), span=node.span)
    for step in rest:
        if step.name not in _ENDS:
            function = nodes.Field(value=value, name=step.name, span=step.span)
            value = nodes.Call(function=function, arguments=step.arguments, span=step.span)
    return value


def _source(root: nodes.Expression) -> nodes.Expression:
    """What hands out the values of an iterator, of a copy of it, when they are asked for."""
    own = f"·iterator {root.span.start}"
    more = nodes.Lambda(parameters=(), body=_next(own, root), span=root.span)
    function = nodes.Name(name=ITERATED, span=root.span)
    call = nodes.Call(function=function, arguments=(nodes.Argument(value=more, span=root.span),), span=root.span)
    return nodes.Block(statements=(_kept(own, root), nodes.ExpressionStatement(value=call, span=root.span)), span=root.span)


ZYNML_RULES.traits = evolve(ZYNML_RULES.traits, loop=loop)
