"""Types of host functions, and those that stand for a choice: optionals, results, enums. All are plain structs with a tag, laid out as C
does; an enum's variants keep their fields side by side."""

from collections.abc import Mapping, Sequence

from compiler.hir.types import HirType, Struct, Tile

I1, I8, I16, I32, I64, I128 = (Tile(name) for name in ("i1", "i8", "i16", "i32", "i64", "i128"))
U8, U16, U32, U64, U128 = (Tile(name) for name in ("u8", "u16", "u32", "u64", "u128"))
F32, F64 = Tile("f32"), Tile("f64")

Fields = Sequence[tuple[str, HirType]]


def struct(name: str, **fields: HirType) -> Struct:
    return Struct(name, tuple(fields.items()))


def optional(type: HirType) -> Struct:
    """`T?` in memory: all zero is none."""
    return struct("optional", present=I1, value=type)


def result(value: HirType, error: HirType) -> Struct:
    """`Result<T, E>` in memory."""
    return struct("result", ok=I1, value=value, error=error)


def enum(name: str, variants: Mapping[str, Fields]) -> Struct:
    """An enum in memory: the number of the variant as `tag`, and every variant's fields as `variant.field`."""
    fields: list[tuple[str, HirType]] = [("tag", U8)]
    for variant, own in variants.items():
        fields += [(f"{variant}.{field}", type) for field, type in own]
    assert len(variants) <= 256, f"{name} has {len(variants)} variants"
    return Struct(name, tuple(fields))
