"""Who says where a block runs, in which order: `--device`, `@device`, `config`, the inputs, costs."""

import pytest

DOUBLE = "compute(x) {device} {{ for i in 0..N: out[i] = x[i] * 2.0 }}"


def program(device: str = "", config: str = "", x: str = "arange(0, 5)") -> str:
    return f"{config}\nlet x = {x}\nlet y = {DOUBLE.format(device=device)}\nprintln(y, y.device())\n"


CUDA = 'config { device: "cuda:0" }'


@pytest.mark.parametrize(
    ("option", "device", "config", "x", "runs_on", "why"),
    [
        (None, "", "", "arange(0, 5)", "cpu", "which costs least"),
        (None, '@device("cpu")', CUDA, "arange(0, 5)", "cpu", "named by `@device`"),
        (None, '@device("cuda")', "", "arange(0, 5)", "cuda:0", "named by `@device`"),
        (None, '@device("cuda:0")', "", "arange(0, 5)", "cuda:0", "named by `@device`"),
        (None, "", CUDA, "arange(0, 5)", "cuda:0", "named by `config`"),
        (None, '@device("auto")', CUDA, "arange(0, 5)", "cpu", "which costs least"),
        (None, '@device("emulator")', CUDA, "arange(0, 5)", "emulator", "named by `@device`"),
        (None, '@device("cuda:7", fallback="cpu")', "", "arange(0, 5)", "cpu", "`cuda:7` is not here, and `fallback=` names it"),
        (None, '@device("cuda:7", fallback="cuda:0")', "", "arange(0, 5)", "cuda:0", "`cuda:7` is not here, and `fallback=` names it"),
        ("cpu", '@device("cuda")', CUDA, "arange(0, 5)", "cpu", "named by `--device`"),
        ("cuda:0", '@device("cpu")', "", "arange(0, 5)", "cuda:0", "named by `--device`"),
        ("cuda:0", '@device("cuda:7")', "", "arange(0, 5)", "cuda:0", "named by `--device`"),
        ("emulator", "", CUDA, "arange(0, 5)", "emulator", "named by `--device`"),
        ("auto", '@device("cuda")', CUDA, "arange(0, 5)", "cpu", "which costs least"),
        (None, "", "", 'arange(0, 5, device="cuda:0")', "cuda:0", "`x` was put there"),
        (None, '@device("cpu")', "", 'arange(0, 5).to_device("cuda:0")', "cpu", "named by `@device`"),
        ("cpu", "", "", 'arange(0, 5).to_device("cuda")', "cpu", "named by `--device`"),
        (None, "", CUDA, 'arange(0, 5).to_device("emulator")', "cuda:0", "named by `config`"),
        (None, "", "", 'arange(0, 5).to_device("emulator")', "emulator", "`x` was put there"),
    ],
)
def test_who_is_first_wins(machine, option, device, config, x, runs_on, why) -> None:
    ran = machine.run(program(device, config, x), option)
    lies_on = "cuda:0" if runs_on == "cuda:0" else "cpu"
    assert ran.output == f"tensor([0.0, 2.0, 4.0, 6.0, 8.0], shape=[5], dtype=f32) {lies_on}\n"
    assert ran.told[0].splitlines()[0] == f"program.zynml:3:9: compute of x [5]: {runs_on}, {why}"


def test_without_a_gpu_auto_is_the_cpu_and_nothing_is_measured(no_gpu) -> None:
    ran = no_gpu.run(program('@device("auto")'))
    assert ran.told == ["program.zynml:3:9: compute of x [5]: cpu, the only device here"]


def test_a_size_is_told_once(no_gpu) -> None:
    text = "def f(x: tensor[N]): tensor { compute(x) @name(\"halve\") { for i in 0..N: out[i] = x[i] / 2.0 } }\n"
    ran = no_gpu.run(text + "for n in 0..4: f(zeros(3 + n % 2))\n", "cpu")
    assert ran.told == [
        f"program.zynml:1:31: compute `halve` of x [{n}]: cpu, named by `--device`\n  cpu:       nothing to copy" for n in (3, 4)
    ]


