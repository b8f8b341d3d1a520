"""Textbook nests on a GPU against what people use there: PyTorch with cuBLAS, cuDNN and CUB behind it.

    python -m bench.gpu [--only matmul,softmax] [--rounds 7] [--json FILE]

Ours and the peer run in turn, in one process, on the same tensors; answers are compared first, against float64 where that fits, else
against the peer. The ratio is the peer's time over ours, the median of the rounds (above 1: we are faster). Times are between events
on the device."""

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import Factory, define

import zynml

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


@define
class Row:
    """`work`: operations or bytes of one call, in `unit`s of 1e12 a second. `reference`: the answer in float64, or None: the peer's."""

    name: str
    source: str
    inputs: Sequence[Any]
    peer: Callable[..., Any]
    work: float
    unit: str
    tolerance: float
    reference: Callable[..., Any] | None = None
    notes: dict[str, Any] = Factory(dict)


def matmul(a: str = "A[i, k]", b: str = "B[k, j]", types: str = "bf16", zero: str = "0.0", shapes: str = "M, K|K, N") -> str:
    left, right = shapes.split("|")
    return f"""
def f(A: tensor[{left}, {types}], B: tensor[{right}, {types}]) {{
    compute(A, B) @kernel(matmul) {{
        for i in 0..M, j in 0..N:
            var s = {zero}
            for k in 0..K: s += {a} * {b}
            out[i, j] = s
    }}
}}"""


FUSED = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16], bias: tensor[N, bf16]) {
    compute(A, B, bias) @kernel(matmul) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            let x = s + bias[j]
            out[i, j] = 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    }
}"""

BATCHED = """
def f(A: tensor[B, M, K, bf16], C: tensor[B, K, N, bf16]) {
    compute(A, C) @kernel(batched_matmul) {
        for b in 0..B, i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[b, i, k] * C[b, k, j]
            out[b, i, j] = s
    }
}"""

def convolution(stride: int, padding: int) -> str:
    return f"""
