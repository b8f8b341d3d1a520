"""`@shape(A: [M, K])`: extents of inputs that the block states, beside those of its inputs' types."""

from collections.abc import Sequence

from compiler.diagnostics import Diagnostic
from compiler.hir.affine import Affine
from compiler.lowering.kernel import Equation
from compiler.lowering.sizes import Sizes, SizeStatement, fact
from compiler.lowering.tile_sizes import affine_of
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import StatedShape
from compiler.typed_ast.suggest import did_you_mean


def state(sizes: Sizes, shapes: Sequence[StatedShape]) -> None:
    """Defines the sizes that the shapes name, and checks the rest; what makes no sense goes to the diagnostics of the sizes."""
    tensors = {tensor.name: tensor for tensor in sizes.signature.tensors}
    for shape in shapes:
        tensor = tensors.get(shape.name)
        if tensor is None:
            hint = did_you_mean(shape.name, tensors) or "inputs are " + ", ".join(f"`{name}`" for name in tensors)
            sizes.diagnostics.add(Diagnostic("0201", f"`{shape.name}` is no tensor that goes into this block", shape.span, hint=hint))
        elif len(shape.dims) != tensor.rank:
            message = f"`@shape` gives {len(shape.dims)} extents of `{shape.name}`, which has {tensor.rank} axes"
            sizes.diagnostics.add(Diagnostic("0304", message, shape.span, hint="write one extent for each axis"))
        else:
            for axis, dim in enumerate(shape.dims):
                assert isinstance(dim, nodes.Expression)
                _state(sizes, shape, axis, dim)


def _state(sizes: Sizes, shape: StatedShape, axis: int, dim: nodes.Expression) -> None:
    form = affine_of(dim)
    if form is None:
        message = f"the extent `{words(dim)}` of `{shape.name}` isn't affine in sizes"
        sizes.diagnostics.add(Diagnostic("0203", message, dim.span, hint="write a number, a size, or a form such as `2 * N + 1`"))
        return
    known = Affine.of(fact(shape.name, axis))
    given = {scalar.name for scalar in sizes.signature.scalars}
    unknown = [name for name in form.names if name not in sizes.solved and name not in given]
    statement = SizeStatement(known, f"`@shape` of `{shape.name}`", dim.span)
    if isinstance(dim, nodes.Name) and dim.name not in given:
        sizes.settle(dim.name, statement)
        return
    if len(unknown) == 1 and form.coefficient(unknown[0]) > 0:
        rest = form.without(unknown[0])
        exact = SizeStatement((known - rest).floordiv(form.coefficient(unknown[0])), statement.source, dim.span)
        sizes.settle(unknown[0], exact)
    message = f"axis {axis} of `{shape.name}` is stated as {form}, which is {{left}}, but it has {{right}} elements"
    sizes.equations.append(Equation(form, known, "==", Diagnostic("0802", message, dim.span)))
