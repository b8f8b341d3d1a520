"""What a device refuses or breaks, end to end behind a fake driver: coded, with its place, and the exit code that goes with it."""

import contextlib
import io

import pytest

from zyntax.main import cli
from zyntax.report import guarded

BLOCK = 'let x = zeros({count})\nlet y = compute(x) @device("cuda:0") {{ for i in 0..N: out[i] = x[i] + 1.0 }}\nprintln(y[0])\n'
CARET = (
    " --> program.zynml:2:9\n"
    "  |\n"
    '2 | let y = compute(x) @device("cuda:0") { for i in 0..N: out[i] = x[i] + 1.0 }\n'
    f"  |         {'^' * 67}\n"
)


def test_out_of_memory_shows_sizes_and_pool(machine) -> None:
    machine.fake.capacity = 1 << 20
    found = machine.fails(BLOCK.format(count=300_000))
    assert found == (
        "error[ZYN0804]: out of memory on the device: cuMemAllocAsync: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2): 1.1 MiB asked for; "
        "the pool has 0 bytes in use in 0 blocks, 0 bytes kept; cuda:0 has 1 MiB free of 1 MiB\n"
        f"{CARET}hint: work on parts, or on the CPU; `memory_pool(device)` says what is held"
    )


def test_out_of_memory_in_the_library(machine) -> None:
    machine.fake.capacity = 1 << 20
    found = machine.fails('let a = zeros(1000, device="cuda:0")\nlet b = zeros(300_000)\nlet c = b.to_device("cuda:0")\n')
    assert found.startswith("error[ZYN0804]: out of memory on the device: ") and " --> program.zynml:3:9\n" in found
    assert "1.1 MiB asked for; the pool has 4 KiB in use in 1 block, 0 bytes kept; cuda:0 has 1020 KiB free of 1 MiB" in found


def test_a_limit_that_the_program_sets(machine) -> None:
    found = machine.fails('let p = memory_pool("cuda:0", limit=1000)\nlet c = zeros(1000, device="cuda:0")\n')
    assert found.startswith("error[ZYN0804]: out of memory on the device: ") and "limit of the pool" in found and "limit 1000 bytes" in found


@pytest.mark.parametrize("call", ["cuMemcpyHtoDAsync", "cuMemsetD32Async", "cuLaunchKernelEx", "cuMemcpyDtoHAsync"])
def test_a_fault_names_the_kernel_and_says_what_is_lost(machine, call) -> None:
    machine.fake.fail_next[call] = 700
    block = BLOCK.format(count=3)
    found = machine.fails(block.replace("zeros(3)", "arange(0, 3)") if call == "cuMemcpyHtoDAsync" else block)
    assert found.startswith(f"error[ZYN0805]: a kernel failed on the device: {call}: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700)")
    assert "the context is lost, and with it all memory on the device\n --> program.zynml:" in found
    assert found.endswith("hint: nothing on this device can be used again in this run; `--sanitize` finds accesses outside and races")
    if call == "cuMemcpyDtoHAsync":
        assert "in the kernel `" in found and "(program.zynml:2)" in found


@pytest.mark.parametrize("code", [222, 223])
def test_a_driver_that_is_too_old(machine, code, monkeypatch) -> None:
    from fake_driver import ERRORS

    monkeypatch.setitem(ERRORS, 222, ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."))
    monkeypatch.setitem(ERRORS, 223, ("CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX JIT compilation was disabled"))
    machine.fake.fail_next["cuModuleLoadData"] = code
    found = machine.fails(BLOCK.format(count=3))
    assert found.startswith("error[ZYN0501]: the driver is too old for this code: cuModuleLoadData: ")
    assert found.endswith("hint: update the driver, or install the extra `compute`, whose assembler makes code for the device itself")


def test_other_failures_are_device_faults(machine) -> None:
    machine.fake.fail_next["cuLaunchKernelEx"] = 1
    found = machine.fails(BLOCK.format(count=3))
    assert found.startswith("error[ZYN0805]: the device failed: cuLaunchKernelEx: invalid argument (CUDA_ERROR_INVALID_VALUE, 1)")


def test_more_threads_than_this_device_has(machine, monkeypatch) -> None:
    from fake_driver import KERNEL_ATTRIBUTES

    monkeypatch.setitem(KERNEL_ATTRIBUTES, "MAX_THREADS_PER_BLOCK", 32)
    text = 'let y = compute() -> tensor[64] @kernel(custom) @workgroup(64) @grid(1) @device("cuda:0") { out[thread_idx().x] = 1.0 }\nprintln(y[0])\n'
    found = machine.fails(text)
    assert found.startswith("error[ZYN0502]: a block of `") and "has 64 threads; 32 is the most by its 40 registers and its bounds" in found


def test_more_shared_memory_than_this_device_has(machine, monkeypatch) -> None:
    from fake_driver import ATTRIBUTES

    monkeypatch.setitem(ATTRIBUTES, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", 512)
    text = (
        'let y = compute() -> tensor[64] @kernel(custom) @workgroup(64) @grid(1) @device("cuda:0") {\n'
        "    shared var s[64]\n"
        "    let t = thread_idx().x\n"
        "    s[t] = 1.0\n"
        "    barrier()\n"
        "    out[t] = s[63 - t]\n"
        "}\nprintln(y[0])\n"
    )
    assert machine.fails(text).startswith("error[ZYN0503]: ")


def test_the_command_ends_with_one_and_no_traceback(machine, tmp_path) -> None:
    program = tmp_path / "fault.zynml"
    program.write_text(BLOCK.format(count=3))
    machine.fake.fail_next["cuLaunchKernelEx"] = 700
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = guarded(lambda: cli.main(args=["run", str(program)], prog_name="zyntax", standalone_mode=False))
    assert code == 1 and said.getvalue().startswith("error[ZYN0805]: ") and "Traceback" not in said.getvalue()


@pytest.mark.parametrize("name", ["rocm", "rocm:0", "metal", "vulkan:1"])
def test_devices_whose_turn_comes_later(machine, name) -> None:
    hint = 'hint: supported are "cpu", "cuda" and "auto", which picks what is there'
    for text in (
        f'let x = zeros(3)\nlet y = compute(x) @device("{name}") {{ for i in 0..N: out[i] = x[i] }}\n',
        f'def f(x: tensor[N] on "{name}") {{ x }}\n',
    ):
        found = machine.fails(text)
        assert found.startswith(f"error[ZYN0501]: device `{name}` is not supported yet\n") and found.endswith(hint)
    kind = {"r": "ROCm", "m": "Metal", "v": "Vulkan"}[name[0]]
    for text in (f'let x = zeros(3, device="{name}")', f'let x = zeros(3).to_device("{name}")'):
        found = machine.fails(text)
        assert found.startswith(f"error[ZYN0501]: there is no device `{name}` here\n")
        assert found.endswith(f"hint: {kind} is not supported yet; devices here: cpu, cuda:0")
