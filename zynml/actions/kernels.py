"""Named kernels: `@kernel(elementwise) def gelu(x: tensor[N]) { ... }` is a function with one compute block over its parameters."""

from compiler.syntax.statements import StatementActions, is_of_compute
from compiler.typed_ast import nodes
from runtime.records import evolve


class NamedKernels(StatementActions):
    def finished(self, function: nodes.Function) -> nodes.Function:
        is_kernel = any(annotation.name == "kernel" for annotation in function.annotations)
        return self._kernel(function) if is_kernel else function

    def _kernel(self, function: nodes.Function) -> nodes.Function:
        """The function that computes what its body says, with the annotations of a compute block handed to that block."""
        if function.body is None:
            return function
        body = function.body
        annotations = [annotation for annotation in function.annotations if is_of_compute(annotation)]
        inside, statements = self._head(body)
        annotations += inside
        if not any(annotation.name == "name" for annotation in annotations):
            text = nodes.StringLiteral(value=function.name, span=function.name_span)
            argument = nodes.Argument(value=text, span=function.name_span)
            annotations.append(nodes.Annotation(name="name", arguments=(argument,), span=function.name_span))
        compute = nodes.Compute(
            inputs=tuple(_input(parameter) for parameter in function.parameters),
            annotations=tuple(annotations),
            results=self._results(function),
            body=evolve(body, statements=statements),
            span=function.name_span,
        )
        is_async = any(annotation.name == "async" for annotation in annotations)
        value = nodes.ExpressionStatement(value=compute, span=compute.span)
        return evolve(
            function,
            annotations=tuple(annotation for annotation in function.annotations if not is_of_compute(annotation)),
            body=nodes.Block(statements=(value,), braces=body.braces, span=body.span),
            result=None if is_async else function.result,
        )

    def _head(self, body: nodes.Block) -> tuple[list[nodes.Annotation], tuple[nodes.Statement, ...]]:
        """The annotations first in the body that speak of the whole kernel, and the statements without them."""
        held = self.misplaced_heads.pop(body.span, None)
        if held is not None:
            annotations, fault = held
            self.faults.remove(fault)
            return list(annotations), body.statements
        match body.statements:
            case (nodes.For(annotations=annotations) as loop, *rest):
                own = tuple(annotation for annotation in annotations if not is_of_compute(annotation))
                inside = [annotation for annotation in annotations if is_of_compute(annotation)]
                return inside, (evolve(loop, annotations=own), *rest)
            case statements:
                return [], statements

    def _results(self, function: nodes.Function) -> tuple[nodes.ComputeResult, ...]:
        if function.result is None:
            return ()
        named = self.result_names.pop(function.result.span, None)
        return named if named is not None else self.result_type(0, 0, function.result)


def _input(parameter: nodes.Parameter) -> nodes.ComputeInput:
    value = nodes.Name(name=parameter.name, span=parameter.span)
    return nodes.ComputeInput(name=parameter.name, value=value, mutable=parameter.mutable, span=parameter.span)
