"""Nests for tests of the analysis: HIR text in, functions and lowered kernels out."""

import re

from compiler.diagnostics import Diagnostic
from compiler.hir.affine import Affine
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.types import Mem
from compiler.lowering.kernel import KernelArgument, LaunchPlan, LoweredKernel, ResultArgument, ScalarArgument, SizeArgument, TensorArgument
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import DType

ARITHMETIC = re.compile(r"(%\w+ = (?:add|sub|mul|div|max|min|neg|exp) %\w+\b(?:, %\w+\b)?(?: reassoc\b)?(?: contract\b)?)(?!\s*:)")


def nest(text: str, parameters: str) -> HirFunction:
    """A function in form A: `parameters` as HIR text writes them, without their percent signs; arithmetic without a type is f32."""
    text = ARITHMETIC.sub(r"\1 : f32", text)
    written = ", ".join(f"%{part.strip()}" for part in parameters.split(";"))
    return parse_function(f"func @nest({written}) form=A {{\n{text}\n}}")


def kernel(text: str, parameters: str, kind: KernelType | None = None, **options: object) -> LoweredKernel:
    """The same as a lowered kernel: memories that aren't readonly are results."""
    function = nest(text, parameters)
    arguments: list[KernelArgument] = []
    for parameter in function.parameters:
        if isinstance(parameter.type, Mem):
            arguments.append(TensorArgument(parameter.name) if parameter.type.readonly else ResultArgument(0))
        elif str(parameter.type) == "index":
            arguments.append(SizeArgument(Affine.of(parameter.name)))
        else:
            arguments.append(ScalarArgument(parameter.name, DType.F32))
    metadata = KernelMetadata(kernel_type=kind, options=tuple(options.items()))
    return LoweredKernel(function, LaunchPlan(arguments=tuple(arguments)), kind, metadata)


def words(diagnostic: Diagnostic) -> list[str]:
    """All that a diagnostic says."""
    return [f"{diagnostic.full_code}: {diagnostic.message}", diagnostic.label, *diagnostic.notes, f"hint: {diagnostic.hint}"]
