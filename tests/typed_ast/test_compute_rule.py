"""Compute blocks from outside: what the rule that looks into them is told, and what becomes of its answer."""

from collections.abc import Mapping

import attrs

from compiler.diagnostics import Diagnostic, Severity
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import ComputeOutcome
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import F32, UNKNOWN, StaticShape, TensorType, Type
from tests.typed_ast.checking import checked, errors

BODY = "{ for i in 0..N { out[i] = x[i] } }"


@attrs.define
class Recording:
    """A rule that keeps what it is told."""

    outcome: ComputeOutcome = ComputeOutcome(UNKNOWN)
    calls: list[tuple[nodes.Compute, dict[str, Type], dict[str, nodes.Function]]] = attrs.Factory(list)

    def __call__(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
        self.calls.append((node, dict(scope), dict(functions)))
        return self.outcome


def test_the_rule_sees_typed_inputs_variables_sizes_and_functions() -> None:
    rule = Recording()
    text = f"""
def helper(a: f32): f32 {{ a }}
let bias = 2.5
def f(v: tensor[N, 4]) {{
    let k = 3
    compute(v, x = v * 2.0) @kernel(elementwise) {BODY}
}}
"""
    checked(text, rule)
    (node, scope, functions) = rule.calls[0]
    assert [str(given.value.type) for given in node.inputs] == ["tensor[N, 4, f32]", "tensor[N, 4, f32]"]
    assert node.kernel is not None
    assert node.kernel.kernel_type is KernelType.ELEMENTWISE
    assert {name: str(scope[name]) for name in ("v", "k", "N")} == {"v": "tensor[N, 4, f32]", "k": "i64", "N": "i64"}
    assert "bias" in scope
    assert set(functions) == {"helper", "f"}


def test_the_type_that_the_rule_gives_is_that_of_the_block() -> None:
    rule = Recording(ComputeOutcome(TensorType(F32, StaticShape((3,)))))
    found = errors(f"let x = zeros(3)\nlet y = compute(x) {BODY}\nlet z = y + zeros(4)", rule)
    assert [d.code for d in found] == ["0301"]


def test_faults_of_the_rule_are_reported_with_the_others() -> None:
    fault = Diagnostic("0403", "the body is no product", None)
    found = errors(f"let x = zeros(3)\nlet y = compute(x) {BODY}\nprintln(missing)", Recording(ComputeOutcome(UNKNOWN, (fault,))))
    assert [d.code for d in found] == ["0403", "0201"]


def test_a_block_whose_inputs_are_in_error_is_not_looked_into() -> None:
    rule = Recording()
    assert [d.code for d in errors(f"let y = compute(x = missing) {BODY}", rule)] == ["0201"]
    assert rule.calls == []


def test_a_generic_function_asks_again_for_each_kind_of_argument() -> None:
    rule = Recording()
    checked(f"def f(x) {{ compute(x) {BODY} }}\nf(zeros(3))\nf(zeros(3))\nf(zeros(4))", rule)
    assert sorted(str(scope["x"]) for _, scope, _ in rule.calls) == ["?", "tensor[3, f32]", "tensor[4, f32]"]


def test_a_fault_in_a_generic_function_names_the_call() -> None:
    class Refusing(Recording):
        def __call__(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
            bad = str(scope["x"]) == "tensor[4, f32]"
            return ComputeOutcome(UNKNOWN, (Diagnostic("0403", "no product", node.span),) if bad else ())

    (fault,) = errors(f"def f(x) {{ compute(x) {BODY} }}\nf(zeros(3))\nf(zeros(4))", Refusing())
    assert [label.text for label in fault.others] == ["called here with (tensor[4, f32])"]


def test_the_tree_keeps_metadata_and_types() -> None:
    program = checked(f'let x = zeros(3)\nlet y = compute(x) @device("cpu") {BODY}').program
    statement = program.statements[1]
    assert isinstance(statement, nodes.Let)
    block = statement.value
    assert isinstance(block, nodes.Compute)
    assert block.kernel is not None
    assert str(block.kernel.device) == "cpu"
    assert str(block.inputs[0].value.type) == "tensor[3, f32]"


def test_a_value_that_nobody_uses_is_a_warning() -> None:
    found = checked(f"let x = zeros(3)\ncompute(x) {BODY}\nprintln(x)").diagnostics
    assert [(d.code, d.severity) for d in found.sorted] == [("0604", Severity.WARNING)]
    assert checked(f"let x = zeros(3)\ndef f() {{ compute(x) {BODY} }}\nprintln(f())").diagnostics.sorted == ()
    assert checked("mut x = zeros(3)\ncompute(mut x) { for i in 0..N { x[i] = 1.0 } }").diagnostics.sorted == ()


def test_blocks_are_analysed_when_the_whole_file_has_its_types() -> None:
    asked: list[str] = []

    class Analysing(Recording):
        def __call__(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
            asked.append("type")

            def analyse() -> tuple[Diagnostic, ...]:
                asked.append("faults")
                return (Diagnostic("0403", f"a race for {scope['x']}", node.span),)

            return ComputeOutcome(TensorType(F32, StaticShape((3,))), (), analyse)

    (fault, shape) = errors(f"def f(x) {{ compute(x) {BODY} }}\nlet y = f(zeros(3)) + zeros(4)\nf(zeros(3))", Analysing())
    assert asked == ["type", "type", "faults", "faults"]
    assert (fault.code, fault.message, fault.others) == ("0403", "a race for ?", ())
    assert shape.code == "0301"


def test_a_fault_of_analysis_names_the_call_of_a_generic_function() -> None:
    class Racing(Recording):
        def __call__(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
            races = str(scope["x"]) == "tensor[4, f32]"
            return ComputeOutcome(UNKNOWN, (), lambda: (Diagnostic("0403", "a race", node.span),) if races else ())

    (fault,) = errors(f"def f(x) {{ compute(x) {BODY} }}\nf(zeros(3))\nf(zeros(4))", Racing())
    assert [label.text for label in fault.others] == ["called here with (tensor[4, f32])"]
