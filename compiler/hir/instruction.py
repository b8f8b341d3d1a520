"""How an instruction is declared: once, as a class whose fields say what they are. The printer, the parser, the verifier, the
interpreter and every rewrite read the declaration.

    @instruction("select", Family.PLAIN)
    class Select(Instruction):
        "`then` where `condition` holds, else `otherwise`."
        condition: Value = operand()
        then: Value = operand()
        otherwise: Value = operand()

Fields are operands (one value), operand lists, optional operands, attributes (plain data: numbers, names, affine forms) or
regions. Names in affine attributes are uses too: `Instruction.symbols` lists them."""

from collections.abc import Callable, Iterator
from enum import Enum, Flag, auto
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from compiler.hir.affine import Affine
from compiler.hir.types import HirType
from compiler.source import Span
from runtime.records import Factory, define, field, fields_of
from runtime.tuples import as_tuple


@define(eq=False)
class Value:
    """A result of an instruction, a parameter of a function or of a region. Names are unique in a function."""

    name: str
    type: HirType
    source: "Instruction | None" = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"%{self.name}"


@define(eq=False)
class Region:
    """A nested list of instructions; `parameters` are its own values (a loop's variable and what it carries)."""

    parameters: list[Value] = Factory(list)
    body: "list[Instruction]" = Factory(list)


_C = TypeVar("_C", bound=type)


class Effect(Flag):
    """What an instruction does besides computing its results. PURE is none of these."""

    PURE = 0
    READ = auto()
    WRITE = auto()
    SYNC = auto()
    CONTROL = auto()
    FAULT = auto()


class InstructionFamily(Enum):
    """Families of instructions; the starred ones of the design are the seed's GPU set."""

    PLAIN = "plain"
    MONOID = "monoid"
    AXIS = "axis"
    MEMORY = "memory"
    CONTROL = "control"
    INDEX = "index"
    SYNC = "sync"
    SHARED = "shared"
    ATOMIC = "atomic"
    WARP = "warp"
    TENSOR_CORE = "tensor core"
    ASYNC = "async"
    HOPPER = "hopper"
    RING = "ring"
    LIBRARY = "library"
    HOST = "host"

    @property
    def is_gpu(self) -> bool:
        return self in _GPU_FAMILIES


class Role(Enum):
    """What a field of an instruction is."""

    OPERAND = "operand"
    OPTIONAL = "optional operand"
    OPERANDS = "operands"
    ATTRIBUTE = "attribute"
    REGION = "region"
    OPTIONAL_REGION = "optional region"


def operand() -> Any:
    return field(metadata={"role": Role.OPERAND})


def optional_operand() -> Any:
    return field(default=None, metadata={"role": Role.OPTIONAL})


def operands() -> Any:
    return field(default=(), converter=as_tuple, metadata={"role": Role.OPERANDS})


_NONE_GIVEN = object()


def attribute(default: Any = _NONE_GIVEN, converter: Callable[[Any], Any] | None = None) -> Any:
    options = {} if default is _NONE_GIVEN else {"default": default}
    return field(**options, converter=converter, metadata={"role": Role.ATTRIBUTE})


def region() -> Any:
    return field(factory=Region, metadata={"role": Role.REGION})


def optional_region() -> Any:
    return field(default=None, metadata={"role": Role.OPTIONAL_REGION})


def _declared(cls: _C) -> _C:
    """`define`, so wrapped that checkers take the `__init__` below for all classes."""
    return define(eq=False, kw_only=True)(cls)


