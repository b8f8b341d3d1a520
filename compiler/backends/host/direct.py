"""What Python does itself just as the language means it, where the types are known: elements of lists, entries of maps, membership, a few
methods. The values are trusted to be what their types say, as those of variables are.

An index or a key that isn't there raises Python's own error, in the program's frame. `looked_up_again` then does by the library what the
instruction did, whose fault says what is wrong: so that what goes well needs no test."""

import ast
from collections.abc import Callable
from typing import Any

from compiler.backends.host.emit import Emitter, load
from compiler.backends.host.intervals import LENGTH, marked
from compiler.backends.host.naming import MARK
from compiler.backends.host.positions import DirectLookup
from compiler.source import Span
from compiler.typed_ast.types import (
    BOOL,
    I64,
    CharType,
    DictType,
    FunctionType,
    ListType,
    RangeType,
    Scalar,
    SetType,
    StringType,
    TupleType,
    Type,
)
from runtime.records import frozen


@frozen(eq=False)
class Guarded:
    """An expression of Python's that means the same as a call where a test holds. Both read the receiver."""

    test: ast.expr
    value: ast.expr


DirectMaker = Callable[[list[ast.expr]], Any]
"""Gives an expression, one that is `Guarded`, or None where these arguments don't allow it."""


# ---- types -----------------------------------------------------------------------------------------------------------


def is_int(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.dtype is I64.dtype


def is_text(type_: Type) -> bool:
    return isinstance(type_, StringType | CharType)


def is_plain(type_: Type) -> bool:
    """Whether Python compares two values of the type as the language does, and tells them apart from all others in a map."""
    return is_int(type_) or is_text(type_) or type_ == BOOL


def same_plain(left: Type, right: Type) -> bool:
    return (is_int(left) and is_int(right)) or (is_text(left) and is_text(right)) or (left == BOOL and right == BOOL)


def looks_up(container: Type, index: Type) -> bool:
    """Whether `container[index]` is Python's."""
    match container:
        case ListType() | StringType():
            return is_int(index)
        case DictType(key=key):
            return same_plain(key, index)
    return False


def contains_directly(value: Type, container: Type) -> bool:
    """Whether `value in container` is Python's."""
    match container:
        case StringType():
            return is_text(value)
        case ListType(element=part) | SetType(element=part) | DictType(key=part):
            return same_plain(value, part)
        case RangeType():
            return is_int(value)
    return False


# ---- elements --------------------------------------------------------------------------------------------------------


def element(emitter: Emitter, container: ast.expr, index: ast.expr, span: Span) -> ast.expr:
    """`container[index]` of types that `looks_up` says."""
    container, index = _repeatable(emitter, container, span), _repeatable(emitter, index, span)
    lookup = DirectLookup(_again(container), _again(index))
    emitter.positions.lookups[span] = lookup
    made = emitter.made(ast.Subscript(container, index, ast.Load()), span, container, index)
    made.again = ast.Subscript(lookup.container, lookup.index, ast.Load())  # type: ignore[attr-defined]
    return made


def store(emitter: Emitter, container: ast.expr, index: ast.expr, value: ast.expr, span: Span) -> None:
    """`container[index] = value`. All three are evaluated in this order."""
    if not all(isinstance(part, ast.Constant | ast.Name) for part in (container, index)) and not isinstance(value, ast.Constant):
        container, index = (part if _is_fixed(part) else emitter.keep(part, span) for part in (container, index))
    emitter.positions.lookups[span] = DirectLookup(_again(container), _again(index))
    target = emitter.at(ast.Subscript(container, index, ast.Store()), span)
    emitter.write(ast.Assign([target], value), span)


def _is_fixed(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) or (isinstance(tree, ast.Name) and tree.id.startswith(MARK))


def _again(tree: ast.expr) -> ast.expr:
    """The value once more, after the expression has been evaluated."""
    found: ast.expr = getattr(tree, "again", tree)
    if isinstance(found, ast.NamedExpr):
        return load(found.target.id)
    return found


def _repeatable(emitter: Emitter, tree: ast.expr, span: Span) -> ast.expr:
    """The expression, whose value is kept where it can't be found again otherwise."""
    if isinstance(tree, ast.Constant | ast.Name | ast.NamedExpr) or hasattr(tree, "again"):
        return tree
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.operand, ast.Constant):
        return tree
    if isinstance(tree, ast.BinOp) and all(isinstance(side, ast.Constant | ast.Name) for side in (tree.left, tree.right)):
        return tree
    name = emitter.frame.temporary()
    return emitter.made(ast.NamedExpr(ast.Name(name, ast.Store()), tree), span, tree)


# ---- methods ---------------------------------------------------------------------------------------------------------


def method(receiver: Type, name: str, arguments: tuple[Type, ...]) -> DirectMaker | None:
    """What makes the call of a method from its receiver and arguments, where Python has it; None where it doesn't."""
    match receiver, name, arguments:
        case (ListType() | DictType() | SetType() | StringType() | RangeType()), "len", ():
            return lambda v: marked(ast.Call(load(f"{MARK}len!"), v, []), LENGTH)
        case (ListType() | DictType() | SetType() | StringType()), "is_empty", ():
            return lambda v: ast.UnaryOp(ast.Not(), v[0])
        case ListType(), "take" | "skip", (_,):
            return _part if name == "take" else _rest
        case (SetType(element=part) | ListType(element=part) | DictType(key=part)), "contains", (given,) if same_plain(part, given):
            return lambda v: ast.Compare(v[1], [ast.In()], [v[0]])
        case StringType(), _, _:
            return _of_text(name, arguments)
        case ListType(element=part), _, _:
            return _of_list(part, name, arguments)
        case DictType(key=key), _, _:
            return _of_map(key, name, arguments)
    return None


