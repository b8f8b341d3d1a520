"""Kernels that fault, each in a process of its own: the error names the kernel and its place, and the process ends cleanly."""


def test_a_stray_store_names_kernel_and_line_and_the_loss_stays(in_a_process):
    ended = in_a_process("stray")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["('`stray` (program.zynml:7)',) 700", "still lost", "in use: 0"]


def test_a_trap_names_the_kernels_that_may_have_caused_it(in_a_process):
    ended = in_a_process("trapped")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["('`nothing`', '`trapped` (program.zynml:9)')"]


def test_a_fault_that_nobody_asks_for_does_not_disturb_the_end(in_a_process):
    ended = in_a_process("at_the_end")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_waiting_for_a_kernel_can_be_interrupted(in_a_process):
    ended = in_a_process("interrupted")
    assert (ended.returncode, ended.stdout) == (0, "interrupted, work under way: True\n")


def test_a_forked_child_is_told_to_spawn(in_a_process):
    ended = in_a_process("forked")
    assert ended.stdout == "CUDA was initialised before this process was forked: start processes with `spawn` instead\n"