def f(X: tensor[N, H, W, C, bf16], F: tensor[K, R, S, C, bf16]) {{
    compute(X, F) -> tensor[N, Y, Z, K, bf16] @kernel(conv2d, stride={stride}, padding={padding}) {{
        for n in 0..N, y in 0..Y, x in 0..Z, k in 0..K:
            var s = 0.0
            for r in 0..R, q in 0..S:
                let i = y * stride + r - padding
                let j = x * stride + q - padding
                for c in 0..C:
                    if i >= 0 and i < H and j >= 0 and j < W:
                        s += X[n, i, j, c] * F[k, r, q, c]
            out[n, y, x, k] = s
    }}
}}"""


LAYERS = (
    (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (56, 256, 512, 1, 2), (56, 128, 128, 3, 2),
    (28, 128, 128, 3, 1), (28, 512, 128, 1, 1), (28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (14, 256, 1024, 1, 1), (7, 512, 512, 3, 1),
)  # fmt: skip
"""Of ResNet-50, beyond the first: pixels a side, channels, filters, taps a side, stride."""


ATTENTION = """
def f(Q: tensor[B, H, M, D, bf16], K: tensor[B, H, N, D, bf16], V: tensor[B, H, N, D, bf16], scale: f32) {
    compute(Q, K, V, scale) @kernel(attention) {
        for b in 0..B, h in 0..H, i in 0..M, d in 0..D:
            var m = -inf
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[b, h, i, e] * K[b, h, j, e]
                m = max(m, s * scale)
            var l = 0.0
            var o = 0.0
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[b, h, i, e] * K[b, h, j, e]
                let p = exp(s * scale - m)
                l += p
                o += p * V[b, h, j, d]
            out[b, h, i, d] = o / l
    }
}"""

GELU = """
def f(x: tensor[N]) {
    compute(x) {
        for i in 0..N: out[i] = 0.5 * x[i] * (1.0 + tanh(0.7978845608 * (x[i] + 0.044715 * x[i] * x[i] * x[i])))
    }
}"""
ADD = "def f(x: tensor[N], y: tensor[N]) { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }"
TOTAL = "def f(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }"
ROWS = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(+, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }"
COLUMNS = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(+, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] } }"
ARGMAX = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(argmax, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) } }"
TRANSPOSE = "def f(x: tensor[M, N, bf16]) { compute(x) { for j in 0..N, i in 0..M: out[j, i] = x[i, j] } }"
SCAN = "def f(x: tensor[N]) { compute(x) @kernel scan(+) { for i in 0..N: yield x[i] } }"
SORT = "def f(x: tensor[N, i32]) { compute(x) @kernel(sort) { for i in 0..N: yield x[i] } }"


def chain(types: str) -> dict[str, str]:
    head = f"def f(x: tensor[M, N, {types}]) {{ compute(x) -> tensor[M, N, {types}] {{ for i in 0..M {{\n"
    tail = "\n} } }"
    return {
        "softmax": head
        + """var m = -inf
            for j in 0..N: m = max(m, x[i, j])
            var s = 0.0
            for j in 0..N: s += exp(x[i, j] - m)
            for j in 0..N: out[i, j] = exp(x[i, j] - m) / s"""
        + tail,
        "rms norm": head
        + """var s = 0.0
            for j in 0..N: s += x[i, j] * x[i, j]
            let r = rsqrt(s / (N as f32) + 0.00001)
            for j in 0..N: out[i, j] = x[i, j] * r"""
        + tail,
        "layer norm": head
        + """var t = 0.0
            for j in 0..N: t += x[i, j]
            let mean = t / (N as f32)
            var s = 0.0
            for j in 0..N: s += (x[i, j] - mean) * (x[i, j] - mean)
            let r = rsqrt(s / (N as f32) + 0.00001)
            for j in 0..N: out[i, j] = (x[i, j] - mean) * r"""
        + tail,
    }


def rows(scale: int) -> list[Row]:
    """All cases; `scale` divides the largest extents."""
    gpu = torch.device("cuda")
    generator = torch.Generator(device=gpu).manual_seed(7)

    def normal(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device=gpu, generator=generator, dtype=torch.float32).to(dtype)

    bf16, f32 = torch.bfloat16, torch.float32
    found: list[Row] = []

    def product(name: str, m: int, n: int, k: int, dtype: Any, types: str, tolerance: float) -> None:
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        reference = (lambda a, b: a.double() @ b.double()) if m * n * k <= 4096**3 else None
        found.append(Row(name, matmul(types=types), [a, b], torch.matmul, 2 * m * n * k, "TFLOP/s", tolerance, reference))

    big = 8192 // scale
    product(f"matmul bf16 {big}^3", big, big, big, bf16, "bf16", 8e-3)
    product(f"matmul bf16 {big // 2}^3", big // 2, big // 2, big // 2, bf16, "bf16", 8e-3)
    product("matmul bf16 1024^3", 1024, 1024, 1024, bf16, "bf16", 8e-3)
    product(f"matmul f32 {big // 2}^3", big // 2, big // 2, big // 2, f32, "f32", 5e-6)
    for m in (1, 8, 16, 64):
        product(f"matmul bf16 {m}x{big // 2}x{big // 2}", m, big // 2, big // 2, bf16, "bf16", 8e-3)
    product("matmul bf16 4000x4104x4040", 4000, 4104, 4040, bf16, "bf16", 8e-3)
    for hidden, inner in ((2048, 5632), (4096, 11008), (8192, 28672)):
        product(f"matmul bf16 4096 tokens, {hidden} to {inner}", 4096, inner, hidden, bf16, "bf16", 8e-3)
    a, b = (torch.randint(-8, 8, (big, big), device=gpu, generator=generator, dtype=torch.int8) for _ in range(2))
    bytes_source = matmul(b="B[j, k]", types="i8", zero="0", shapes="M, K|N, K")
    bytes_peer = lambda a, b: torch._int_mm(a, b.t())  # noqa: E731
    found.append(Row(f"matmul i8 {big}^3, B as [N, K]", bytes_source, [a, b], bytes_peer, 2 * big**3, "TOP/s", 0.0))
    a, b, row = normal(big, big, dtype=bf16), normal(big, big, dtype=bf16), normal(big, dtype=bf16)
    plain = lambda a, b, row: torch.matmul(a, b)  # noqa: E731
    exact = lambda a, b, row: torch.nn.functional.gelu((a.float() @ b.float()) + row.float(), approximate="tanh")  # noqa: E731
    name = f"bias and gelu in matmul bf16 {big}^3, against matmul"
    found.append(Row(name, FUSED, [a, b, row], plain, 2 * big**3, "TFLOP/s", 8e-3, exact))
    a, b = normal(512, 128, 128, dtype=bf16), normal(512, 128, 128, dtype=bf16)
    found.append(Row("batched 512x128^3 bf16", BATCHED, [a, b], torch.matmul, 2 * 512 * 128**3, "TFLOP/s", 8e-3))

    def layer(name: str, images: int, side: int, channels: int, filters: int, taps: int, stride: int) -> None:
        x, w = normal(images, side, side, channels, dtype=bf16), normal(filters, taps, taps, channels, dtype=bf16)

        def cudnn(x: Any, w: Any) -> Any:
            last = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=stride, padding=taps // 2)
            return last.permute(0, 2, 3, 1)

        work = 2 * images * (side // stride) ** 2 * channels * filters * taps**2
        found.append(Row(f"{name} {taps}x{taps} NHWC bf16", convolution(stride, taps // 2), [x, w], cudnn, work, "TFLOP/s", 8e-3))

    layer("conv2d 32x56x56x256", 32, 56, 256, 256, 3, 1)
    for side, channels, filters, taps, stride in LAYERS:
        step = f", every {stride}." if stride > 1 else ""
        layer(f"resnet conv2d 32x{side}x{side}x{channels} to {filters}{step}", 32, side, channels, filters, taps, stride)
    for d in (64, 128):
        q, k, v = (normal(4, 16, 4096 // scale, d, dtype=bf16) for _ in range(3))
        found.append(
            Row(
                f"attention bf16 4x16x{4096 // scale}x{d}",
                ATTENTION,
                [q, k, v, d**-0.5],
                lambda q, k, v, s: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=s),
                4 * 4 * 16 * (4096 // scale) ** 2 * d,
                "TFLOP/s",
                1e-2,
            )
        )
    n = (1 << 28) // scale**2
    x, y = normal(n), normal(n)
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")  # noqa: E731
    found.append(Row(f"gelu {n} f32", GELU, [x], gelu, 8 * n, "TB/s", 3e-6))
    found.append(Row(f"add {n} f32", ADD, [x, y], torch.add, 12 * n, "TB/s", 1e-7))
    found.append(Row(f"sum {n} f32", TOTAL, [x], torch.sum, 4 * n, "TB/s", 1e-2))
    wide = normal(8192 // scale, 32768 // scale)
    count = wide.numel()
    found.append(Row(f"row sums {tuple(wide.shape)} f32", ROWS, [wide], lambda x: x.sum(1), 4 * count, "TB/s", 1e-5))
    found.append(Row(f"column sums {tuple(wide.shape)} f32", COLUMNS, [wide], lambda x: x.sum(0), 4 * count, "TB/s", 1e-5))
    found.append(Row(f"argmax of rows {tuple(wide.shape)} f32", ARGMAX, [wide], lambda x: x.max(1), 4 * count, "TB/s", 0.0))
    peers = {
        "softmax": lambda x: torch.softmax(x, 1),
        "rms norm": lambda x: torch.nn.functional.rms_norm(x, x.shape[1:], eps=1e-5),
        "layer norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[1:], eps=1e-5),
    }
    for dtype, types, tolerance in ((bf16, "bf16", 8e-3), (f32, "f32", 1e-5)):
        square = normal(big, big, dtype=dtype)
        for name, source in chain(types).items():
            moved = 2 * square.numel() * square.element_size()
            found.append(Row(f"{name} {big}^2 {types}", source, [square], peers[name], moved, "TB/s", tolerance))
    square = normal(big, big, dtype=bf16)
    found.append(Row(f"transpose {big}^2 bf16", TRANSPOSE, [square], lambda x: x.T.contiguous(), 4 * square.numel(), "TB/s", 0.0))
    found.append(Row(f"scan {n} f32", SCAN, [x], lambda x: torch.cumsum(x, 0), 8 * n, "TB/s", 1e-2))
    few = (1 << 24) // scale
    keys = torch.randint(-(2**31), 2**31 - 1, (few,), device=gpu, dtype=torch.int32, generator=generator)
    found.append(Row(f"sort {few} i32", SORT, [keys], lambda x: torch.sort(x).values, few, "T keys/s", 0.0))
    return found


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Of one call, on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / repeats


def host_seconds(call: Callable[[], Any], repeats: int = 200) -> float:
    """Of one call, until it returns: what the host needs for it while the device is busy with those before."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    passed = time.perf_counter() - began
    torch.cuda.synchronize()
    return passed / repeats