def _of_text(name: str, arguments: tuple[Type, ...]) -> DirectMaker | None:
    match name, arguments:
        case "contains", (given,) if is_text(given):
            return lambda v: ast.Compare(v[1], [ast.In()], [v[0]])
        case ("starts_with" | "ends_with" | "split" | "replace"), _ if arguments and all(map(is_text, arguments)):
            return _split if name == "split" else _attribute(name.replace("_", ""))
        case "index_of", (given,) if is_text(given):
            return lambda v: marked(_attribute("find")(v), (-1, LENGTH[1]))
        case "chars", ():
            return _builtin("list")
    without = {"lines": "splitlines", "split": "split"} | _SPELLINGS
    return _attribute(without[name], 1) if name in without and not arguments else None


_SPELLINGS = {
    "trim": "strip",
    "strip": "strip",
    **dict.fromkeys(("to_upper", "to_uppercase", "upper"), "upper"),
    **dict.fromkeys(("to_lower", "to_lowercase", "lower"), "lower"),
}


def _of_list(part: Type, name: str, arguments: tuple[Type, ...]) -> DirectMaker | None:
    match name, arguments:
        case ("push" | "append"), (_,):
            return _attribute("append")
        case "extend", (ListType(),):
            return _attribute("extend")
        case ("clear" | "reverse"), ():
            return _attribute(name)
        case "sorted", () if sorts_plainly(part):
            return _builtin("sorted")
        case "sorted", (FunctionType(result=key),) if sorts_plainly(key):
            return lambda v: ast.Call(load(f"{MARK}sorted!"), v[:1], [ast.keyword("key", v[1])])
        case "sort", () if sorts_plainly(part):
            return _attribute("sort", 1)
        case "join", (given,) if is_text(part) and is_text(given):
            return lambda v: _attribute("join")(v[::-1])
        case "pop", ():
            return lambda v: Guarded(v[0], _attribute("pop")(v))
        case ("first" | "last"), ():
            place = ast.Constant(0) if name == "first" else ast.UnaryOp(ast.USub(), ast.Constant(1))
            return lambda v: Guarded(v[0], ast.Subscript(v[0], place, ast.Load()))
    return None


def _of_map(key: Type, name: str, arguments: tuple[Type, ...]) -> DirectMaker | None:
    match name, arguments:
        case "contains_key", (given,) if same_plain(key, given):
            return lambda v: ast.Compare(v[1], [ast.In()], [v[0]])
        case "get_or", (given, _) if same_plain(key, given):
            return _attribute("get")
        case ("insert" | "set"), (given, _) if same_plain(key, given):
            return _attribute("__setitem__")
        case "keys", ():
            return _builtin("list")
        case ("values" | "items" | "entries"), ():
            listed = _builtin("list")
            return lambda v: listed([_attribute("values" if name == "values" else "items")(v)])
    return None


def unread(receiver: Type, name: str, arguments: tuple[Type, ...]) -> DirectMaker | None:
    """The same for a call whose value nobody reads."""
    match receiver, name, arguments:
        case (SetType(element=key) | DictType(key=key)), "remove", (given,) if same_plain(key, given):
            return lambda v: _attribute("pop")([*v, ast.Constant(None)])
    return None


def puts(receiver: Type, name: str, arguments: tuple[Type, ...]) -> bool:
    """Whether a method, of which nobody reads whether the key is new, stores a key with a value, or with none in a set."""
    match receiver, name, arguments:
        case DictType(key=key), "insert" | "set", (given, _):
            return same_plain(key, given)
        case SetType(element=key), "insert" | "add", (given,):
            return same_plain(key, given)
    return False


def sorts_plainly(key: Type) -> bool:
    """Whether Python orders values of the type as the language does."""
    if isinstance(key, TupleType):
        return bool(key.elements) and all(map(sorts_plainly, key.elements))
    return is_int(key) or is_text(key)


def names_receiver(name: str) -> bool:
    """Whether the direct form of a method evaluates its argument before its receiver, or the receiver twice."""
    return name in ("contains", "contains_key", "join", "pop", "first", "last")


def _attribute(name: str, count: int | None = None) -> DirectMaker:
    """A method of Python's, with the first `count` of the values or all."""
    return lambda v: ast.Call(ast.Attribute(v[0], name, ast.Load()), v[1:count], [])


def _builtin(name: str) -> DirectMaker:
    return lambda v: ast.Call(load(f"{MARK}{name}!"), v[:1], [])


def _split(v: list[ast.expr]) -> ast.expr | None:
    """An empty separator is the library's business."""
    return _attribute("split")(v) if isinstance(v[1], ast.Constant) and v[1].value else None


def _count(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and type(tree.value) is int


def _part(v: list[ast.expr]) -> ast.expr | None:
    return ast.Subscript(v[0], ast.Slice(None, v[1]), ast.Load()) if _count(v[1]) else None


def _rest(v: list[ast.expr]) -> ast.expr | None:
    return ast.Subscript(v[0], ast.Slice(v[1], None), ast.Load()) if _count(v[1]) else None
