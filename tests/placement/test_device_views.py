"""Views of tensors on a device lie there, too: a change of one is seen by the other, whoever makes it and wherever. What the programs
print follows from the rule alone; copies are counted at the driver."""

import gc

import pytest

MADE = """
let x = arange(0, 12)
mut a = compute(x) @device("cuda") { for i in 0..N: out[i] = x[i] + 1.0 }
"""
VIEWS = {
    "a.reshape(3, 4)": "tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]], shape=[3, 4], dtype=f32)",
    "a.reshape(2, -1)[1]": "tensor([7.0, 8.0, 9.0, 10.0, 11.0, 12.0], shape=[6], dtype=f32)",
    "a.reshape(3, 4).flatten()[0:3]": "tensor([1.0, 2.0, 3.0], shape=[3], dtype=f32)",
    "a.unsqueeze(0).squeeze()[10:]": "tensor([11.0, 12.0], shape=[2], dtype=f32)",
    "a.view([2, 6])[:, 1:3]": "tensor([[2.0, 3.0], [8.0, 9.0]], shape=[2, 2], dtype=f32)",
    "a.reshape(3, 4).transpose()": "tensor([[1.0, 5.0, 9.0], [2.0, 6.0, 10.0], [3.0, 7.0, 11.0], [4.0, 8.0, 12.0]], shape=[4, 3], dtype=f32)",
    "a.reshape(3, 4).permute(1, 0)[0]": "tensor([1.0, 5.0, 9.0], shape=[3], dtype=f32)",
    "a[::-5]": "tensor([12.0, 7.0, 2.0], shape=[3], dtype=f32)",
    "a.slice(0, 4, 6)": "tensor([5.0, 6.0], shape=[2], dtype=f32)",
    "a.split(3)[2]": "tensor([9.0, 10.0, 11.0, 12.0], shape=[4], dtype=f32)",
    "a[0:1].expand(2, 3)": "tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], shape=[2, 3], dtype=f32)",
    "a.reshape(3, 4)[1, 2:2]": "tensor([], shape=[0], dtype=f32)",
    "a.reshape(2, 6)[:, 0:4].reshape(2, 2, 2)": "tensor([[[1.0, 2.0], [3.0, 4.0]], [[7.0, 8.0], [9.0, 10.0]]], shape=[2, 2, 2], dtype=f32)",
}


@pytest.mark.parametrize(("view", "shown"), VIEWS.items())
def test_a_view_lies_where_the_tensor_lies(machine, view, shown) -> None:
    ran = machine.run(f"{MADE}let v = {view}\nprintln(v.device(), a.device())\n")
    assert ran.output == "cuda:0 cuda:0\n" and machine.copies == {"in": 1, "out": 0}
    assert machine.run(f"{MADE}let v = {view}\nprintln(v)\nprintln(v.device())\n").output == f"{shown}\ncuda:0\n"
    assert machine.copies == {"in": 2, "out": 1}


@pytest.mark.parametrize("view", [view for view in VIEWS if "[1, 2:2]" not in view])
def test_a_block_reads_a_view_where_it_lies(machine, view) -> None:
    rank = VIEWS[view].split("shape=[")[1].split("]")[0].count(",") + 1
    index = ", ".join("ijk"[:rank])
    loops = ", ".join(f"{name} in 0..N{name}" for name in "ijk"[:rank])
    block = f'compute(v) @device("cuda") {{ for {loops}: out[{index}] = v[{index}] }}'
    ran = machine.run(f"{MADE}let v = {view}\nlet w = {block}\nprintln(w.device())\nprintln(w)\n")
    assert ran.output == f"cuda:0\n{VIEWS[view]}\n" and machine.copies == {"in": 1, "out": 1}


@pytest.mark.parametrize("known", ["", "println(a)", "println(v)"])
@pytest.mark.parametrize("where", ["on the device", "on the host", "in a block on the host"])
@pytest.mark.parametrize(("written", "read"), [("a", "v"), ("v", "a")])
def test_a_change_of_one_is_a_change_of_the_other(machine, known, where, written, read) -> None:
    """On either side, before and after the host knew the elements."""
    change = {
        "on the device": f'compute(mut {written}) @device("cuda") {{ for i in 0..N: {written}[i] = {written}[i] * 10.0 }}',
        "on the host": f"for i in 0..{written}.numel(): {written}.set(i, {written}.get(i) * 10.0)",
        "in a block on the host": f'compute(mut {written}) @device("cpu") {{ for i in 0..N: {written}[i] = {written}[i] * 10.0 }}',
    }[where]
    ran = machine.run(f"{MADE}mut v = a.reshape(2, 6)[1]\n{known}\n{change}\nprintln({read})\nprintln(a.device() == v.device())\n")
    changed = range(12) if written == "a" else range(6, 12)
    values = [(number + 1) * (10 if number in changed else 1) for number in range(12)]
    shown = values if read == "a" else values[6:]
    elements = ", ".join(f"{value}.0" for value in shown)
    assert ran.output.splitlines()[-2:] == [f"tensor([{elements}], shape=[{len(shown)}], dtype=f32)", "true"]


def test_changes_here_and_there_in_turn(machine) -> None:
    ran = machine.run(
        MADE
        + """
mut v = a.reshape(3, 4)
mut w = v.transpose()
w[3, 0] = 40.0
compute(mut v) @device("cuda") { for i in 0..M, j in 0..N: v[i, j] = v[i, j] + 0.5 }
a[0] = 100.0
compute(mut a) @device("cuda") { for i in 0..N: a[i] = a[i] * 2.0 }
println(w[0], w[3])
println(a[0:4])
"""
    )
    assert ran.output == (
        "tensor([200.0, 11.0, 19.0], shape=[3], dtype=f32) tensor([81.0, 17.0, 25.0], shape=[3], dtype=f32)\n"
        "tensor([200.0, 5.0, 7.0, 81.0], shape=[4], dtype=f32)\n"
    )


