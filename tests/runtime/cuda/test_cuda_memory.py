"""The pool's books: what is in use, what is kept, who waits for whom, and that nothing leaks whatever call fails."""

import gc
import random
import threading

import pytest
from fake_driver import FakeDriver

from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaError, CudaOutOfMemory
from runtime.cuda.gpu import open_gpu
from runtime.cuda.memory import Pool, block_size


def test_a_dropped_buffer_serves_the_next_request_of_its_stream(gpu, fake):
    first = gpu.allocate(1000)
    address = int(first)
    del first
    assert int(gpu.allocate(990)) == address
    assert fake.calls["cuMemAllocAsync"] == 1
    assert gpu.pool.statistics().from_driver == 1


def test_another_stream_gets_other_memory(gpu):
    other = gpu.new_stream()
    first = gpu.allocate(1000)
    address = int(first)
    del first
    assert int(gpu.allocate(1000, other)) != address


def test_statistics_count_bytes_and_blocks(gpu):
    kept = [gpu.allocate(size) for size in (1, 512, 513, 0)]
    now = gpu.pool.statistics()
    assert (now.in_use, now.blocks_in_use, now.idle, now.from_driver) == (512 + 512 + 1024, 3, 0, 3)
    del kept
    now = gpu.pool.statistics()
    assert (now.in_use, now.blocks_in_use, now.idle, now.idle_blocks, now.most) == (0, 0, 2048, 3, 2048)


def test_trim_gives_all_back(gpu, fake):
    del [gpu.allocate(5000) for _ in range(3)][:]
    gpu.pool.trim()
    assert fake.memory == {}
    assert fake.trims == 1


def test_idle_memory_is_bounded(fake):
    pool = Pool(open_gpu(Driver(fake)).device, keep=4096)
    gpu = open_gpu(Driver(fake))
    buffers = [pool.allocate(2048, gpu.stream) for _ in range(5)]
    del buffers
    assert pool.statistics().idle == 4096


def test_sizes_that_a_loop_wants_stay_and_older_ones_go(fake):
    gpu = open_gpu(Driver(fake))
    gpu.pool.keep = 8192
    del [gpu.allocate(4096)][:]
    for _ in range(5):
        buffer = gpu.allocate(6144)
        del buffer
    assert fake.calls["cuMemAllocAsync"] == 2
    assert fake.calls["cuMemFreeAsync"] == 1
    assert gpu.pool.statistics().idle == 6144


def test_blocks_that_no_turn_of_a_loop_wants_go_before_those_that_each_does(fake):
    gpu = open_gpu(Driver(fake))
    gpu.pool.keep = 28_000
    del [gpu.allocate(4096) for _ in range(6)][:]
    taken = []
    for _ in range(6):
        blocks = [gpu.allocate(size) for size in (4096, 2048, 4096, 2048)]
        del blocks
        taken.append(fake.calls["cuMemAllocAsync"])
    assert taken[2:] == [8] * 4
    assert gpu.pool.statistics().idle == 5 * 4096 + 2 * 2048


def test_large_blocks_beyond_the_bound_are_freed_when_dropped(gpu, fake):
    gpu.pool.keep = 1 << 20
    buffer = gpu.allocate(3 << 20)
    del buffer
    assert fake.memory == {}


