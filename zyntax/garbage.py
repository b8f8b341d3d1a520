"""Python's search for circles of garbage. Imports and compilation make modules, code and trees, which live as long as the process, and the
search would walk over them again and again: the command `zyntax` begins without it."""

import gc

from runtime.uncollected import ends_with_program


def collect_from_here() -> None:
    """What comes from here on is searched, and what is there never, where the search is off."""
    if not gc.isenabled():
        ends_with_program()
        gc.freeze()
        gc.enable()