def test_views_made_on_the_host_and_views_made_there_are_one(machine) -> None:
    ran = machine.run(MADE + "mut v = a[2:4]\na[0] = 0.0\nmut w = a[3:5]\nw[0] = -1.0\nv[0] = -2.0\nprintln(a[0:6], v, w)\n")
    assert ran.output == (
        "tensor([0.0, 2.0, -2.0, -1.0, 5.0, 6.0], shape=[6], dtype=f32) tensor([-2.0, -1.0], shape=[2], dtype=f32) "
        "tensor([-1.0, 5.0], shape=[2], dtype=f32)\n"
    )


def test_what_numpy_copies_is_a_copy(machine) -> None:
    ran = machine.run(MADE + "mut v = a.reshape(3, 4).transpose().reshape(12)\nv[0] = 50.0\nprintln(v[0:3], a[0], a.device())\n")
    assert ran.output == "tensor([50.0, 5.0, 9.0], shape=[3], dtype=f32) 1.0 cuda:0\n"


def test_gathers_leave_the_tensor_there(machine) -> None:
    ran = machine.run(MADE + "mut v = a[[0, 2]]\nv[0] = 50.0\nprintln(v, a[a > 10.0], a[0], a.device())\n")
    assert ran.output == (
        "tensor([50.0, 3.0], shape=[2], dtype=f32) tensor([11.0, 12.0], shape=[2], dtype=f32) 1.0 cuda:0\n"
    ) and machine.copies["out"] == 2  # the tensor, and the mask, which is made there


def test_an_update_sees_that_a_view_is_an_input(machine) -> None:
    message = machine.fails(
        MADE + 'let v = a.reshape(12)\ncompute(mut a, v) @device("cuda") { for i in 0..N: a[i] = v[N - 1 - i] }\n'
    )
    assert message.startswith("error[ZYN0813]: `a`, which this block updates, shares memory with `v`")


def test_an_expanded_view_cannot_be_updated(machine) -> None:
    message = machine.fails(MADE + 'mut v = a[0:1].expand(3)\ncompute(mut v) @device("cuda") { for i in 0..N: v[i] = 1.0 }\n')
    assert message.startswith("error[ZYN0807]: `v` can't be updated: its memory is read-only")


def test_futures_read_what_was_there(machine) -> None:
    ran = machine.run(
        MADE
        + """
mut v = a.reshape(3, 4)
let later = compute(v) @async @device("cuda") { for i in 0..M, j in 0..N: out[i, j] = v[i, j] * 2.0 }
compute(mut a) @device("cuda") { for i in 0..N: a[i] = 0.0 }
v[0, 0] = 7.0
println((await later)[0], a[0:2])
"""
    )
    assert ran.output == "tensor([2.0, 4.0, 6.0, 8.0], shape=[4], dtype=f32) tensor([7.0, 0.0], shape=[2], dtype=f32)\n"


@pytest.mark.parametrize("dtype", ["bool", "i8", "u64", "f16", "bf16", "f64"])
@pytest.mark.parametrize("shape", ["[0]", "[1]", "[3, 4]", "[2, 0, 3]", "[1, 5, 1]"])
def test_shapes_and_elements_of_all_sorts(machine, dtype, shape) -> None:
    ran = machine.run(
        f"let x = ones({shape}, dtype={dtype})\n"
        'let y = x.to_device("cuda:0")\n'
        "println(y.flatten().shape() == x.flatten().shape(), all(y.flatten() == x.flatten()), y.unsqueeze(-1).shape() == x.unsqueeze(-1).shape())\n"
        "println(y.squeeze().shape() == x.squeeze().shape(), all(y.transpose() == x.transpose()), y.transpose().device(), y[0:0].shape())\n"
    )
    empty = [0, *map(int, shape.strip("[]").split(",")[1:])]
    assert ran.output == f"true true true\ntrue true cuda:0 {empty}\n"


def test_a_tensor_without_axes_has_views(machine) -> None:
    ran = machine.run('let y = tensor(2.5).to_device("cuda:0")\nprintln(y.reshape(1, 1), y.flatten().device(), y.reshape([]).item())\n')
    assert ran.output == "tensor([[2.5]], shape=[1, 1], dtype=f32) cuda:0 2.5\n"


def test_memory_is_free_when_the_last_view_is_gone(machine) -> None:
    from runtime.cuda import gpu as gpus

    ran = machine.run(
        """
def made(x) { compute(x) @device("cuda") { for i in 0..N: out[i] = x[i] + 1.0 } }
def part_of(x) { made(x).reshape(64, 64)[3] }
let x = arange(0, 4096)
mut kept = []
for k in 0..5 { kept.push(part_of(x)) }
println(memory_pool("cuda:0")[0])
kept.clear()
println(memory_pool("cuda:0")[0])
for k in 0..50 { part_of(x) }
println(memory_pool("cuda:0")[0].1 <= 2 * 4096 * 4)
"""
    )
    # the device keeps a copy of `x`
    assert ran.output == f'("in use", {6 * 4096 * 4})\n("in use", {4096 * 4})\ntrue\n'
    del ran
    gc.collect()
    assert gpus.gpu(0).pool.statistics().blocks_in_use == 0
