"""Modules from text to machine code: levels, other targets, linking of several."""

import ctypes
import hashlib

import pytest

from runtime.cpu import load

TEXT = """
define i64 @sum_below(ptr %slots) {
  %n = load i64, ptr %slots
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %head ]
  %t = phi i64 [ 0, %0 ], [ %more, %head ]
  %more = add i64 %t, %i
  %next = add i64 %i, 1
  %on = icmp slt i64 %next, %n
  br i1 %on, label %head, label %done
done:
  ret i64 %more
}
"""


@pytest.mark.parametrize("level", ("0", "1", "2", "3", "s", "latency"))
def test_each_level_runs(level: str) -> None:
    timings: dict[str, float] = {}
    module = load.CompiledModule(f"; level {level}\n{TEXT}", load.target(None, None, None, 3), level, timings)
    n = ctypes.c_int64(10)
    assert module.function("sum_below")(ctypes.addressof(n)) == 45
    assert set(timings) == {"parse", "optimise", "generate", "link"}


def test_two_kernels_of_one_name_live_side_by_side() -> None:
    target = load.target(None, None, None, 3)
    first = load.CompiledModule(TEXT, target, "3", {}).function("sum_below")
    second = load.CompiledModule(TEXT.replace("i64 %t, %i", "i64 %t, 2"), target, "3", {}).function("sum_below")
    n = ctypes.c_int64(10)
    assert (first(ctypes.addressof(n)), second(ctypes.addressof(n))) == (45, 20)


def test_one_text_is_generated_once_for_a_target_and_a_level() -> None:
    target = load.target(None, None, None, 3)
    n, phases = ctypes.c_int64(10), []
    for level in ("3", "3", "1"):
        timings: dict[str, float] = {}
        module = load.CompiledModule(f"; generated once\n{TEXT}", target, level, timings)
        assert module.function("sum_below")(ctypes.addressof(n)) == 45
        phases.append({*timings})
    assert phases == [{"parse", "optimise", "generate", "link"}, {"link"}, {"parse", "optimise", "generate", "link"}]


def test_the_latest_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_GENERATED", generated := {})
    monkeypatch.setattr(load, "_OBJECTS", 2)
    for number in (1, 2, 1, 3):
        load.CompiledModule(f"; number {number}\n{TEXT}", load.target(None, None, None, 3), "0", {}).object  # noqa: B018
    assert [hashlib.sha256(f"; number {number}\n{TEXT}".encode()).digest() for number in (1, 3)] == [digest for digest, *_ in generated]


def test_code_for_another_target() -> None:
    target = load.target("aarch64-unknown-linux-gnu", None, "+neon", 3)
    module = load.CompiledModule(TEXT, target, "3", {})
    assert "sum_below:" in module.assembly
    assert module.object[18:20] == b"\xb7\x00"  # ELF machine 183: AArch64
    assert not target.is_host


def test_objects_are_linked_from_several_modules() -> None:
    texts = [TEXT, TEXT.replace("@sum_below", "@sum_again")]
    code = load.link(texts)
    assert b"sum_below" in code and b"sum_again" in code


def test_the_table_of_pass_times() -> None:
    module = load.CompiledModule(TEXT, load.target(None, None, None, 3), "3", {})
    assert "Pass execution timing report" in module.pass_times()
