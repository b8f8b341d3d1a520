"""Where nobody says anything: the work of a block, what it costs on each device, and how runs correct that."""

import numpy as np
import pytest

from compiler.analysis.work import DIVISION, FUNCTION, UNKNOWN_TURNS, Work, work_of
from compiler.devices.costs import MEASURED_RUNS, History, Rates
from compiler.hir.parse import parse_function
from tests.placement.machines import INFINITE, QUICK_GPU, SLOW_CPU

X = "%a = load %x[i] : f32"
SQUARE = "%b = mul %a, %a : f32\nstore %out[i], %b"
NESTS = {
    "map": (f"for i in 0..N {{\n{X}\n{SQUARE}\n}}", 100),
    "functions": (f"for i in 0..N {{\n{X}\n%c = exp %a : f32\n%b = div %c, %a : f32\nstore %out[i], %b\n}}", 100 * (FUNCTION + DIVISION)),
    "nest": (f"for i in 0..N {{\nfor j in 0..3*N {{\n{X}\n{SQUARE}\n}}\n}}", 100 * 300),
    "steps": (f"for i in 0..N step 4 {{\n{X}\n{SQUARE}\n}}", 25),
    "backwards": (f"for i in N-1..-1 step -1 {{\n{X}\n{SQUARE}\n}}", 100),
    "triangle": (f"for i in 0..N {{\nfor j in 0..i {{\n{X}\n{SQUARE}\n}}\n}}", 100 * 49.5),
    "nothing": (f"for i in N..0 {{\n{X}\n{SQUARE}\n}}", 0),
    "branches": (
        f"for i in 0..N {{\n{X}\n%z = eq %a, %a : i1\nif %z {{\n{SQUARE}\n}} else {{\n%c = exp %a : f32\nstore %out[i], %c\n}}\n}}",
        100 * (1 + FUNCTION),
    ),
    "data": (
        f"for i in 0..N {{\n{X}\n%w = while carry(%c = %a) {{\n%g = lt %c, %a : i1\ncondition %g\n}} do {{\n"
        "%p = mul %c, %c : f32\nyield %p\n}\nstore %out[i], %w\n}",
        100 * UNKNOWN_TURNS * 2,
    ),
}


@pytest.mark.parametrize("name", NESTS)
def test_operations_are_counted_over_loops(name: str) -> None:
    body, operations = NESTS[name]
    function = parse_function(f"func @f(%x: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=A {{\n{body}\n}}\n")
    assert work_of(function, {"N": 100}) == Work(pytest.approx(operations), 800.0)


def test_a_run_takes_as_long_as_the_slower_of_memory_and_arithmetic() -> None:
    rates = Rates(call=1.0, copy=0.0, copy_to=1.0, copy_from=1.0, memory=10.0, arithmetic=100.0)
    assert rates.running(Work(operations=200.0, bytes=10.0)) == 3.0
    assert rates.running(Work(operations=200.0, bytes=50.0)) == 6.0
    assert rates.running(Work(0.0, 0.0)) == 1.0


def test_measured_runs_count_and_correct_the_nearest_sizes() -> None:
    history, small, large = History(), Work(10.0, 10.0), Work(1e6, 1e6)
    assert history.running(small, 4.0) == (4.0, False)
    history.of(small, 4.0).add(8.0)
    history.of(small, 4.0).add(6.0)
    assert history.running(small, 4.0) == (6.0, True)
    assert history.running(large, 100.0) == (150.0, False)
    history.of(large, 100.0).add(20.0)
    assert history.running(large, 100.0) == (20.0, True)
    assert history.running(Work(1e5, 1e5), 10.0) == (2.0, False)
    assert history.running(Work(20.0, 20.0), 2.0) == (3.0, False)


MAP = "let y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }\n"


def test_few_elements_stay_many_go(machine) -> None:
    """8 bytes an element at 1 GB/s and a call of 10 us, against 4 bytes copied at 1 GB/s and a call of 100 us."""
    for count, device in ((10_000, "cpu"), (22_000, "cpu"), (23_000, "cuda:0")):
        ran = machine.run(f"let x = zeros({count})\n{MAP}println(y.device())\n")
        assert ran.output == f"{device}\n", count


