"""What a function does with tensors that decides whether it is compiled natively: which it gives, takes over, makes, hands on."""

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.body_scopes import BodyScopes
from compiler.typed_ast.function_effects import DYNAMIC
from compiler.typed_ast.native_tensors import checks_sizes, creation, extents, not_made, row_type, same_elements, tensor_refused
from compiler.typed_ast.types import UNKNOWN, Scalar, TensorType, Type


class TensorEffects(BodyScopes):
    """The tensors of one function."""

    def tensor_result(self, declared: TensorType, computed: Type, span: Span) -> Type:
        """What native code gives for a result that is a tensor: of the dtype and the rank that the body's value has."""
        if any(isinstance(extent, int) for extent in extents(declared) or ()):
            self.because(DYNAMIC, "its result has an extent that is compared", span)
        open_ = declared.shape.rank is None or not isinstance(declared.element, Scalar)
        if not isinstance(computed, TensorType) or not (open_ or same_elements(declared, computed)):
            self.because(DYNAMIC, f"its result is a {computed}, and a {declared} is declared", span)
            return declared
        return row_type(computed, 0) if tensor_refused(computed) is None else computed

    def tensor_taken(self, wanted: TensorType, actual: Type, span: Span) -> None:
        """A variable takes tensors of its dtype and rank; Python compares extents that are numbers."""
        same = isinstance(actual, TensorType) and extents(wanted) == extents(actual)
        if not same and any(isinstance(extent, int) for extent in extents(wanted) or ()):
            self.because(DYNAMIC, f"a variable is a {wanted}, whose extents are compared", span)
        elif not same_elements(wanted, actual):
            self.because(DYNAMIC, f"a variable that is a {wanted} takes a {actual}", span)

    def tensor_written(self, subject: nodes.Expression) -> None:
        """Elements of this tensor are assigned: it may be a parameter, or lie in the memory of one, unless it was made here."""
        local = self.local(subject.name) if isinstance(subject, nodes.Name) else None
        if local is not None and local.fresh:
            local.written = True
        else:
            self.own.writes = True

    def is_creation(self, node: nodes.Call) -> bool:
        """Whether a call is of the library and makes a tensor."""
        name = node.function.name if isinstance(node.function, nodes.Name) else ""
        return node.callee not in self.program.functions and creation(node) is not None and self.local(name) is None

    def tensor_made(self, node: nodes.Call) -> bool:
        """Whether native code makes the tensor of such a call."""
        words = not_made(node)
        if words is not None:
            self.because(DYNAMIC, f"it makes {words}", node.span)
        self.own.makes, self.own.fails = self.own.makes or node.span, True
        return words is None

    def tensors_passed(self, node: nodes.Call) -> None:
        """A native call hands tensors on as they are; only Python compares extents."""
        parameters = self.program.functions[node.callee].function.parameters
        types = [self.written(p.annotation) if p.annotation is not None else UNKNOWN for p in parameters]
        if not any(isinstance(found, TensorType) for found in types):
            return
        subject = node.function.value if isinstance(node.function, nodes.Field) else None
        given = {} if subject is None else {parameters[0].name: subject}
        free = [parameter.name for parameter in parameters][len(given) :]
        given |= {a.name or free[at]: a.value for at, a in enumerate(node.arguments) if a.name or at < len(free)}
        for parameter, found in zip(parameters, types, strict=True):
            argument = given.get(parameter.name)
            if isinstance(found, TensorType) and (argument is None or not same_elements(found, argument.type)):
                self.because(DYNAMIC, f"it calls `{node.callee}` with another tensor", node.span)
        if checks_sizes(types):
            self.because(DYNAMIC, f"it calls `{node.callee}`, where sizes are compared", node.span)
