"""Values of several numbers in kernel bodies: tuples, structs, enums, optionals. Each is its numbers in a fixed order, so that two of one
kind can be selected between, kept in variables, compared and reduced number by number."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from compiler.lowering.body import fault
from compiler.lowering.numbers import Choice, Number, Operand, Record, Tuple, literal
from compiler.source import Span
from compiler.typed_ast.types import DType

Composite = Tuple | Record | Choice
TAG = DType.I32
"""The type of the number that says which case a value is."""


def leaves(operand: Operand) -> list[Operand]:
    """The numbers of a value, in order; of what is no value of numbers the operand itself."""
    match operand:
        case Tuple(elements=elements):
            return [leaf for element in elements for leaf in leaves(element)]
        case Record(fields=fields):
            return [leaf for field in fields.values() for leaf in leaves(field)]
        case Choice(tag=tag, cases=cases, parts=parts):
            return [tag, *(leaf for case in cases for part in parts.get(case, {}).values() for leaf in leaves(part))]
        case _:
            return [operand]


def mapped(operand: Operand, new: Callable[[Number], Operand]) -> Operand:
    """The same value with other numbers, in the order of `leaves`."""
    match operand:
        case Tuple(elements=elements, counts=counts):
            return Tuple(tuple(mapped(element, new) for element in elements), counts)
        case Record(name=name, fields=fields):
            return Record(name, {field: mapped(value, new) for field, value in fields.items()})
        case Choice(name=name, cases=cases, tag=tag, parts=parts):
            new_tag = new(tag)
            assert isinstance(new_tag, Number)
            made = {case: {part: mapped(value, new) for part, value in parts[case].items()} for case in cases if case in parts}
            return Choice(name, cases, new_tag, made)
        case Number():
            return new(operand)
        case _:
            return operand


def of_numbers(operand: Operand, numbers: Iterable[Number]) -> Operand:
    """A value of this kind that is made of these numbers."""
    rest: Iterator[Number] = iter(numbers)
    return mapped(operand, lambda _: next(rest))


def numbers_of(operand: Operand, span: Span, what: str = "a value of a kernel") -> list[Number]:
    """The numbers of a value; anything that isn't made of numbers is an error."""
    found = leaves(operand)
    numbers = [leaf for leaf in found if isinstance(leaf, Number)]
    if len(numbers) != len(found):
        raise fault("0203", f"{what} is made of numbers, and this is {kind_of(operand)}", span)
    return numbers


def kind_of(operand: Operand) -> str:
    """What an operand is, in words."""
    match operand:
        case Number(dtype=dtype):
            return dtype.value
        case Tuple(elements=elements):
            return f"a tuple of {len(elements)}"
        case Record(name=name) | Choice(name=name):
            return f"a `{name}`"
        case _ if type(operand).__name__ == "TensorOperand":
            return "an array"
    return "no value"


def alike(first: Operand, second: Operand, span: Span) -> tuple[Operand, Operand]:
    """Two values of one kind with as many numbers each: parts that one of them lacks are zero there."""
    match first, second:
        case Number(), Number():
            return first, second
        case Tuple(elements=a), Tuple(elements=b) if len(a) == len(b):
            pairs = [alike(x, y, span) for x, y in zip(a, b, strict=True)]
            return Tuple(tuple(x for x, _ in pairs)), Tuple(tuple(y for _, y in pairs))
        case Record(name=name), Record(name=other) if name == other:
            x, y = _fields_alike(first.fields, second.fields, span)
            return Record(name, x), Record(name, y)
        case Choice(name=name), Choice(name=other) if name == other:
            left: dict[str, Mapping[str, Operand]] = {}
            right: dict[str, Mapping[str, Operand]] = {}
            for case in first.cases:
                mine, its = first.parts.get(case), second.parts.get(case)
                if mine is None and its is None:
                    continue
                left[case], right[case] = _fields_alike(mine or _zeros(its or {}), its or _zeros(mine or {}), span)
            return Choice(name, first.cases, first.tag, left), Choice(name, second.cases, second.tag, right)
    raise fault("0203", f"one of two is taken here, and they are {kind_of(first)} and {kind_of(second)}", span)


def _fields_alike(a: Mapping[str, Operand], b: Mapping[str, Operand], span: Span) -> tuple[dict[str, Operand], dict[str, Operand]]:
    pairs = {name: alike(a[name], b[name], span) for name in a}
    return {name: x for name, (x, _) in pairs.items()}, {name: y for name, (_, y) in pairs.items()}


def _zeros(parts: Mapping[str, Operand]) -> Mapping[str, Operand]:
    return {name: mapped(part, zero_of) for name, part in parts.items()}


def unknown_case(operand: Operand) -> str | None:
    """A type that a program could write, where nothing is known of the parts of a case."""
    match operand:
        case Choice(name=name, cases=cases, parts=parts) if any(case not in parts for case in cases):
            return {"Option": "Option<f32>", "Result": "Result<f32, i32>"}.get(name, name)
        case Tuple() | Record() | Choice():
            return next((found for part in _direct(operand) if (found := unknown_case(part)) is not None), None)
    return None


def _direct(operand: Composite) -> list[Operand]:
    match operand:
        case Tuple(elements=elements):
            return list(elements)
        case Record(fields=fields):
            return list(fields.values())
        case Choice(parts=parts):
            return [part for case in parts.values() for part in case.values()]


def zero_of(number: Number) -> Number:
    """A zero of the number's type."""
    if number.dtype is DType.BOOL:
        return literal(False)
    return literal(0 if number.dtype.is_int else 0.0, None if number.weak else number.dtype)


def tag(case: int) -> Number:
    return Number(TAG, form=None, literal=case)


def optional(value: Operand | None) -> Choice:
    """`Some(value)`, or `None` of something."""
    parts: Mapping[str, Mapping[str, Operand]] = {"None": {}} if value is None else {"None": {}, "Some": {"0": value}}
    return Choice("Option", ("None", "Some"), tag(0 if value is None else 1), parts)


def outcome(case: str, value: Operand) -> Choice:
    """`Ok(value)` or `Err(value)`."""
    return Choice("Result", ("Ok", "Err"), tag(("Ok", "Err").index(case)), {case: {"0": value}})
