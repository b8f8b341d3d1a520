"""Work during which Python looks for no garbage. What the compiler makes is needed until it is done, and a look through all objects of
a process (beside PyTorch, a million) takes longer than some of its stages."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, collections don't start by themselves; nor do other threads' until then."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
