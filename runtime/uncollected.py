"""Work during which Python looks for no garbage. What the compiler makes is needed until it is done, and a look through all objects of
a process (beside PyTorch, a million) takes longer than some of its stages."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Inside, collections don't start by themselves; nor do other threads' until then. The next ones are the small ones that they would be
    without what was made inside: that counts as old, which a look through everything alone reaches."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _age()
        gc.enable()


class _Process:
    ends_with_program = False
    has_frozen = False
    """Whether there were objects that are never looked at. They are counted until there are some, since to count a million takes 7 ms."""


def _age() -> None:
    """Puts what there is among the old objects, without a look at them. Who has objects that are never looked at keeps them so; a command
    has them."""
    if _Process.ends_with_program or _Process.has_frozen:
        return
    if gc.get_freeze_count():
        _Process.has_frozen = True
    else:
        gc.freeze()
        gc.unfreeze()


def ends_with_program() -> None:
    """Says that the process is there for one program, and ends with it."""
    _Process.ends_with_program = True


@contextmanager
def importing() -> Iterator[None]:
    """Imports of large packages: inside, no collections; and in a process that ends with its program none looks at them later. What else
    there is then is kept from it too, which costs memory only where it is garbage in a circle one day."""
    before = len(sys.modules)
    with uncollected():
        yield
        if _Process.ends_with_program and len(sys.modules) > before:
            gc.freeze()
