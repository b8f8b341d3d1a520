"""Sums of products by letters: `einsum("ij,jk->ik", a, b)`. The loops are written as a compute block, which is compiled for the shapes."""

from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import UNKNOWN, DType, Scalar, Type
from runtime.records import frozen
from runtime.tensor import Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import element_dtype, join
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import dims_of, shape_text, tensor_type
from zynml.stdlib.structure import as_tensor_type
from zynml.stdlib.windows import summed
from zynml.stdlib.written import generated

family = FunctionFamily()


@frozen
class LetterSum:
    """`ij,jk->ik`: the letters of each operand's axes and those of the result, all others being summed over."""

    operands: tuple[str, ...]
    result: str

    @property
    def summed(self) -> str:
        return "".join(dict.fromkeys(letter for letter in "".join(self.operands) if letter not in self.result))


class _WrongLetters(Exception):
    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def read_letters(text: str) -> LetterSum:
    """The letters of a text. Without `->`, the result has those that occur once, in the order of the alphabet. Raises _WrongLetters."""
    left, arrow, right = text.replace(" ", "").partition("->")
    operands = tuple(left.split(","))
    letters = "".join(operands)
    if not all(letter.isalpha() and letter.isascii() for letter in letters + right):
        raise _WrongLetters("0203", f'"{text}" isn\'t made of letters', 'write a letter for each axis: `einsum("ij,jk->ik", a, b)`')
    if not arrow:
        right = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    if len(set(right)) != len(right):
        raise _WrongLetters("0203", f'the result of "{text}" has a letter twice', "a letter names one axis of the result")
    unknown = next((letter for letter in right if letter not in letters), None)
    if unknown is not None:
        message = f'`{unknown}` of the result stands in no operand of "{text}"'
        raise _WrongLetters("0203", message, "each axis of the result is one of an operand")
    return LetterSum(operands, right)


def _require_ranks(sum_: LetterSum, text: str, ranks: list[int | None]) -> None:
    if len(ranks) != len(sum_.operands):
        count = "1 tensor" if len(sum_.operands) == 1 else f"{len(sum_.operands)} tensors"
        are = "1 is" if len(ranks) == 1 else f"{len(ranks)} are"
        raise _WrongLetters("0204", f'"{text}" takes {count}, but {are} given')
    for letters, rank in zip(sum_.operands, ranks, strict=True):
        if rank is not None and rank != len(letters):
            raise _WrongLetters("0301", f"`{letters}` names {len(letters)} axes, and the tensor has {rank}")


def _program(sum_: LetterSum, scalar: bool) -> str:
    """A function of the operands with a block of loops over all letters."""
    names = [f"x{number}" for number in range(len(sum_.operands))]
    factors = " * ".join(f"{n}[{', '.join(map(_index, letters))}]" for n, letters in zip(names, sum_.operands, strict=True))
    outer = ", ".join(f"{_index(letter)} in 0..{_size(letter)}" for letter in sum_.result)
    inner = ", ".join(f"{_index(letter)} in 0..{_size(letter)}" for letter in sum_.summed)
    head = f"def sum_of_products({', '.join(names)}) {{ compute({', '.join(names)})"
    if scalar:
        return f"{head} @kernel(reduce, +) {{ for {inner}: yield {factors} }} }}\n"
    place = ", ".join(map(_index, sum_.result))
    if not inner:
        return f"{head} {{ for {outer}: out[{place}] = {factors} }} }}\n"
    return f"{head} {{\n    for {outer}:\n        var s = 0\n        for {inner}: s += {factors}\n        out[{place}] = s\n}} }}\n"


def _index(letter: str) -> str:
    return f"i_{letter}" if letter.islower() else f"i_{letter.lower()}{letter.lower()}"


def _size(letter: str) -> str:
    return f"N_{letter}"


def _rule(calls: CallTypes) -> Type:
    text, given = calls.constants.get("equation"), calls.types.get("tensors", ())
    kinds = [as_tensor_type(kind) for kind in given]
    dtypes = [element_dtype(kind) for kind in given]
    dtype = None if None in dtypes else _joined([one for one in dtypes if one is not None])
    if not isinstance(text, str):
        return UNKNOWN
    try:
        sum_ = read_letters(text)
        dims = [dims_of(kind) if kind is not None else None for kind in kinds]
        _require_ranks(sum_, text, [len(one) if one is not None else None for one in dims])
    except _WrongLetters as wrong:
        raise TypeFault(wrong.code, wrong.message, hint=wrong.hint) from None
    extents = {l: d for letters, one in zip(sum_.operands, dims, strict=True) if one is not None for l, d in zip(letters, one, strict=True)}
    dtype = summed(dtype) if sum_.summed else dtype
    if not sum_.result:
        return Scalar(dtype) if dtype is not None else UNKNOWN
    return tensor_type(dtype, tuple(extents.get(letter) for letter in sum_.result))


def _joined(dtypes: list[DType]) -> DType | None:
    found = dtypes[0] if dtypes else None
    for dtype in dtypes[1:]:
        found = join(found, dtype) if found is not None else None
    return found


@family.function("einsum", result=_rule, variadic="tensors", uses_settings=True, equation="String")
def einsum(settings: StdlibSettings, equation: Any, tensors: Any) -> Any:
    """Products of the tensors, a letter for each axis, summed over the letters that the result doesn't have: `einsum("ij,jk->ik", a, b)`
    is the matrix product."""
    values = [to_tensor(value) for value in tensors]
    try:
        sum_ = read_letters(str(equation))
        _require_ranks(sum_, str(equation), [len(value.shape) for value in values])
    except _WrongLetters as wrong:
        raise LibraryFault(wrong.code, wrong.message, wrong.hint) from None
    extents: dict[str, int] = {}
    for letters, value in zip(sum_.operands, values, strict=True):
        if DType(value.dtype_name) is DType.BOOL:
            raise LibraryFault("0208", "`einsum` is not defined for elements of bool", "convert them: `x as f32`")
        for letter, extent in zip(letters, value.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise LibraryFault("0301", f"`{letter}` is {extents[letter]} in one place and {extent} in another: {_shapes(values)}")
    scalar = not sum_.result
    title = f"einsum {','.join(sum_.operands)}->{sum_.result}"
    return generated(settings, title, lambda: _program(sum_, scalar and bool(sum_.summed)), "sum_of_products")(*values)


def _shapes(values: list[Tensor]) -> str:
    return " and ".join(shape_text(value.shape) for value in values)
