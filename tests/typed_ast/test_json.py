"""The tree as JSON and back."""

import json
import math
from pathlib import Path

import pytest

from compiler.source import Span
from compiler.typed_ast import kernel, nodes, types
from compiler.typed_ast.json import from_data, from_json, to_data, to_json
from tests.typed_ast.checking import checked

PROGRAMS = sorted((Path(__file__).parents[2] / "programs" / "zynml").glob("*.zynml"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_typed_program_loads_back_equal(path: Path) -> None:
    program = checked(path.read_text(encoding="utf-8")).program
    assert from_json(to_json(program)) == program
    assert from_json(to_json(program, indent=1)) == program


def test_the_metadata_of_a_block_loads_back_equal() -> None:
    annotations = '@kernel(conv2d, stride=s, padding=(1, 2)) @device("cuda:1") @tile(m=64)'
    text = f"let x = zeros(3)\nlet y = compute(x) {annotations} {{ for i in 0..N {{ out[i] = x[i] }} }}"
    program = checked(text).program
    loaded = from_json(to_json(program))
    assert loaded == program
    block = loaded.statements[1].value
    assert block.kernel.option("padding") == (1, 2)
    assert isinstance(block.kernel.option("stride"), nodes.Name)
    assert block.kernel.device == types.DeviceTarget(types.DeviceKind.CUDA, 1)
    assert block.kernel.hints.tile == (("m", 64),)


ONE_OF_EACH = [
    types.TensorType(types.F32, types.StaticShape((2, 3)), types.CPU),
    types.TensorType(types.UNKNOWN, types.DynamicShape(2, (None, 4096))),
    types.TensorType(types.I64, types.SymbolicShape((types.ShapeExpr((("N", 2),), 1), None))),
    types.DevicePointer(types.F32, types.AddressSpace.SHARED),
    types.SharedArray(types.F32, (4, types.ShapeExpr.of("F"))),
    types.WarpValue(types.I64),
    types.FunctionType((types.STRING, types.CHAR), types.NEVER),
    types.DictType(types.STRING, types.SetType(types.OptionType(types.ResultType(types.UNIT, types.ERROR)))),
    types.FutureType(types.StructType("P", (types.RANGE,))),
    types.TupleType((types.WEAK_INT, types.ListType(types.BOOL))),
    types.DeviceTarget(types.DeviceKind.CUDA, 1, (9, 0)),
    kernel.KernelMetadata(kernel.KernelType.REDUCE, options=(("op", "+"), ("axis", (0, 1)), ("keepdims", True), ("scale", 0.5))),
    kernel.KernelMetadata(parallel=kernel.DataParallel((types.CPU, types.DeviceTarget(types.DeviceKind.CUDA, 1)), 1, Span("a.zynml", 3, 4))),
    kernel.ExecutionConstraints(no_allocation=True, target_latency_ns=500),
    nodes.FloatLiteral(value=math.inf),
    nodes.IntLiteral(value=10**40, suffix="u8"),
    nodes.StringLiteral(value='ü"\\\n\u2028'),
    nodes.FString(parts=(nodes.FStringPart(text="a"), nodes.FStringPart(value=nodes.Name(name="x"), format=">8"))),
    nodes.Import(form=nodes.ImportForm.NAMES, module=("a", "b"), names=("c",)),
    nodes.Function(name="f", visibility=kernel.Visibility.PRIVATE, compile_target=kernel.CompileTarget.GPU),
    nodes.Name(name="x", span=Span("a file.zynml", 3, 4)),
]


@pytest.mark.parametrize("value", ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_a_value_loads_back_equal(value: object) -> None:
    assert from_json(to_json(value)) == value


def test_every_class_of_the_tree_can_be_saved_and_loaded() -> None:
    import attrs

    for module in (nodes, types, kernel):
        for cls in vars(module).values():
            if not (isinstance(cls, type) and attrs.has(cls) and cls.__module__.startswith(module.__name__)):
                continue
            value = cls(**{f.alias: _sample(cls, f.name) for f in attrs.fields(cls) if f.default is attrs.NOTHING})
            assert from_json(to_json(value)) == value, cls.__name__


def _sample(cls: type, name: str) -> object:
    literals = {"IntLiteral": 3, "BoolLiteral": True, "StringLiteral": "a", "FloatLiteral": 0.5, "SizeSyntax": 3}
    if name == "value" and cls.__name__ in literals:
        return literals[cls.__name__]
    samples: dict[str, object] = {
        "name": "n",
        "value": nodes.Name(name="v"),
        "body": nodes.Block(),
        "then": nodes.Block(),
        "dtype": types.DType.F16,
        "kind": types.DeviceKind.CPU,
        "dims": (),
        "elements": (types.I64,),
        "parameters": (types.I64,),
        "form": nodes.ImportForm.MODULE,
        "numerator": types.ShapeExpr.of("N") + 31,
        "divisor": 32,
        "element": types.F32,
        "key": types.STRING,
        "error": types.STRING,
        "pointee": types.F32,
        "pattern": nodes.WildcardPattern(),
        "target": nodes.NamedTypeSyntax(name="T"),
        "result": nodes.NamedTypeSyntax(name="T"),
        "type_syntax": nodes.NamedTypeSyntax(name="T"),
        "function": nodes.Name(name="f"),
    }
    words = {"operator": "+", "text": "3", "unit": "ms", "suffix": "u8", "feature": "`later`", "path": "p.zynml"}
    return samples.get(name, words.get(name, nodes.Name(name=name)))


def test_saved_text_is_plain_json_that_names_its_classes() -> None:
    data = json.loads(to_json(nodes.Binary(operator="+", left=nodes.IntLiteral(value=1), right=nodes.Name(name="x"), type=types.I64)))
    assert data == {
        "is": "Binary",
        "type": {"is": "Scalar", "dtype": {"is": "DType", "value": "i64"}},
        "operator": "+",
        "left": {"is": "IntLiteral", "value": 1},
        "right": {"is": "Name", "name": "x"},
    }


@pytest.mark.parametrize(
    "data", ["text", [1, 2], {"is": "Nothing"}, {"no": "tag"}, {"is": "Name"}, {"is": "DType", "value": "f7"}, {"is": "Binary", "left": 3}]
)
def test_what_is_no_saved_tree_is_refused(data: object) -> None:
    with pytest.raises(ValueError):
        from_data(data)


def test_data_and_text_agree() -> None:
    name = nodes.Name(name="x")
    assert json.loads(to_json(name)) == to_data(name)
