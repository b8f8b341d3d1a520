"""How types of the language are held: what parts a value has, which HIR type lies in memory, which numbers travel."""

from collections.abc import Iterator

from compiler.hir import native_types as native
from compiler.hir.types import Array, HirType, Pointer, Struct, Tile
from compiler.lowering.native.rules import NativeRules, TypeLowering
from compiler.typed_ast.exhaustiveness import Cases, CasesOf, Parts
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    NONE,
    STRING,
    UNIT,
    ArrayType,
    DType,
    EnumType,
    OptionType,
    ResultType,
    Scalar,
    Size,
    StructType,
    TupleType,
    Type,
)
from runtime.records import define, field

_NO_FORM = TypeLowering()


@define(eq=False)
class Layouts:
    """Answers for one program; `cases_of` knows the parts of its structs and enums."""

    rules: NativeRules
    cases_of: CasesOf
    _cases: dict[Type, Cases] = field(factory=dict)
    _parts: dict[Type, Parts | None] = field(factory=dict)
    _memory: dict[Type, HirType] = field(factory=dict)
    _in_memory: dict[Type, bool] = field(factory=dict)

    def cases(self, type: Type) -> Cases:
        """The cases of a type with their parts; the one case of a struct is ""."""
        if type not in self._cases:
            self._cases[type] = self.cases_of(type) or {}
        return self._cases[type]

    def number(self, type: Type) -> Tile | None:
        """The number that a value of this type is, or None where it is more or less than one."""
        match type:
            case Scalar(dtype=dtype):
                return native.I1 if dtype is DType.BOOL else Tile(dtype.value)
            case EnumType() if not self._has_values(type):
                return native.U8
        return self.added(type).number(type)

    def parts(self, type: Type) -> Parts:
        """Names and types of what a value is made of, in the order of memory. Neither a number nor a container has any."""
        if type not in self._parts:
            self._parts[type] = self._found(type)
        found = self._parts[type]
        if found is None:
            raise self.rules.not_in_place(type, None)
        return found

    def _found(self, type: Type) -> Parts | None:
        match type:
            case OptionType(value=value):
                return ("present", BOOL), ("value", value)
            case ResultType(value=value, error=error):
                return ("ok", BOOL), ("value", value), ("error", error)
            case TupleType(elements=elements):
                return tuple((str(number), element) for number, element in enumerate(elements))
            case StructType():
                return self.cases(type)[""]
            case EnumType() if self._has_values(type):
                own = [(f"{case}.{name}", part) for case, parts in self.cases(type).items() for name, part in parts]
                return ("tag", Scalar(DType.U8)), *own
        return () if type in (UNIT, ERROR, NONE) else self.added(type).parts(type)

    def added(self, type: Type) -> TypeLowering:
        """How a language holds a type that it adds."""
        return self.rules.types.get(type.__class__, _NO_FORM)

    def _has_values(self, type: EnumType) -> bool:
        return any(self.cases(type).values())

    def tags(self, type: Type) -> dict[str, int]:
        """The cases of an enum by name, numbered as they are declared."""
        assert isinstance(type, EnumType)
        return {name: number for number, name in enumerate(self.cases(type))}

    def in_memory(self, type: Type) -> bool:
        """Whether values of this type are always kept in memory: those with containers in them."""
        if type not in self._in_memory:
            self._in_memory[type] = isinstance(type, ArrayType) or self.added(type).in_memory(type) or self._holds_containers(type)
        return self._in_memory[type]

    def _holds_containers(self, type: Type) -> bool:
        if self.number(type) is not None or type == STRING or self.added(type).apart:
            return False
        return any(self.in_memory(part) for _, part in self.parts(type))

    def memory(self, type: Type) -> HirType:
        """The type in memory."""
        if type not in self._memory:
            self._memory[type] = self._made(type)
        return self._memory[type]

    def _made(self, type: Type) -> HirType:
        number, added = self.number(type), self.added(type)
        if number is not None:
            return number
        if added.memory is not None:
            return added.memory(self, type)
        match type:
            case ArrayType(element=element):
                return Array(self.memory(element), self.size(type))
            case OptionType(value=value):
                return native.optional(self.memory(value))
            case ResultType(value=value, error=error):
                return native.result(self.memory(value), self.memory(error))
        fields = tuple((name, self.memory(part)) for name, part in self.parts(type))
        return Struct(type.name if isinstance(type, StructType | EnumType) else "tuple", fields)

    def is_sized(self, type: Type) -> bool:
        """Whether types of this kind have a capacity, known or not."""
        return isinstance(type, ArrayType) or self.added(type).sized

    def size(self, type: Type) -> int:
        """The capacity of an array or another container."""
        size = getattr(type, "size", None)
        assert isinstance(size, Size) and size.value is not None, f"`{type}` without a size"
        return size.value

    def leaves(self, type: Type, name: str = "") -> Iterator[tuple[str, HirType]]:
        """The numbers of a value in order, with names that begin with `name`; what is kept in memory travels as its address."""
        if self.in_memory(type):
            yield name, Pointer(self.memory(type))
            return
        number = self.number(type)
        if number is not None:
            yield name, number
            return
        for part, found in self.parts(type):
            yield from self.leaves(found, f"{name}.{part}" if name else part)
