"""The rates of a GPU: measured on request, kept in the user's cache for the device and its driver, and taken by the price of kernels."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
from attrs import asdict

from compiler.launch.cache import GPU_RATES
from compiler.machines.rates import H200, GpuRates
from runtime.cuda.copies import copy, download, fill
from runtime.cuda.device import CudaDevice
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch

RUNS = 7
COPIED = 1 << 29
"""Bytes of a copy, or the eighth part of the memory that is free."""
CHASED = 1 << 28
"""Bytes among which loads follow each other: more than the caches hold."""
CHASES = 4096
CACHED = 1 << 24
"""Bytes that the second cache holds."""
READING = (4, 256)
"""Blocks a multiprocessor, and their threads, that read from it."""
TURNS = 64
LITTLE, MANY = 256, 1 << 20
"""Bytes of a launch that does little, and blocks of one that only begins them."""
SPUN = 1 << 21

KERNELS = f""".version 7.0
.target sm_75
.address_size 64
.visible .entry little(.param .u64 from, .param .u64 to)
{{
    .reg .b32 %r<3>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    st.global.u32 [%rd5], %r2;
    ret;
}}
.visible .entry begin()
{{
    ret;
}}
.visible .entry spin(.param .u64 to)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, 0;
    mov.u32 %r2, %tid.x;
    mov.u64 %rd2, %globaltimer;
    mov.u64 %rd3, %clock64;
again:
    mad.lo.u32 %r2, %r2, %r2, %r1;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, {SPUN};
    @%p1 bra again;
    mov.u64 %rd4, %clock64;
    mov.u64 %rd5, %globaltimer;
    sub.s64 %rd6, %rd4, %rd3;
    sub.s64 %rd7, %rd5, %rd2;
    cvt.u64.u32 %rd8, %r2;
    st.global.u64 [%rd1], %rd6;
    st.global.u64 [%rd1+8], %rd7;
    st.global.u64 [%rd1+16], %rd8;
    ret;
}}
.visible .entry chase(.param .u64 zeros, .param .u64 to)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [zeros];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, 0;
    mov.u32 %r2, 12345;
    mov.u64 %rd3, %clock64;
again:
    mad.lo.u32 %r2, %r2, 1664525, 1013904223;
    shr.u32 %r3, %r2, 4;
    and.b32 %r3, %r3, {CHASED - 128};
    cvt.u64.u32 %rd4, %r3;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.u32 %r4, [%rd5];
    add.u32 %r2, %r2, %r4;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, {CHASES};
    @%p1 bra again;
    mov.u64 %rd6, %clock64;
    sub.s64 %rd7, %rd6, %rd3;
    cvt.u64.u32 %rd8, %r2;
    st.global.u64 [%rd2], %rd7;
    st.global.u64 [%rd2+8], %rd8;
    ret;
}}
.visible .entry cached(.param .u64 from, .param .u64 to)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, {READING[1]}, %r1;
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
again:
    shl.b32 %r6, %r3, 4;
    and.b32 %r6, %r6, {CACHED - 16};
    cvt.u64.u32 %rd3, %r6;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.cg.v4.u32 {{%r7, %r8, %r9, %r10}}, [%rd4];
    or.b32 %r7, %r7, %r8;
    or.b32 %r9, %r9, %r10;
    or.b32 %r7, %r7, %r9;
    or.b32 %r5, %r5, %r7;
    mov.u32 %r11, %nctaid.x;
    mad.lo.u32 %r3, %r11, {READING[1]}, %r3;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, {TURNS};
    @%p1 bra again;
    setp.eq.u32 %p2, %r5, 0;
    @%p2 bra done;
    st.global.u32 [%rd2], %r5;
done:
    ret;
}}
"""
"""What is measured: a launch of few bytes, the beginning of blocks, cycles against time, loads of which each waits for the one before, and
reads that the second cache answers."""

_known: dict[tuple[str, ...], GpuRates] = {}


def rates_of(device: CudaDevice) -> GpuRates:
    """As they were measured on a device like this; else an H200's."""
    parts = _parts(device)
    if parts not in _known:
        found = GPU_RATES.find(lambda: GPU_RATES.name(*parts), lambda head, image: _usable(GpuRates(**head)))
        _known[parts] = H200 if found is None else found
    return _known[parts]


def measured(device: Gpu) -> GpuRates:
    """Measures a GPU, some tenths of a second, and keeps what was found, for this process and others. Raises `ValueError` where a figure
    makes no sense, `CudaError` and `CudaRefused` where the device fails."""
    rates = _usable(_measured(device))
    parts = _parts(device.device)
    _known[parts] = rates
    GPU_RATES.keep(lambda: GPU_RATES.name(*parts), asdict(rates))
    return rates


def _parts(device: CudaDevice) -> tuple[str, ...]:
    properties = device.properties
    return properties.name, str(properties.multiprocessors), str(properties.clock), ".".join(map(str, properties.driver_version))


def _usable(rates: GpuRates) -> GpuRates:
    for name, value in asdict(rates).items():
        _possible(name, value)
    return rates


def _possible(name: str, value: float) -> float:
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value:g}")
    return value


def _measured(device: Gpu) -> GpuRates:
    module, stream, processors = device.modules.load(KERNELS), device.stream, device.device.properties.multiprocessors
    found = device.allocate(LITTLE)

    def times(name: str, grid: int, block: int, *values: Any, repeats: int = 1) -> float:
        """Nanoseconds of a launch, the best of several runs of so many."""
        plan = CheckedLaunch(module.kernel(name), ("pointer",) * len(values), (grid,), (block,))
        return _nanoseconds(device, lambda: plan(stream, *values), repeats)

    def said(count: int) -> list[int]:
        words = np.zeros(LITTLE // 8, np.uint64)
        download(words, found, stream)
        stream.synchronize()
        return [int(word) for word in words[:count]]

    times("spin", 1, 1, found)
    cycles, nanoseconds = said(2)
    clock = _possible("clock", cycles / max(nanoseconds, 1))

    size = min(COPIED, device.device.memory()[0] // 8)
    source, target = device.allocate(size), device.allocate(size)
    fill(source, 0, stream)
    memory = 2 * size / _nanoseconds(device, lambda: copy(target, source, stream))

    launch = times("little", 1, LITTLE // 4, source, target, repeats=20)
    begun = times("begin", MANY, 64)
    block = (begun - launch) * clock * processors / MANY

    each, threads = READING
    read = times("cached", each * processors, threads, source, target) - launch
    second_cache = 16 * TURNS * each * threads / _possible("reading from the second cache", read) / clock

    fill(source, 0, stream)
    latency = 0.0
    if size >= CHASED:
        times("chase", 1, 1, source, found)
        latency = said(1)[0] / CHASES
    return GpuRates(clock, memory, second_cache, launch, block, latency or H200.latency)


def _nanoseconds(device: Gpu, act: Callable[[], None], repeats: int = 1) -> float:
    act()
    best = float("inf")
    for _ in range(RUNS):
        start = device.stream.record(timing=True)
        for _ in range(repeats):
            act()
        end = device.stream.record(timing=True)
        end.synchronize()
        best = min(best, end.milliseconds_since(start) * 1e6 / repeats)
    return best
