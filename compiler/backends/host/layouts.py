"""How values of a program's structs and enums lie in Python: the class of each, and the types of its parts."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from compiler.typed_ast.types import UNKNOWN, ArrayType, EnumType, OptionType, ResultType, StructType, TupleType, Type
from runtime.records import frozen
from runtime.values import OF_DURATIONS, Err, Nothing, Ok, RecordValue, Some, StructValue, case_classes, struct_class

if TYPE_CHECKING:
    from compiler.typed_ast.declarations import Declarations
    from compiler.typed_ast.nodes import EnumDeclaration, Function, Struct, Variant
    from compiler.typed_ast.resolve_types import TypeResolver

Fields = tuple[tuple[str, Type], ...]


def class_of_struct(declared: "Declarations[Function]", name: str) -> type[StructValue]:
    """The class of the values of a struct that a program declares."""
    struct = declared.structs[name]
    return struct_class("" if name.startswith("{") else name, [field.name for field in struct.fields], _suffix(declared, struct))


def _suffix(declared: "Declarations[Function]", struct: "Struct") -> str | None:
    """The suffix of numbers that are values of an abstract type as they stand; those of its other suffixes are given to functions."""
    if struct.suffixes is None:
        return None
    if id(struct) in declared.foreign:
        return OF_DURATIONS
    return next((suffix for suffix in struct.suffixes if f"{struct.name}::{suffix}" not in declared.functions), "")


@frozen
class CaseLayout:
    """A case, or a struct as the only one: the class of its values, and its parts by name with their types."""

    values: type[RecordValue]
    parts: Fields


class RecordLayouts:
    """The layouts of one program. `declared` are its types, which `types` reads."""

    def __init__(self, declared: "Declarations[Function]", types: "TypeResolver") -> None:
        self.declared = declared
        self.types = types
        self._start()

    def _start(self) -> None:
        self.known: dict[Type, dict[str, CaseLayout] | None] = {}
        """What was asked for until now."""
        self._holds: dict[Type, bool] = {}
        self._values: dict[type, RecordValue] = {}

    def struct(self, name: str) -> type[StructValue]:
        return class_of_struct(self.declared, name)

    def fields(self, struct: StructType) -> Fields:
        """A struct's fields; their types are unknown where its type arguments are."""
        node = self.declared.structs[struct.name]
        types = self.types.within(self._arguments(node, struct.arguments))
        return tuple((f.name, UNKNOWN if f.annotation is None else types.resolve(f.annotation)) for f in node.fields)

    def _arguments(self, node: "Struct | EnumDeclaration", given: tuple[Type, ...]) -> dict[str, Type]:
        names = [parameter.name for parameter in node.type_parameters]
        return dict(zip(names, given if len(given) == len(names) else (UNKNOWN,) * len(names), strict=True))

    def cases(self, of: Type) -> Mapping[str, CaseLayout] | None:
        """The cases of a type by name, that of a struct by the struct's; None of a type that has none."""
        if of not in self.known:
            self.known[of] = self._cases(of)
        return self.known[of]

    def _cases(self, of: Type) -> dict[str, CaseLayout] | None:
        match of:
            case StructType(name=name) if name in self.declared.structs:
                return {name: CaseLayout(self.struct(name), self.fields(of))}
            case EnumType(name=name) if name in self.declared.enums:
                variants = self.declared.enums[name].variants
                types = self.types.within(self._arguments(self.declared.enums[name], of.arguments))
                parts = [_variant(variant, types) for variant in variants]
                classes = case_classes(name, [(v.name, [n for n, _ in own]) for v, own in zip(variants, parts, strict=True)])
                return {v.name: CaseLayout(cls, own) for v, cls, own in zip(variants, classes, parts, strict=True)}
            case OptionType(value=value):
                return {"Some": CaseLayout(Some, (("0", value),)), "None": CaseLayout(Nothing, ())}
            case ResultType(value=value, error=error):
                return {"Ok": CaseLayout(Ok, (("0", value),)), "Err": CaseLayout(Err, (("0", error),))}
        return None

    def named(self, name: str, enum: str | None = None) -> tuple[CaseLayout, ...]:
        """All that a name may stand for in a pattern where the type isn't known: a struct, cases of enums (of `enum` only, if it is given),
        those of optionals and results."""
        wrappers = (OptionType(UNKNOWN), ResultType(UNKNOWN, UNKNOWN))
        found = [case for of in wrappers for known, case in (self.cases(of) or {}).items() if known == name]
        if name in self.declared.structs:
            found += (self.cases(StructType(name)) or {}).values()
        for declaration, _ in self.declared.cases.get(name, ()):
            if enum in (None, declaration.name):
                found.append((self.cases(EnumType(declaration.name)) or {})[name])
        return tuple(found)

    def value(self, case: CaseLayout) -> RecordValue:
        """The one value of a case without parts."""
        return self._values.setdefault(case.values, case.values())

    def parts(self, value: RecordValue) -> Fields | None:
        """The parts of a value whose class tells their types; None of one of another program, of an optional or a result."""
        shape = value.__record__
        of = EnumType(shape.enum) if shape.enum else StructType(shape.name)
        case = (self.cases(of) or {}).get(shape.name)
        return None if case is None or case.values is not type(value) else case.parts

    def holds_arrays(self, of: Type) -> bool:
        """Whether a value of the type is, or has as a part, an array `[T; N]`, so that a copy of it is more than the value itself."""
        if of not in self._holds:
            self._holds[of] = False  # A type that holds itself, which the checker reports, ends here.
            self._holds[of] = self._has_array(of)
        return self._holds[of]

    def _has_array(self, of: Type) -> bool:
        if isinstance(of, ArrayType):
            return True
        inner = of.elements if isinstance(of, TupleType) else [t for case in (self.cases(of) or {}).values() for _, t in case.parts]
        return any(map(self.holds_arrays, inner))


def _variant(variant: "Variant", types: "TypeResolver") -> Fields:
    numbered = tuple((str(number), types.resolve(element)) for number, element in enumerate(variant.elements))
    return numbered or tuple((f.name, types.resolve(f.annotation)) for f in variant.fields if f.annotation is not None)


class NoLayouts(RecordLayouts):
    """Of a program without structs and enums. Such programs start without what reads declarations."""

    def __init__(self) -> None:
        self._start()

    @cached_property
    def declared(self) -> "Declarations[Function]":  # type: ignore[override]
        from compiler.typed_ast.declarations import Declarations
        from compiler.typed_ast.nodes import Function

        return Declarations((Function,))

    @cached_property
    def types(self) -> "TypeResolver":  # type: ignore[override]
        from compiler.typed_ast.resolve_types import TypeResolver

        return TypeResolver(lambda diagnostic: None, self.declared)


NO_LAYOUTS = NoLayouts()
