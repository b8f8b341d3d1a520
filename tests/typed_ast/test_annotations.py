"""What annotations say, as KernelMetadata. Their errors are in messages/."""

import pytest

from compiler.typed_ast import nodes
from compiler.typed_ast.annotations import kernel_metadata, workgroup_that_fits
from compiler.typed_ast.kernel import KernelMetadata, KernelType
from compiler.typed_ast.types import CPU, DeviceKind, DeviceTarget
from tests.typed_ast.checking import checked


def metadata(annotations: str, body: str = "for i in 0..N { out[i] = x[i] }") -> KernelMetadata:
    program = checked(f"let x = zeros(3)\nlet y = compute(x) {annotations} {{ {body} }}").program
    value = program.statements[-1].value  # type: ignore[attr-defined]
    assert value.kernel is not None
    return value.kernel


@pytest.mark.parametrize("kind", KernelType, ids=lambda kind: kind.value)
def test_every_kind_is_known(kind: KernelType) -> None:
    assert metadata(f"@kernel({kind.value})").kernel_type is kind
    assert metadata(f"@kernel {kind.value}").kernel_type is kind


def test_depthwise_is_another_name() -> None:
    assert metadata("@kernel(depthwise)").kernel_type is KernelType.CONV2D_DEPTHWISE


def test_nothing_is_promised_without_an_annotation() -> None:
    assert metadata("") == KernelMetadata()


@pytest.mark.parametrize(
    ("annotation", "options"),
    [
        ("@kernel(reduce)", {}),
        ("@kernel(reduce, +)", {"op": "+"}),
        ("@kernel reduce(+)", {"op": "+"}),
        ("@kernel(reduce, argmax, axis=1)", {"op": "argmax", "axis": 1}),
        ("@kernel(reduce, or, axis=(0, 2), keepdims=true)", {"op": "or", "axis": (0, 2), "keepdims": True}),
        ("@kernel(reduce, op=min, axis=-1)", {"op": "min", "axis": -1}),
        ("@kernel(scan, *, axis=1, exclusive=true, reverse=false)", {"op": "*", "axis": 1, "exclusive": True, "reverse": False}),
        ("@kernel(sort, axis=0, descending=true)", {"axis": 0, "descending": True}),
        ("@kernel(conv2d, stride=2, padding=(1, 2), dilation=1, groups=4)", {"stride": 2, "padding": (1, 2), "dilation": 1, "groups": 4}),
        ("@kernel(depthwise, stride=2)", {"stride": 2}),
        ("@kernel(attention, causal=true)", {"causal": True}),
    ],
)
def test_options_are_plain_values(annotation: str, options: dict[str, object]) -> None:
    assert dict(metadata(annotation).options) == options


def test_an_option_that_is_no_constant_stays_an_expression() -> None:
    assert isinstance(metadata("@kernel(conv2d, stride=s)").option("stride"), nodes.Name)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("cpu", CPU),
        ("cuda", DeviceTarget(DeviceKind.CUDA, 0)),
        ("cuda:1", DeviceTarget(DeviceKind.CUDA, 1)),
        ("auto", DeviceTarget(DeviceKind.AUTO)),
    ],
)
def test_devices(text: str, device: DeviceTarget) -> None:
    assert metadata(f'@device("{text}")').device == device
    assert metadata(f'@device("cuda", fallback="{text}")').fallback == device


def test_sizes_and_hints() -> None:
    found = metadata(
        "@workgroup(16, z=2) @grid(4, 5) @shared(48KB) @tile(m=64, k=8) @tensor_cores(off) @warps(4) @registers(64) @cluster(2) "
        '@pipeline(stages=3) @precision(acc=f32, products=tf32) @name("k") @atomics(relaxed) @trace @broadcast(a, axis=1) @broadcast(b, axis=(0, 1))'
    )
    assert found.workgroup_size == (16, 1, 2)
    assert found.grid_size == (4, 5, 1)
    assert found.shared_memory_bytes == 48 * 1024
    assert found.max_registers == 64
    assert (found.name, found.trace) == ("k", True)
    assert found.broadcast == (("a", (1,)), ("b", (0, 1)))
    hints = found.hints
    assert (hints.tile, hints.use_tensor_cores, hints.warps, hints.cluster) == ((("m", 64), ("k", 8)), False, 4, 2)
    assert (hints.pipeline_stages, hints.accumulator, hints.products, hints.relaxed) == (3, "f32", "tf32", True)


def test_the_same_bits_in_every_run() -> None:
    assert metadata("@deterministic").hints.deterministic


@pytest.mark.parametrize("rule", ("contract", "strict"))
def test_what_may_be_done_with_floats(rule: str) -> None:
    found = metadata(f"@precision(acc=f64, floats={rule})")
    assert (found.hints.floats, found.hints.accumulator, found.strict) == (rule, "f64", rule == "strict")
    assert metadata("").hints.floats is None


def test_annotations_first_in_the_body_count() -> None:
    found = metadata("", "@kernel reduce(max)\n @workgroup(64)\n for i in 0..N: yield x[i]")
    assert (found.kernel_type, found.option("op"), found.workgroup_size) == (KernelType.REDUCE, "max", (64, 1, 1))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1024, 1, 1), (32, 32, 1), (4, 4, 64)])
def test_a_workgroup_within_the_limits_stays(sizes: tuple[int, int, int]) -> None:
    assert workgroup_that_fits(*sizes) == sizes


@pytest.mark.parametrize("sizes", [(1025, 1, 1), (64, 64, 1), (1, 1, 65), (100, 100, 100), (2**40, 2**40, 2**40)])
def test_a_workgroup_that_fits_is_within_the_limits(sizes: tuple[int, int, int]) -> None:
    x, y, z = workgroup_that_fits(*sizes)
    assert 0 < x * y * z <= 1024
    assert z <= 64


def test_all_faults_of_a_block_are_found() -> None:
    compute = nodes.Compute(
        body=nodes.Block(),
        annotations=(nodes.Annotation(name="kernal"), nodes.Annotation(name="workgroup"), nodes.Annotation(name="shape")),
    )
    _, faults = kernel_metadata(compute)
    assert [fault.code for fault in faults] == ["0401", "0204", "0204"]
