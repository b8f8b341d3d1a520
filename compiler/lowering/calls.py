"""Calls in kernel bodies: of the program's functions, of words that only some kernels know, of the library, and of methods."""

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.lowering import custom, library, whole_tensor
from compiler.lowering.bindings import Binding
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.conditions import choose
from compiler.lowering.functions import call_function
from compiler.lowering.names import shape_of
from compiler.lowering.numbers import Number, Operand, TensorOperand, Tuple, affine
from compiler.lowering.walk import evaluate, forbidden, lowers, not_in_kernel, number
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType


@lowers(nodes.Call)
def _call(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    function = node.function
    if isinstance(function, nodes.Field):
        return _method(body, function, node, into)
    if not isinstance(function, nodes.Name):
        raise not_in_kernel(body, function)
    name = function.name
    if name in body.signature.functions and body.names.lookup(name) is None:
        arguments = [(argument.name, evaluate(body, argument.value, into)) for argument in node.arguments]
        return call_function(body, body.signature.functions[name], arguments, node, into)
    own = body.names.lookup(name)
    if own is not None:
        raise _not_callable(own, function)
    special = custom.CALLS.get(name) if body.kind is KernelType.CUSTOM else None
    if special is not None:
        return special(body, node, into)
    if name == "reduce" and body.kind in whole_tensor.KINDS:
        return whole_tensor.reduced(body, node)
    if name == "where" and len(node.arguments) == 3:
        condition, then, otherwise = (argument.value for argument in node.arguments)
        return choose(body, condition, lambda: number(body, then, into), lambda: number(body, otherwise, into))
    if name == "len":
        return _length(body, node)
    if name in library.NAMES:
        positional = [argument.value for argument in node.arguments]
        values = [number(body, value, into) for value in positional]
        if name in ("any", "all"):
            raise forbidden(body, f"`{name}` of a tensor", node)
        return library.call(body, name, values, node)
    raise library.unknown(body, name, node)


def _not_callable(own: Binding, function: nodes.Name) -> Exception:
    value = own.value
    kind = "a tensor" if isinstance(value, TensorOperand) else "a tuple" if isinstance(value, Tuple) else "a number"
    return fault(
        "0203",
        f"only a function can be called, and `{function.name}` is {kind} here",
        function.span,
        f"this is {kind}",
        "give it another name, if the library's function is meant",
        () if own.how == "a variable" else (Label(own.span, f"{own.how} here"),),
    )


def _length(body: Body, node: nodes.Call) -> Operand:
    if len(node.arguments) != 1:
        raise fault("0204", f"`len` takes 1 argument, but {len(node.arguments)} are given", node.span)
    owner = evaluate(body, node.arguments[0].value)
    if isinstance(owner, Tuple):
        return affine(Affine((), len(owner.elements)))
    if not isinstance(owner, TensorOperand):
        raise fault("0203", f"`len` needs a tensor: `{words(node.arguments[0].value)}` is a number", node.span)
    shape = shape_of(body, owner)
    if not shape:
        raise fault("0307", f"`{words(node.arguments[0].value)}` has no axis", node.span)
    return affine(shape[0])


def _method(body: Body, function: nodes.Field, node: nodes.Call, into: DType | None) -> Operand:
    owner = evaluate(body, function.value, into)
    name = function.name
    if isinstance(owner, TensorOperand):
        shape = shape_of(body, owner)
        if name == "numel" and not node.arguments:
            return _numel(body, body.memories[owner.name])
        if name == "ndim" and not node.arguments:
            return affine(Affine((), len(shape)))
        if name == "len" and not node.arguments and shape:
            return affine(shape[0])
        if name == "shape":
            if not node.arguments:
                return Tuple(tuple(affine(dim) for dim in shape))
            axis = number(body, node.arguments[0].value).constant
            if axis is None or not -len(shape) <= axis < len(shape):
                raise fault("0307", f"axis {words(node.arguments[0].value)} of `{owner.name}` is outside its {len(shape)} axes", node.span)
            return affine(shape[axis])
        raise fault(
            "0410", f"method `{name}` of a tensor can't stand in a kernel", node.span, hint="kernels know `shape`, `numel()` and `ndim()`"
        )
    if isinstance(owner, Number) and name in library.NAMES:
        return library.call(body, name, [owner, *(number(body, argument.value, into) for argument in node.arguments)], node)
    raise fault("0410", f"method `{name}` can't stand in a kernel", node.span)


def _numel(body: Body, memory: Memory) -> Operand:
    """The number of elements: an extent, or a fact of its own."""
    if len(memory.dims) == 1:
        return affine(memory.dims[0])
    numbers = [dim.value for dim in memory.dims]
    if all(number is not None for number in numbers):
        total = 1
        for number in numbers:
            total *= number or 0
        return affine(Affine((), total))
    if memory.role not in ("input", "captured"):
        raise fault("0109", f"`{memory.name}.numel()` isn't supported yet for results", memory.span, hint="multiply the extents")
    return affine(body.in_function(Affine.of(f"{memory.name}.numel")))