@_declared
class Instruction:
    """Base of all instructions. `results` are made by the builder from `result_types`."""

    mnemonic: ClassVar[str] = ""
    family: ClassVar[InstructionFamily] = InstructionFamily.PLAIN
    effects: ClassVar[Effect] = Effect.PURE
    operators: ClassVar[dict[str, str]] = {}
    """Of a class declared by a table: operator to meaning."""

    results: list[Value] = Factory(list)
    span: Span | None = None

    if TYPE_CHECKING:  # each class has its own fields, which checkers can't see through the decorator

        __attrs_attrs__: ClassVar[Any]

        def __init__(self, **fields: Any) -> None: ...

    def result_types(self, scope: "ValueScope") -> list[HirType]:
        """Types of the results, from the operands. `scope` knows axes and the types of names in affine attributes."""
        raise NotImplementedError(f"{self.mnemonic} declares no result types")

    def check(self, scope: "ValueScope") -> Iterator[str]:
        """What is wrong with this instruction, in words, one string each; beyond what the declaration already says."""
        return iter(())

    @property
    def result(self) -> Value:
        return self.results[0]

    @property
    def name(self) -> str:
        """The word the text form begins with: the mnemonic, or the operator of a family declared by a table."""
        return getattr(self, "operator", self.mnemonic)

    @classmethod
    def fields(cls, *roles: Role) -> list[str]:
        """Names of the fields with one of these roles, in order of declaration."""
        return [f.name for f in fields_of(cls) if f.metadata.get("role") in roles]

    def roles(self) -> tuple[tuple[str, Role], ...]:
        """Each field that has a role, with it."""
        cls: Any = type(self)
        return _roles(cls)

    @property
    def operand_values(self) -> list[Value]:
        values: list[Value] = []
        for name in _VALUES[type(self)]:
            value = getattr(self, name)
            if isinstance(value, Value):
                values.append(value)
            elif value is not None:
                values.extend(value)
        return values

    @property
    def regions(self) -> list[Region]:
        names = _REGIONS[type(self)]
        return [value for name in names if (value := getattr(self, name)) is not None] if names else []

    @property
    def symbols(self) -> list[str]:
        """Names used through affine attributes."""
        names: list[str] = []
        for name in _ATTRIBUTES[type(self)]:
            value = getattr(self, name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Affine):
                    names.extend(part.names)
        return list(dict.fromkeys(names))

    def walk(self) -> "Iterator[Instruction]":
        """This instruction, then all inside its regions, in order."""
        yield self
        for inner in self.regions:
            for nested in inner.body:
                if _REGIONS[type(nested)]:
                    yield from nested.walk()
                else:
                    yield nested


@cache
def _roles(cls: Any) -> tuple[tuple[str, Role], ...]:
    return tuple((f.name, f.metadata["role"]) for f in fields_of(cls) if f.metadata.get("role") is not None)


class _RoleFields(dict[type[Instruction], list[str]]):
    """Names of the fields with certain roles, looked up once a class."""

    def __init__(self, *roles: Role) -> None:
        self.roles = roles

    def __missing__(self, cls: type[Instruction]) -> list[str]:
        self[cls] = cls.fields(*self.roles)
        return self[cls]


_VALUES = _RoleFields(Role.OPERAND, Role.OPTIONAL, Role.OPERANDS)
_REGIONS = _RoleFields(Role.REGION, Role.OPTIONAL_REGION)
_ATTRIBUTES = _RoleFields(Role.ATTRIBUTE)


class ValueScope:
    """What result types and checks may ask: the function's axes, and the type behind a name in an affine form."""

    def __init__(self, axes: dict[str, Affine], types: dict[str, HirType]) -> None:
        self.axes = axes
        self.types = types

    def axes_of(self, *forms: Affine) -> tuple[tuple[str, Affine], ...]:
        """Axes along which an index of these forms varies: axes named directly, and those of named tile values."""
        axes: dict[str, Affine] = {}
        for form in forms:
            for name in form.names:
                if name in self.axes:
                    axes[name] = self.axes[name]
                else:
                    axes.update(getattr(self.types.get(name), "axes", ()))
        return tuple(axes.items())


INSTRUCTIONS: dict[str, type[Instruction]] = {}
"""Every declared instruction by mnemonic. Import `compiler.hir.instructions` to have them all."""

_I = TypeVar("_I", bound=type[Instruction])


def instruction(mnemonic: str, family: InstructionFamily, effects: Effect = Effect.PURE) -> Callable[[_I], _I]:
    """Declare the class below as an instruction."""

    def declare(cls: _I) -> _I:
        declared = define(eq=False, kw_only=True)(cls)
        declared.mnemonic, declared.family, declared.effects = mnemonic, family, effects
        assert mnemonic not in INSTRUCTIONS, f"{mnemonic} is declared twice"
        INSTRUCTIONS[mnemonic] = declared
        return declared

    return declare


def instruction_table(
    operators: dict[str, str], family: InstructionFamily, effects: Effect = Effect.PURE
) -> Callable[[_I], _I]:
    """Declare the class below for every operator of the table (operator to meaning); its attribute `operator` tells which."""

    def declare(cls: _I) -> _I:
        declared = define(eq=False, kw_only=True)(cls)
        declared.family, declared.effects, declared.mnemonic, declared.operators = family, effects, cls.__name__.lower(), operators
        for operator in operators:
            assert operator not in INSTRUCTIONS, f"{operator} is declared twice"
            INSTRUCTIONS[operator] = declared
        return declared

    return declare


_GPU_FAMILIES = {
    InstructionFamily.INDEX,
    InstructionFamily.SYNC,
    InstructionFamily.SHARED,
    InstructionFamily.ATOMIC,
    InstructionFamily.WARP,
    InstructionFamily.TENSOR_CORE,
    InstructionFamily.ASYNC,
    InstructionFamily.HOPPER,
}