@pytest.mark.parametrize("gpus", [2])
def test_inputs_on_two_gpus_and_nobody_says_where(machine) -> None:
    text = (
        'let x = ones(3).to_device("cuda:0")\n'
        'let y = ones(3).to_device("cuda:1")\n'
        "let z = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }\n"
    )
    assert machine.fails(text) == (
        "error[ZYN0501]: `x` lies on `cuda:0` and `y` on `cuda:1`, and nothing says where this block runs\n"
        " --> program.zynml:3:9\n"
        "  |\n"
        "3 | let z = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }\n"
        "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  |                 - on `cuda:0`\n"
        "  |                    - on `cuda:1`\n"
        'hint: `@device("cuda:0")` runs it there, with a copy of `y`; so does `y.to_device("cuda:0")` before it'
    )


@pytest.mark.parametrize("gpus", [2])
def test_a_device_that_is_named_gets_copies_of_what_lies_elsewhere(machine) -> None:
    text = (
        'let x = ones(3).to_device("cuda:0")\n'
        'let y = ones(3).to_device("cuda:1")\n'
        'let z = compute(x, y) @device("cuda:1") { for i in 0..N: out[i] = x[i] + y[i] }\n'
        "println(z.device(), x.device(), z)\n"
    )
    ran = machine.run(text)
    assert ran.output == "cuda:1 cuda:0 tensor([2.0, 2.0, 2.0], shape=[3], dtype=f32)\n"
    assert ran.told == ["program.zynml:3:9: compute of x [3], y [3]: cuda:1, named by `@device`\n  cuda:1:    12 bytes to copy"]


def test_devices_that_are_not_here(machine) -> None:
    assert machine.fails(program('@device("cuda:7")')) == (
        "error[ZYN0501]: there is no device `cuda:7` here\n"
        " --> program.zynml:3:20\n"
        "  |\n"
        '3 | let y = compute(x) @device("cuda:7") { for i in 0..N: out[i] = x[i] * 2.0 }\n'
        "  |                    ^^^^^^^^^^^^^^^^^ this block is to run there\n"
        "note: this machine has 1 CUDA device, numbered from 0; devices here: cpu, cuda:0\n"
        'hint: `--device cpu` runs the program on the CPU, as does `@device("auto")` here; '
        '`@device("cuda:7", fallback="cpu")` falls back'
    )
    for option, message, hint in (
        ("cuda:7", "there is no device `cuda:7` here", "this machine has 1 CUDA device, numbered from 0; "),
        ("rocm", "there is no device `rocm` here", "ROCm is not supported yet; "),
        ("metal:0", "there is no device `metal:0` here", "Metal is not supported yet; "),
        ("vulkan", "there is no device `vulkan` here", "Vulkan is not supported yet; "),
        ("gpu", "`gpu` names no device", ""),
        ("cuda:x", "`cuda:x` names no device", ""),
        ("", "`` names no device", ""),
    ):
        assert machine.fails(program(), option) == f"error[ZYN0501]: {message}\nhint: {hint}devices here: cpu, cuda:0"


def test_no_driver(no_gpu) -> None:
    assert no_gpu.fails("let x = zeros(3)", "cuda:0") == (
        "error[ZYN0501]: there is no device `cuda:0` here\nhint: this machine has no NVIDIA driver; devices here: cpu"
    )
    assert no_gpu.fails('let x = zeros(3, device="cuda:0")') == (
        "error[ZYN0501]: there is no device `cuda:0` here\n"
        " --> program.zynml:1:9\n"
        "  |\n"
        '1 | let x = zeros(3, device="cuda:0")\n'
        "  |         ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "hint: this machine has no NVIDIA driver; devices here: cpu"
    )