def test_a_copy_costs_something_however_little_it_brings(machine) -> None:
    """4 elements: 10.03 us here; 1 us there, and 20 us for the copy, which doesn't arise for what lies there already."""
    machine.rates["cuda:0"] = Rates(call=1e-6, copy=2e-5, copy_to=1e9, copy_from=1e9, memory=1e12, arithmetic=1e12)
    assert machine.run(f"let x = zeros(4)\n{MAP}println(y.device())\n").output == "cpu\n"
    far = "let x = compute(w) @device(\"cuda:0\") { for i in 0..N: out[i] = w[i] }\n"
    assert machine.run(f"let w = zeros(4)\n{far}{MAP}println(y.device())\n").output == "cuda:0\n"


def test_the_decision_is_explained(machine) -> None:
    ran = machine.run(f"let x = zeros(30_000)\n{MAP}")
    assert ran.told == [
        "program.zynml:2:9: compute of x [30000]: cuda:0, which costs least\n"
        "  cpu:       nothing to copy, run 250 us estimated, together 250 us\n"
        "  cuda:0:    117.2 KiB to copy (120 us), run 100 us estimated, together 220 us"
    ]


def test_what_lies_on_a_device_pulls_the_block_there(machine) -> None:
    """2,000 elements: 26 us here, 100 us there, but 4 us for bringing them back."""
    far = "let x = compute(w) @device(\"cuda:0\") { for i in 0..N: out[i] = w[i] }\n"
    ran = machine.run(f"let w = zeros(2_000)\n{far}{MAP}println(y.device())\n")
    assert ran.output == "cpu\n"
    machine.rates["cuda:0"] = Rates(call=2e-5, copy=0.0, copy_to=1e9, copy_from=1e8, memory=1e12, arithmetic=1e12)
    ran = machine.run(f"let w = zeros(2_000)\n{far}{MAP}println(y.device())\n")
    assert ran.output == "cuda:0\n"


def test_an_update_pays_for_the_way_back(machine) -> None:
    """11,000 elements of a tensor on the host: 98 us here; 100 us and 44 us there, and as much back."""
    machine.rates["cuda:0"] = Rates(call=1e-6, copy=0.0, copy_to=1e9, copy_from=4e8, memory=1e12, arithmetic=1e12)
    text = "mut x = zeros(11_000)\n{block}\n"
    ran = machine.run(text.format(block="let y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }"))
    assert "cuda:0, which costs least" in ran.told[0]
    ran = machine.run(text.format(block="compute(mut x) { for i in 0..N: x[i] = x[i] * 2.0 }"))
    assert "cpu, which costs least" in ran.told[0]


LOOP = """
def f(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }
let x = zeros(30_000)
for k in 0..8: println(f(x).device())
"""


def test_a_device_that_is_slower_than_thought_is_left(machine) -> None:
    """Each measured run takes a second by the clock. The first run compiles and is not measured; the second is, and then the CPU looks
    better, until it is measured too: neither is what was thought, and of the two, the GPU has to copy."""
    machine.clock.step = 1.0
    assert machine.run(LOOP).output.split() == ["cuda:0", "cuda:0", *["cpu"] * 6]


def test_runs_that_confirm_the_estimate_change_nothing(machine) -> None:
    machine.clock.step = 1e-4
    assert machine.run(LOOP).output.split() == ["cuda:0"] * 8


def test_few_runs_are_measured(machine) -> None:
    """After them nobody waits for the device: the host's clock is asked twice a measured run."""
    machine.run(LOOP)
    assert machine.clock.looks == 2 * MEASURED_RUNS


@pytest.mark.parametrize("gpus", [2])
def test_the_quicker_of_two_gpus(machine) -> None:
    machine.rates["cuda:1"] = Rates(call=1e-5, copy=0.0, copy_to=1e10, copy_from=1e10, memory=1e12, arithmetic=1e12)
    assert machine.run(f"let x = zeros(30_000)\n{MAP}println(y.device())\n").output == "cuda:1\n"


@pytest.mark.parametrize("gpus", [2])
def test_results_that_costs_put_on_two_gpus_are_no_contradiction(machine) -> None:
    text = (
        "let a = zeros(1_000)\n"
        'let x = compute(a) @device("cuda:0") { for i in 0..N: out[i] = a[i] + 1.0 }\n'
        'let y = compute(a) @device("cuda:1") { for i in 0..N: out[i] = a[i] + 2.0 }\n'
        "let z = compute(x, y) { for i in 0..N: out[i] = x[i] * y[i] }\n"
        "println(z[0], z.device())\n"
    )
    assert machine.run(text).output == "2.0 cpu\n"