def error(ours: Any, wanted: Any) -> float:
    """The norm of the difference over the norm of what is wanted."""
    ours, wanted = (torch.as_tensor(v).double() for v in (ours, wanted))
    ours = ours.to(wanted.device)
    if not torch.isfinite(ours).all():
        return float("nan")
    return float((ours - wanted).norm() / wanted.norm().clamp_min(1e-300))


def as_torch(value: Any) -> Any:
    return torch.from_dlpack(value) if hasattr(value, "__dlpack__") else torch.as_tensor(value)


def measure(row: Row, rounds: int) -> dict[str, Any]:
    began = time.perf_counter()
    program = zynml.compile(row.source, device="cuda:0")
    first = program.f(*row.inputs)
    torch.cuda.synchronize()
    compiled = time.perf_counter() - began
    wanted = (row.reference or row.peer)(*row.inputs)
    pairs = list(zip(first, wanted, strict=True)) if isinstance(first, tuple) else [(first, wanted)]
    worst = max(error(as_torch(a), b) for a, b in pairs)
    del first, wanted, pairs
    ours, peer = (lambda: program.f(*row.inputs)), (lambda: row.peer(*row.inputs))
    single = seconds(ours, 1)
    repeats = max(1, min(20, int(0.05 / max(single, 1e-5))))
    rounds = rounds if single < 0.1 else 3
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        for name, call in (("ours", ours), ("peer", peer)):
            seconds(call, 1)
            times[name].append(seconds(call, repeats))
    ratios = [b / a for a, b in zip(times["ours"], times["peer"], strict=True)]
    least = statistics.median(times["ours"])
    # more calls of longer kernels fill the device's queue, and would wait for it
    host = {name: host_seconds(call) for name, call in (("ours", ours), ("peer", peer))} if least < 1e-4 else {}
    return {
        "workload": row.name,
        "ours_ms": least * 1e3,
        "peer_ms": statistics.median(times["peer"]) * 1e3,
        "ratio": statistics.median(ratios),
        "ratio_spread": [min(ratios), max(ratios)],
        "rate": row.work / least / 1e12,
        "unit": row.unit,
        "error": worst,
        "right": bool(worst <= row.tolerance),
        "host_us": {name: 1e6 * passed for name, passed in host.items()},
        "first_call_s": compiled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=int, default=1, help="divides the largest extents")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = [word for word in options.only.split(",") if word]
    results = []
    for row in rows(options.scale):
        if wanted and not any(word in row.name for word in wanted):
            continue
        try:
            found = measure(row, options.rounds)
        except Exception as error:
            found = {"workload": row.name, "failed": f"{type(error).__name__}: {error}"[:400]}
        results.append(found)
        if "failed" in found:
            print(f"{row.name:42} FAILED {found['failed']}", flush=True)
        else:
            right = "" if found["right"] else "  WRONG"
            host = "".join(f"  {name} {microseconds:.1f} us" for name, microseconds in found["host_us"].items())
            print(
                f"{row.name:42} {found['ours_ms']:9.3f} ms  peer {found['peer_ms']:9.3f}  ratio {found['ratio']:6.3f}  "
                f"{found['rate']:8.2f} {found['unit']}  error {found['error']:.1e}{right}{host and '  host:' + host}",
                flush=True,
            )
    if options.json:
        device = torch.cuda.get_device_properties(0)
        options.json.write_text(
            json.dumps(
                {
                    "device": device.name,
                    "torch": torch.__version__,
                    "cuda": torch.version.cuda,
                    "date": datetime.date.today().isoformat(),
                    "command": "python -m bench.gpu",
                    "rows": results,
                },
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