@pytest.mark.parametrize("size", [1, 511, 512, 513, 4095, 4097, 10**5, 10**6, 12345678, (16 << 20) + 1, 10**9, 10**11])
def test_size_classes_hold_the_request_and_waste_an_eighth_at_most(size):
    block = block_size(size)
    assert block >= size and block % 512 == 0
    assert block <= max(512 * (size // 512 + 1), size * 9 / 8 + 1)
    assert block_size(block) == block


def test_memory_used_on_another_stream_is_waited_for_before_it_is_reused(gpu, fake):
    other = gpu.new_stream()
    buffer = gpu.allocate(100)
    buffer.used_on(other)
    buffer.used_on(other)
    del buffer
    assert fake.waits == [(gpu.stream.number, other.number)]


def test_exported_memory_waits_for_the_whole_device(gpu, fake):
    buffer = gpu.allocate(100)
    buffer.export()
    del buffer
    assert fake.calls["cuCtxSynchronize"] == 1


def test_the_limit_counts_and_the_message_has_sizes_and_state(fake):
    gpu = open_gpu(Driver(fake), limit=10_240)
    kept = gpu.allocate(6144)
    with pytest.raises(CudaOutOfMemory) as caught:
        gpu.allocate(5000)
    assert str(caught.value) == (
        "Pool.allocate: out of memory (limit of the pool, 2): 4.9 KiB asked for; the pool has 6 KiB in use in 1 block, 0 bytes kept, "
        "limit 10 KiB; cuda:0 has 1.0 GiB free of 1 GiB"
    )
    assert kept.size == 6144
    assert gpu.pool.statistics().in_use == 6144


def test_idle_memory_makes_room_under_the_limit(fake):
    gpu = open_gpu(Driver(fake), limit=10_240)
    first = gpu.allocate(6144)
    del first
    gpu.allocate(8192)


def test_a_full_device_is_tried_again_after_idle_memory_is_freed(fake):
    fake.capacity = 1 << 20
    gpu = open_gpu(Driver(fake))
    gpu.pool.keep = 1 << 20
    first = gpu.allocate(700_000)
    del first
    second = gpu.allocate(900_000)
    with pytest.raises(CudaOutOfMemory) as caught:
        gpu.allocate(200_000)
    assert "195.3 KiB asked for; the pool has 896 KiB in use in 1 block" in str(caught.value)
    del second
    gpu.allocate(200_000)


def test_devices_without_pools_use_plain_allocation(fake, monkeypatch):
    monkeypatch.setitem(__import__("fake_driver").ATTRIBUTES, "MEMORY_POOLS_SUPPORTED", 0)
    gpu = open_gpu(Driver(fake))
    buffer = gpu.allocate(100)
    del buffer
    gpu.pool.trim()
    assert fake.calls["cuMemAlloc"] == fake.calls["cuMemFree"] == 1
    assert fake.memory == {}


def test_buffers_dropped_while_the_pool_is_busy_are_collected_later(gpu):
    buffer = gpu.allocate(100)
    with gpu.pool._lock:
        del buffer
    assert gpu.pool.statistics().in_use == 0


def test_buffers_may_be_dropped_by_any_thread(gpu):
    def work():
        for _ in range(200):
            gpu.allocate(random.choice((100, 5000, 70_000)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gpu.pool.statistics().in_use == 0


def test_memory_is_for_streams_of_its_device(fake, gpu):
    fake.devices = 2
    with pytest.raises(ValueError, match=r"^memory of cuda:0 is allocated for its own streams, not cuda:1's$"):
        gpu.allocate(10, open_gpu(Driver(fake), 1).stream)


def test_nothing_can_be_allocated_on_a_stream_that_is_recorded(gpu):
    gpu.stream.recording = object()
    with pytest.raises(ValueError, match="can't be allocated on a stream that is being recorded"):
        gpu.allocate(10)


def test_streams_and_events_are_reused(gpu, fake):
    for _ in range(5):
        stream = gpu.new_stream()
        stream.record()
        del stream
    assert fake.calls["cuStreamCreateWithPriority"] == 2
    assert fake.calls["cuEventCreate"] == 1


@pytest.mark.parametrize("seed", range(40))
def test_whatever_call_fails_nothing_leaks(seed):
    chance = random.Random(seed)
    fake = FakeDriver()
    gpu = open_gpu(Driver(fake))
    gpu.pool.keep = 8192
    other = gpu.new_stream()
    failures = 0
    for _ in range(50):
        fake.fail_at[fake.calls.total() + chance.randrange(1, 8)] = chance.choice((1, 2))
        try:
            buffer = gpu.allocate(chance.choice((100, 3000, 9000)), chance.choice((gpu.stream, other)))
            if chance.random() < 0.5:
                buffer.used_on(chance.choice((gpu.stream, other)))
            elif chance.random() < 0.3:
                buffer.export()
            if chance.random() < 0.2:
                gpu.pool.trim()
        except CudaError:
            failures += 1
        buffer = None
    fake.fail_at.clear()
    gc.collect()
    gpu.pool.trim()
    assert failures > 0
    assert fake.memory == {}
    assert gpu.pool.statistics().in_use == gpu.pool.statistics().idle == 0