def test_both_versions_give_the_same(machine) -> None:
    text = """
let a = arange(0, 35).reshape(5, 7)
let b = arange(0, 21).reshape(7, 3)
let y = compute(a, b) {
    for i in 0..M, j in 0..N:
        var s = 0.0
        for k in 0..K:
            s += a[i, k] * b[k, j]
        out[i, j] = s
}
println(y.to_list())
"""
    expected = np.arange(35.0).reshape(5, 7) @ np.arange(21.0).reshape(7, 3)
    for rates in ({"cpu": SLOW_CPU, "cuda:0": QUICK_GPU}, {"cpu": Rates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0), "cuda:0": QUICK_GPU}):
        machine.rates.update(rates)
        ran = machine.run(text)
        np.testing.assert_array_equal(np.array(eval(ran.output)), expected)
        assert ("cuda:0, which" in ran.told[0]) == (rates["cpu"].call == 1.0)


def test_scalars_sizes_and_empty_tensors(machine) -> None:
    for count in (0, 1):
        ran = machine.run(f"let x = zeros({count})\nlet k = 3\nlet y = compute(x, k) {{ for i in 0..N: out[i] = x[i] + k }}\nprintln(y)\n")
        assert ran.output == ("tensor([], shape=[0], dtype=f32)\n" if count == 0 else "tensor([3.0], shape=[1], dtype=f32)\n")


def test_sizes_that_do_not_fit_say_so_as_on_the_cpu(machine) -> None:
    text = "def f(a: tensor, b: tensor): tensor { compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] } }\nprintln(f(zeros(3), zeros(4)))\n"
    assert machine.fails(text) == machine.fails(text, "cpu")


def test_too_little_memory_on_the_device_leaves_the_cpu(machine) -> None:
    machine.fake.capacity = 1 << 20
    ran = machine.run(f"let x = zeros(1_000_000)\n{MAP}println(y.device())\n")
    assert ran.output == "cpu\n"
    assert "cuda:0, which costs least\n" in ran.told[0]
    assert ran.told[1].startswith("program.zynml:2:9: compute of x [1000000]: cpu, since cuda:0 can't: out of memory on the device: ")


def test_a_device_that_can_not_run_a_block_is_asked_once(machine, monkeypatch) -> None:
    from fake_driver import ATTRIBUTES

    monkeypatch.setitem(ATTRIBUTES, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 128)
    machine.rates["cpu"] = Rates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    ran = machine.run(
        """
def f(x: tensor[N]): tensor {
    compute(x) -> tensor[64] @kernel(custom) @workgroup(64) @grid(1) {
        shared var s[64]
        let t = thread_idx().x
        s[t] = x[t]
        barrier()
        out[t] = s[63 - t]
    }
}
for k in 0..3: println(f(arange(0, 64))[0])
"""
    )
    assert ran.output == "63.0\n" * 3
    assert [line.splitlines()[0].partition(": ")[2].partition(", ")[2] for line in ran.told if "64 of" not in line][1].startswith("since cuda:0 can't: ")
    assert len(ran.told) == 3 and "cuda:0:" not in ran.told[2]


def test_a_fault_of_the_program_is_that_of_the_cpu(machine) -> None:
    text = "def f(x: tensor[N], i: tensor[M, i64]): tensor { compute(x, i) { for j in 0..M: out[j] = x[i[j]] } }\n"
    text += "println(f(zeros(100_000), full(100_000, 100_000, dtype=i64)))\n"
    machine.rates["cpu"] = Rates(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert machine.fails(text) == machine.fails(text, "cpu")


def test_runs_that_are_measured_ask_whether_inputs_overlap(machine) -> None:
    """What is only read is brought to the device before such a run: a copy there would hide that it shares memory."""
    text = """
mut x = zeros(100_000)
let apart = x.clone()
for turn in 0..4:
    compute(mut x, y = apart) { for i in 0..N: x[i] = x[i] + y[N - 1 - i] }
let z = x
compute(mut x, z) { for i in 0..N: x[i] = x[i] + z[N - 1 - i] }
"""
    machine.rates["cpu"] = Rates(call=1.0, copy=0.0, copy_to=INFINITE, copy_from=INFINITE, memory=1e3, arithmetic=1e3)
    assert "error[ZYN0813]: `x`, which this block updates, shares memory with `z`" in machine.fails(text)
    looped = text.replace("    compute(mut x, y = apart)", "    let y = apart if turn < 2 else x\n    compute(mut x, y)").split("let z")[0]
    assert "error[ZYN0813]: `x`, which this block updates, shares memory with `y`" in machine.fails(looped)
