"""What lies on the heap: lists, text and tensors. They are checked so that promises can be proved over them; compiled code has no heap, and
refuses them where it is written, as programs with a `main` run them."""

from compiler.typed_ast import nodes
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.calls import require_changeable
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ANY_TENSOR, ERROR, F64, I64, STRING, UNIT, ListType, TensorType, Type
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import shown

_SHAPED = ("zeros", "ones", "full", "rand", "randn")
TENSORS = frozenset(
    {*_SHAPED, *(f"{name}_{rank}d" for name in _SHAPED for rank in (1, 2, 3))}
    | {"eye", "arange", "linspace", "randperm", "tensor", "from_array", "load"}
)
"""Functions of the host's library that make a tensor."""
TEXTS = frozenset({"str", "to_string"})
"""Those that make a text of a value."""
MEASURES = frozenset({"len"})
_CHANGING = ("push", "pop")
_LISTS = (*_CHANGING, "len")


def is_function(name: str) -> bool:
    """Whether a name that a program doesn't declare is a function of what lies on the heap."""
    return name in TENSORS or name in TEXTS or name in MEASURES


def is_heap(type_: Type) -> bool:
    return type_ == STRING or isinstance(type_, ListType | TensorType)


def call(checker: QuantChecker, node: nodes.Call, name: str, scope: Scope) -> Type:
    """A call of one of these functions."""
    given = [checker.infer(argument.value, scope) for argument in node.arguments]
    if name in TENSORS:
        return ANY_TENSOR
    if len(given) != 1:
        return checker.report("0204", f"`{name}` takes 1 argument, and {len(given)} are given", node.span)
    if name in TEXTS:
        return ERROR if given[0] == ERROR else STRING
    if given[0] != ERROR and not is_heap(given[0]):
        message = f"`len` measures a list, a text or a tensor, and this is a `{shown(given[0])}`"
        return checker.report("0203", message, node.arguments[0].span, hint="containers in place say theirs as `a.len`")
    return I64


def method(checker: QuantChecker, node: nodes.Call, target: nodes.Field, subject: Type, scope: Scope) -> Type | None:
    """`xs.push(x)`, `xs.pop()`, `xs.len()`; methods of tensors give what isn't followed here. None of what isn't on the heap."""
    if not is_heap(subject):
        return None
    name = target.name
    if name in _CHANGING:
        require_changeable(checker, name, target.value, scope)
    element = subject.element if isinstance(subject, ListType) else None
    given = [checker.infer(argument.value, scope, element) for argument in node.arguments]
    if isinstance(subject, TensorType):
        return ERROR
    known = _LISTS if element is not None else ("len",)
    if name not in known:
        hint = did_you_mean(name, known) or f"it has {', '.join(f'`{one}`' for one in known)}"
        return checker.report("0202", f"a `{shown(subject)}` has no method `{name}`", node.function.span, hint=hint)
    wanted = 1 if name == "push" else 0
    if len(given) != wanted:
        many = "1 argument" if wanted else "no argument"
        return checker.report("0204", f"`{name}` takes {many}, and {len(given)} are given", node.span)
    if element is None or name == "len":
        return I64
    if name == "pop":
        return element
    require(checker, given[0], element, node.arguments[0].span, "an element of this list")
    return UNIT


def element(subject: Type) -> Type | None:
    """What an index, or a loop, takes out; None for what isn't on the heap."""
    match subject:
        case ListType(element=found):
            return found
        case TensorType():
            return F64
    return STRING if subject == STRING else None
