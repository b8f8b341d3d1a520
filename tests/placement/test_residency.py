"""Tensors stay where they were computed or put until somebody needs them elsewhere: copies are counted at the driver."""

import numpy as np
import pytest

from runtime.tensor import Tensor

CHAIN = """
let x = arange(0, 100)
let a = compute(x) @device("cuda") { for i in 0..N: out[i] = x[i] + 1.0 }
let b = compute(a) @device("cuda") { for i in 0..N: out[i] = a[i] * 2.0 }
let c = compute(b, x) @device("cuda") { for i in 0..N: out[i] = b[i] - x[i] }
def between() { (a, b) }  // what a function names is computed by a kernel of its own
"""


def test_results_stay_on_the_device_between_blocks(machine) -> None:
    machine.run(CHAIN)
    assert machine.copies == {"in": 1, "out": 0}  # `x` for the first block; the third finds it there


def test_what_was_put_there_is_copied_once(machine) -> None:
    machine.run(CHAIN.replace("arange(0, 100)", 'arange(0, 100).to_device("cuda:0")'))
    assert machine.copies == {"in": 1, "out": 0}


@pytest.mark.parametrize(
    "reader",
    [
        "println(c)",
        "println(sum(c))",
        "println(c[3])",
        "println(c.to_list())",
        "println((c[0:3] as tensor[?, i32]).max())",
        "println(c.log10())",
        "println(f\"{c}\")",
        "save(\"out.npy\", c)",
        "let s = sort(c)",
    ],
)
def test_readers_fetch_once_and_leave_it_there(machine, reader, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = machine.run(f"{CHAIN}\n{reader}\n{reader.replace('let s', 'let s2')}\nprintln(c.device())\n")
    assert machine.copies == {"in": 1, "out": 1}
    assert ran.output.endswith("cuda:0\n")


@pytest.mark.parametrize("reader", ["println(c.exp())", "println(c == c)", "println((c + 1.0).max())", "println(concat(c, c).clone())", "println(c.sum(axis=0))"])
def test_what_a_kernel_reads_is_not_fetched(machine, reader) -> None:
    ran = machine.run(f"{CHAIN}\n{reader}\nprintln(c.device())\n")
    assert machine.copies == {"in": 1, "out": 1}  # the value alone
    assert ran.output.endswith("cuda:0\n")


def test_shapes_cost_nothing(machine) -> None:
    ran = machine.run(CHAIN + "println(c.shape(), c.ndim(), c.numel(), c.dtype(), len(c), c.device())\n")
    assert ran.output == "[100] 1 100 f32 100 cuda:0\n" and machine.copies["out"] == 0


def test_a_writer_brings_it_to_the_host(machine) -> None:
    ran = machine.run(
        CHAIN.replace("let c", "mut c")
        + """
println(c[0], c.device())
c[0] = 5.0
println(c[0], c.device())
let d = compute(c) @device("cuda") { for i in 0..N: out[i] = c[i] + 0.5 }
println(d[0], d[1])
"""
    )
    assert ran.output == "2.0 cuda:0\n5.0 cpu\n5.5 3.5\n"


def test_views_are_taken_on_the_host_and_written_through(machine) -> None:
    ran = machine.run(
        CHAIN.replace("let c", "mut c")
        + """
mut v = c[0:2]
v[1] = 9.0
println(c[0:3], c.device())
let d = compute(c) @device("cuda") { for i in 0..N: out[i] = c[i] }
println(d[1])
"""
    )
    assert ran.output == "tensor([2.0, 9.0, 4.0], shape=[3], dtype=f32) cpu\n9.0\n"


def test_an_update_stays_on_the_device(machine) -> None:
    ran = machine.run(
        """
mut d = arange(0, 4).to_device("cuda:0")
for k in 0..3:
    compute(mut d) { for i in 0..N: d[i] = d[i] + 1.0 }
println(d.device())
println(d, d.device())
"""
    )
    assert ran.output == "cuda:0\ntensor([3.0, 4.0, 5.0, 6.0], shape=[4], dtype=f32) cuda:0\n"
    assert machine.copies == {"in": 1, "out": 1}


def test_an_update_of_what_was_read_is_read_anew(machine) -> None:
    ran = machine.run(
        """
mut d = zeros(2, device="cuda:0")
println(d)
compute(mut d) { for i in 0..N: d[i] = d[i] + 1.0 }
println(d)
"""
    )
    assert ran.output == "tensor([0.0, 0.0], shape=[2], dtype=f32)\ntensor([1.0, 1.0], shape=[2], dtype=f32)\n"


@pytest.mark.parametrize("dtype", ["bool", "i8", "u64", "f16", "bf16", "f64"])
@pytest.mark.parametrize("shape", ["[0]", "[1]", "[3, 33]", "[2, 0, 3]"])
def test_there_and_back(machine, dtype, shape) -> None:
    ran = machine.run(
        f"let x = ones({shape}, dtype={dtype})\n"
        'let y = x.to_device("cuda:0")\n'
        'let z = y.to_device("cpu")\n'
        "println(x.device(), y.device(), z.device(), all(x == z), z.dtype(), z.shape() == x.shape())\n"
    )
    assert ran.output == f"cpu cuda:0 cpu true {dtype} true\n"


def test_a_scalar_tensor_travels(machine) -> None:
    assert machine.run('let y = tensor(2.5).to_device("cuda:0")\nprintln(y.item(), y.shape(), y.device())\n').output == "2.5 [] cuda:0\n"


@pytest.mark.parametrize("gpus", [2])
def test_from_one_gpu_to_another(machine) -> None:
    ran = machine.run('let x = arange(0, 3).to_device("cuda:0")\nlet y = x.to_device("cuda:1")\nprintln(x.device(), y.device(), y)\n')
    assert ran.output == "cuda:0 cuda:1 tensor([0.0, 1.0, 2.0], shape=[3], dtype=f32)\n"


def test_itself_when_it_lies_there(machine) -> None:
    ran = machine.run(
        """
mut x = zeros(2)
mut y = x.to_device("cpu")
y[0] = 1.0
let g = x.to_device("cuda:0")
let h = g.to_device("cuda:0")
println(x[0], h.device())
"""
    )
    assert ran.output == "1.0 cuda:0\n" and machine.copies == {"in": 1, "out": 0}


@pytest.mark.parametrize(
    "made",
    ["zeros(3)", "ones([3])", "full(3, 2.0)", "eye(3)", "arange(0, 3)", "arange(0.5, 3.0)", "linspace(0, 1, 3)", "tensor([1, 2])"],
)
def test_tensors_are_made_on_a_device(machine, made) -> None:
    there = made[:-1] + ', device="cuda:0")'
    ran = machine.run(f"let x = {there}\nlet d = x.device()\nprintln(d, all(x == {made}))\n")
    assert ran.output == "cuda:0 true\n"


def test_random_numbers_are_the_same_on_every_device(machine) -> None:
    text = 'config {{ seed: 3 }}\nlet x = {name}(5{device})\nprintln(x)\n'
    for name in ("rand", "randn"):
        on_gpu, on_cpu = (machine.run(text.format(name=name, device=device)).output for device in (', device="cuda:0"', ""))
        assert on_gpu == on_cpu


def test_types_say_where_tensors_lie(machine) -> None:
    ran = machine.run(
        """
def there(x: tensor[N] on "cuda:0"): tensor {
    println(x.device())
    compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
}
def back(x: tensor[N]): tensor[N] on "cpu" { x }
mut p: tensor[3] on "cuda:0" = zeros(3)
println(p.device(), there(p).device(), there(ones(2)), back(p).device())
p[0] = 2.0
println(p.device())
println(there(p))
"""
    )
    assert ran.output == (
        "cuda:0\ncuda:0\ncuda:0 cuda:0 tensor([2.0, 2.0], shape=[2], dtype=f32) cpu\n"
        "cpu\ncuda:0\ntensor([3.0, 1.0, 1.0], shape=[3], dtype=f32)\n"
    )


def test_memory_of_devices(machine) -> None:
    ran = machine.run(
        """
let x = allocate([256, 4], dtype=f32, device="cuda:0")
println(x.device(), x.shape(), sum(x))
println(memory_pool("cuda:0", limit=1000000))
let p = allocate(3, pinned=true)
println(p, p.device())
synchronize()
println(compute_devices())
"""
    )
    assert ran.output == (
        'cuda:0 [256, 4] 0.0\n[("in use", 4096), ("idle", 0), ("most", 4096), ("limit", 1000000)]\n'
        'tensor([0.0, 0.0, 0.0], shape=[3], dtype=f32) cpu\n["cpu", "cuda:0"]\n'
    )
    assert len(machine.fake.pinned) == 1


def test_idle_memory_is_given_back(machine) -> None:
    ran = machine.run(
        """
def use() {
    let x = zeros(1000, device="cuda:0")
}
use()
println(memory_pool("cuda:0"))
println(memory_pool("cuda:0", trim=true))
"""
    )
    assert ran.output == '[("in use", 0), ("idle", 4096), ("most", 4096)]\n[("in use", 0), ("idle", 0), ("most", 4096)]\n'


def test_what_allocate_and_memory_pool_refuse(machine, no_gpu) -> None:
    for call, message, hint in (
        ('allocate(3, device="cuda:0", pinned=true)', "there is no device `cuda:0` here", "this machine has no NVIDIA driver; devices here: cpu"),
        ("allocate(3, pinned=true)", "memory is pinned for a GPU, and there is none here", "leave `pinned=` out"),
        ('memory_pool("tpu")', "`tpu` names no device", "devices here: cpu"),
    ):
        found = no_gpu.fails(f"let x = {call}")
        assert found.startswith(f"error[ZYN0501]: {message}\n") and found.endswith(f"\nhint: {hint}")
    assert no_gpu.fails("let x = memory_pool(limit=5)").startswith("error[ZYN0203]: the memory of `cpu` has no limit of its own\n")


def test_what_a_block_updates_moves_there(machine) -> None:
    ran = machine.run(
        """
mut w = rand(40)
let before = w.clone()
for k in 0..5:
    compute(mut w) @device("cuda") { for i in 0..N: w[i] = w[i] + 1.0 }
println(w.device())
println(allclose(w, before + 5.0), w.device())
w[0] = 7.0
println(w.device())
compute(mut w) @device("cuda") { for i in 0..N: w[i] = w[i] + 1.0 }
println(w[0], w.device())
"""
    )
    assert ran.output == "cuda:0\ntrue cuda:0\ncpu\n8.0 cuda:0\n" and machine.copies == {"in": 2, "out": 2}


UPDATE = """
compute(mut w) @device("cuda") { for i in 0..N: w[i] = w[i] + 1.0 }
"""


@pytest.mark.parametrize(
    ("other", "shown"), [("let v = w[1:3]", "[2.0, 3.0]"), ("let v = w.reshape(2, 2)[0]", "[1.0, 2.0]"), ("let (v, _) = (w, 0)", "[1.0, 2.0, 3.0, 4.0]")]
)
def test_what_is_shared_on_the_host_is_written_there(machine, other, shown) -> None:
    """A view sees each update, before and after the tensor has moved."""
    ran = machine.run(f"mut w = arange(0, 4)\n{other}\n{UPDATE}\nprintln(v)\n")
    assert ran.output.startswith(f"tensor({shown}")
    ran = machine.run(f"mut w = arange(0, 4)\n{UPDATE}{other}\n{UPDATE}\nw[0] = 0.5\n{UPDATE}\nprintln(w, v)\n")
    numbers = {"[1.0, 2.0, 3.0, 4.0]": "[1.5, 4.0, 5.0, 6.0]", "[2.0, 3.0]": "[4.0, 5.0]", "[1.0, 2.0]": "[1.5, 4.0]"}
    assert f"tensor({numbers[shown]}, shape=" in ran.output.split(") ")[-1 if shown != numbers else 0]


def test_an_array_of_the_callers_is_updated_where_it_is(machine) -> None:
    functions = machine.open(f"def step(mut w: tensor[N]) {{{UPDATE}}}").host.functions
    mine = np.arange(4, dtype=np.float32)
    tensor = Tensor(mine)
    functions["step"](tensor)
    np.testing.assert_array_equal(mine, np.arange(4) + 1.0)
    own = Tensor(np.arange(4, dtype=np.float32))
    functions["step"](own)
    assert own.remote is not None and machine.copies == {"in": 2, "out": 1}
    seen = np.asarray(own)
    np.testing.assert_array_equal(seen, np.arange(4) + 1.0)
    own.array[0] = 10.0
    functions["step"](own)
    np.testing.assert_array_equal(own.contents, [11.0, 3.0, 4.0, 5.0])


READ = "def total(x: tensor[N]) { compute(x) @device(\"cuda\") { for i in 0..N: out[i] = x[i] * 2.0 } }\n"


def test_a_copy_on_the_device_is_old_when_the_host_may_have_written(machine) -> None:
    total = machine.open(READ).host.functions["total"]

    def doubled(tensor: Tensor) -> list[float]:
        return total(tensor).contents.tolist()

    own = Tensor(np.arange(3, dtype=np.float32))
    assert doubled(own) == doubled(own) == [0.0, 2.0, 4.0] and machine.copies["in"] == 1
    own.array[1] = 5.0
    assert doubled(own) == doubled(own) == [0.0, 10.0, 4.0] and machine.copies["in"] == 2
    seen = np.asarray(own)  # from here on NumPy may write at any time
    assert doubled(own) == [0.0, 10.0, 4.0] and machine.copies["in"] == 3
    seen[0] = 1.0
    assert doubled(own) == [2.0, 10.0, 4.0] and machine.copies["in"] == 4
    interface = own.__array_interface__
    del seen
    assert doubled(own) == [2.0, 10.0, 4.0] and interface["data"][1] is False


def test_copies_go_before_memory_is_short(machine) -> None:
    machine.fake.capacity = 1 << 20
    total = machine.open(READ).host.functions["total"]
    tensors = [Tensor(np.full(30_000, number, np.float32)) for number in range(20)]
    for _ in range(2):
        for number, tensor in enumerate(tensors):
            assert total(tensor).contents[7] == 2.0 * number
    assert 20 < machine.copies["in"] <= 40


@pytest.mark.parametrize("dtype", ["bool", "i8", "u64", "f16", "bf16", "f64", "f32"])
@pytest.mark.parametrize(("made", "uploads"), [("zeros([2, 3]{})", 0), ("ones(5{})", None), ("full([], 1{})", None), ("zeros([0, 2]{})", 0)])
def test_filled_tensors_are_filled_there(machine, dtype, made, uploads) -> None:
    there = made.format(f', dtype={dtype}, device="cuda:0"')
    same = f'all(x.to_device("cpu") == {made.format(f", dtype={dtype}")})'
    ran = machine.run(f"let x = {there}\nlet d = x.device()\nprintln(d, {same})\n")
    assert ran.output == "cuda:0 true\n"
    if uploads is not None or dtype not in ("u64", "f64"):
        assert machine.copies["in"] == 0


def test_views_that_native_functions_give_share_memory(machine) -> None:
    """On the host, and with what a block on a device updates."""
    functions = machine.open(
        f"def part(x: tensor[N], k: int): tensor {{ x[k:] }}\ndef step(mut w: tensor[N]) {{{UPDATE}}}\n" + READ
    ).host.functions
    own = Tensor(np.arange(4, dtype=np.float32))
    for _ in range(3):
        view = functions["part"](own, 2)
    for number in range(2):
        assert functions["total"](own).contents.tolist() == [2.0 * (each + number) for each in range(4)]
        functions["step"](own)
        np.testing.assert_array_equal(view.contents, np.array([3.0, 4.0]) + number)
    view.array[0] = 50.0
    assert functions["total"](own).contents.tolist() == [4.0, 6.0, 100.0, 10.0]
