"""The suffixes that numbers may have, in words."""

from collections.abc import Iterable

from compiler.typed_ast.units import BYTES, NANOSECONDS

TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")


def known_suffixes(of_types: Iterable[str]) -> str:
    """All of them, for a hint; `of_types`: those of the program's abstract types."""
    own = sorted({word for word in of_types if word and word not in NANOSECONDS})
    sizes = [word for word in BYTES if word != "B"]
    groups = [("types", TYPES), ("durations", NANOSECONDS), ("sizes", sizes), *([("of the program", own)] if own else [])]
    return ", ".join(f"{what} {' '.join(f'`{word}`' for word in words)}" for what, words in groups)


def suffix_hint(of_types: Iterable[str]) -> str:
    return f"suffixes known are {known_suffixes(of_types)}"
