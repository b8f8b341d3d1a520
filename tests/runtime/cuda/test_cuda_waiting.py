"""How long the host waits for a device: on a clock that only sleeps and looks move."""

import pytest

from runtime.cuda import stream
from runtime.cuda.errors import CudaTimeout

LOOK = 2e-6
"""What it takes to ask the driver."""


class Clock:
    def __init__(self, ready_at):
        self.now, self.ready_at, self.looks = 100.0, 100.0 + ready_at, 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def ready(self):
        self.looks += 1
        self.now += LOOK
        return self.now >= self.ready_at


@pytest.mark.parametrize("seconds", [0.0, 1e-4, 3e-3, 1e-2, 0.05, 1.0])
def test_little_is_waited_too_long_and_the_host_mostly_sleeps(monkeypatch, seconds):
    clock = Clock(seconds)
    monkeypatch.setattr(stream, "time", clock)
    stream.poll(clock.ready, None, "the work")
    late = clock.now - 100.0 - seconds
    assert 0 <= late <= max(seconds / 190, 25e-6)
    assert clock.looks <= 2000 + 1000 * seconds


def test_time_limits(monkeypatch):
    clock = Clock(5.0)
    monkeypatch.setattr(stream, "time", clock)
    with pytest.raises(CudaTimeout, match="the work did not end within"):
        stream.poll(clock.ready, 0.25, "the work")
    assert 0.25 <= clock.now - 100.0 <= 0.26
