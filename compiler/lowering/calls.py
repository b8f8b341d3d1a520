"""Calls in kernel bodies: of the program's functions, of words that only some kernels know, of the library, and of methods."""

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.lowering import custom, library, whole_tensor
from compiler.lowering.bindings import Binding
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.conditions import choose
from compiler.lowering.functions import call_function
from compiler.lowering.names import shape_of
from compiler.lowering.numbers import Choice, Number, Operand, Record, TensorOperand, Tuple, affine
from compiler.lowering.records import is_case, with_values
from compiler.lowering.walk import evaluate, forbidden, lowers, not_in_kernel, number, value
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import DType


@lowers(nodes.Call)
def _call(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    function = node.function
    if isinstance(function, nodes.Field):
        return _method(body, function, node, into)
    if isinstance(function, nodes.Path):
        return _of_type(body, function, node, into)
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
        return choose(body, condition, lambda: value(body, then, into), lambda: value(body, otherwise, into))
    if name == "len":
        return _length(body, node)
    if name in library.NAMES:
        positional = [argument.value for argument in node.arguments]
        values = [number(body, value, into) for value in positional]
        if name in ("any", "all"):
            raise forbidden(body, f"`{name}` of a tensor", node)
        return library.call(body, name, values, node)
    if is_case(body, name):
        return with_values(body, (name,), node)
    raise library.unknown(body, name, node)


def _of_type(body: Body, function: nodes.Path, node: nodes.Call, into: DType | None) -> Operand:
    """`Shape::Circle(2.0)`, `Point::origin()`."""
    declared = body.signature.declared
    path = function.segments
    if len(path) == 2 and path[0] in declared.enums and any(variant.name == path[1] for variant in declared.enums[path[0]].variants):
        return with_values(body, path, node)
    found = declared.functions.get(declared.key(path)) if len(path) > 1 else None
    if found is None:
        raise forbidden(body, f"`{'::'.join(path)}`", node)
    arguments = [(argument.name, evaluate(body, argument.value, into)) for argument in node.arguments]
    return call_function(body, found, arguments, node, into)


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
    own = _own_method(body, owner, name)
    if own is not None:
        if changes_receiver(own):
            hint = "give the changed value back as the result, and assign it"
            raise fault("0109", f"`{name}` takes `mut self`, which isn't supported yet in a kernel", node.span, hint=hint)
        arguments = [(argument.name, evaluate(body, argument.value, into)) for argument in node.arguments]
        return call_function(body, own, [(None, owner), *arguments], node, into)
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
    if isinstance(owner, Record | Choice):
        known = sorted(key.rpartition("::")[2] for key in body.signature.declared.methods() if key.startswith(f"{owner.name}::"))
        raise fault("0202", f"`{owner.name}` has no method `{name}` that a kernel knows", node.span, hint=did_you_mean(name, known))
    raise fault("0410", f"method `{name}` can't stand in a kernel", node.span)


def _own_method(body: Body, owner: Operand, name: str) -> nodes.Function | None:
    """A method that the program declares for values of this kind."""
    methods = body.signature.declared.methods(name)
    match owner:
        case Record(name=type_name) | Choice(name=type_name):
            return methods.get(f"{'?' if type_name == 'Option' else type_name}::{name}", methods.get(f"::{name}"))
        case Tuple(counts=False):
            return methods.get(f"()::{name}", methods.get(f"::{name}"))
        case Number(dtype=dtype, weak=weak):
            exact = methods.get(f"{dtype.value}::{name}", methods.get(f"::{name}"))
            return exact if exact is not None or not weak or len(methods) != 1 else next(iter(methods.values()))
    return None


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
