"""What is told of the processor."""

from runtime.cpu import detect


def test_the_widest_vector_that_the_features_name() -> None:
    assert detect.vector_bits("+sse2,+avx,+avx2,+avx512f") == 512
    assert detect.vector_bits("+sse2,+avx2,-avx512f") == 256
    assert detect.vector_bits("+sse2") == 128
    assert detect.vector_bits("+neon,+fp-armv8") == 128
    assert detect.vector_bits("") == 0


def test_this_machine_in_one_line() -> None:
    (line,) = detect.describe()
    assert line.startswith("cpu ")
    assert detect.host_cpu() in line
    assert detect.cores() >= 1


def test_caches_grow_with_their_level() -> None:
    sizes = [size for name, size in sorted(detect.caches().items()) if not name.endswith("i")]
    assert sizes == sorted(sizes)
    assert all(size >= 1024 for size in sizes)
