"""The helpers that generated code calls, under the generated names that stand for them: everything whose meaning depends on
values that the types didn't tell. One table a program, bound to its library."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from compiler.backends.host import numbers
from compiler.backends.host.conversions import Conversions
from compiler.backends.host.fitted import Fitting
from compiler.backends.host.futures import AWAITING, LATE
from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.naming import MARK
from compiler.backends.host.numbers import shown
from compiler.backends.host.record_values import (
    array_of,
    element_at,
    filled,
    has_value,
    is_one_of,
    is_tuple_of,
    misfit_of_pattern,
    part_index,
    plain_element,
    store_element,
    unmatched,
    with_element,
    with_part,
)
from compiler.backends.host.remembered import remembered
from compiler.backends.host.streaming import STREAMING, iterated
from compiler.backends.host.thrown import as_error, caught, is_error, throw
from compiler.backends.host.values import (
    Bounds,
    convert,
    describe,
    invoke,
    iterate,
    kind_of,
    kind_of_type,
    make_range,
    truth,
    unpack,
    unpack_list,
    weak_to,
)
from compiler.typed_ast.arguments import ArgumentSlot, Misfit, assigned
from compiler.typed_ast.library import REQUIRED, Library, LibraryFault, LibraryFunction
from compiler.typed_ast.shapes import substitute
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import DeclaredType, DType, Quotient, Scalar, ShapeExpr, Type
from runtime.host_tasks import both
from runtime.tensor import Tensor
from runtime.values import ElementSet, RecordValue, copied, elements_of, is_array, replaced

Helper = Callable[..., Any]

_PLAIN_KEYS = (int, str, bool)
"""Types of keys that are looked up as they are."""
SIGNATURES_REMEMBERED = 256
"""Combinations of layouts that a function remembers as fitting."""

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "**": "pow", "<<": "shl", ">>": "shr", "&": "bitand"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
"""Operators and how library entries spell them: `operator add`."""


class Missing:
    """Stands for an argument that a call leaves out."""


MISSING = Missing()


def one_more_round(before: int, bound: int) -> int:
    """The rounds of a `while` with a bound so far, with the one that begins."""
    if before >= bound:
        raise LibraryFault("0808", f"the condition still holds after `max` {bound} rounds")
    return before + 1


def helpers(library: Library, layouts: RecordLayouts) -> dict[str, Any]:
    """All helpers by generated name. `layouts`: those of the program's structs and enums."""
    table: dict[str, Helper] = {
        "get": lambda value, *indices: get_item(library, value, indices),
        "set": lambda value, *rest: invoke(library, "index set", value, rest[:-1], rest[-1]),
        "iterate": lambda value: iterate(library, value),
        "round": one_more_round,
        "convert": Conversions(library, layouts).converted,
        "convert·weak": lambda value, to: convert(library, value, to, True, layouts),
        "cast": Fitting(library, layouts).cast,
        "text": lambda value: value if type(value) is str else invoke(library, "to text", value),
        "format": lambda value, spec: invoke(library, "format", value, spec),
        "method": lambda receiver, name, own, *values, **named: call_method(library, receiver, name, own, values, named),
        "field": get_field,
        "contains": lambda value, container: contains(library, value, container),
        "negate": lambda value: negate(library, value),
        "matmul": lambda left, right: on_library(library, "operator matmul", "@", left, right),
        "weak": weak_to,
        "truth": truth,
        "unpack": unpack,
        "unpack list": unpack_list,
        "range": make_range,
        "call": call_value,
        "sizes": bind_sizes,
        "like": like_of,
        "passed": note_passed,
        "bounds": Bounds,
        **{f"{ARITHMETIC[symbol]}·i64": _on_ints(library, symbol, operate) for symbol, operate in numbers.ON_INTS.items()},
        "div·f64": numbers.divide_floats,
        "rem·f64": numbers.remainder_floats,
        "pow·f64": numbers.power_floats,
        "overflow": raise_overflow,
        **AWAITING,
        "both": lambda *sides: both(sides),
        "both or bits": lambda *sides: table["bitand"](*both(sides)),
        "iterated": iterated,
        "stream": lambda source: source if isinstance(source, Iterator) else iter(iterate(library, source)),
        **STREAMING,
        **_of_records(library, layouts),
    }
    for symbol, name in ARITHMETIC.items():
        for suffix, left_weak, right_weak in (("", False, False), ("·l", True, False), ("·r", False, True)):
            table[name + suffix] = _arithmetic(library, symbol, name, left_weak, right_weak)
    for suffix in ("", "·l", "·r"):
        table[f"bitand{suffix}"] = _bits_or_both(table[f"bitand{suffix}"])
    for symbol, name in COMPARISONS.items():
        for suffix, left_weak, right_weak in (("", False, False), ("·l", True, False), ("·r", False, True)):
            table[name + suffix] = _comparison(library, symbol, name, left_weak, right_weak)
    named: dict[str, Any] = {MARK + name: helper for name, helper in table.items()}
    builtins = (range, slice, float, len, type, str, list, sorted)
    plain = {"missing": MISSING, "late": LATE, "exception!": Exception, **{f"{value.__name__}!": value for value in builtins}}
    return named | {MARK + name: value for name, value in plain.items()}


def _of_records(library: Library, layouts: RecordLayouts) -> dict[str, Helper]:
    """Those of structs, enums, optionals, results and arrays."""

    def converted(value: Any, to: Type) -> Any:
        """A number that only its value tells may be a literal, as where a tensor's element is assigned."""
        return convert(library, value, to, True, layouts)

    def matches(value: Any, literal: Any) -> bool:
        return kind_of(value) == kind_of(literal) and truth(same(value, literal))

    def lies_in(value: Any, low: Any, high: Any, inclusive: bool) -> bool:
        return kind_of(value) in ("int", "float") and bool(below(low, value)) and bool((below if inclusive else less)(value, high))

    def put(value: Any, steps: tuple[Any, ...], new: Any) -> Any:
        """What stands in a variable when the part at `steps` (names of fields, tuples of indices) is `new`: another record, tuple or
        array, the same list or tensor."""
        step, rest = steps[0], steps[1:]
        if isinstance(value, tuple) and isinstance(step, str):
            place = part_index(value, step, describe)
            return with_part(value, place, put(value[place], rest, new) if rest else new, layouts, converted)
        if isinstance(step, str):
            raise LibraryFault("0807", f"{describe(value)} has no field `{step}`")
        part = put(get_item(library, value, step), rest, new) if rest else new
        if is_array(value) and len(step) == 1:
            return with_element(value, step[0], part, converted)
        invoke(library, "index set", value, step, part)
        return value

    same = _comparison(library, "==", "eq", False, False)
    below = _comparison(library, "<=", "le", False, False)
    less = _comparison(library, "<", "lt", False, False)
    return {
        "array": array_of,
        "filled": lambda value, count, element: filled(value, count, element, copied),
        "copied": copied,
        "elements": elements_of,
        "new map": lambda *parts: invoke(library, "HashMap::from", list(zip(parts[::2], parts[1::2], strict=True))),
        "new set": partial(defaultdict, None),
        "keys": list,
        "entries": lambda value: list(value.items()),
        "element": element_at,
        "plain element": plain_element,
        "store": store_element,
        "replaced": replaced,
        "put": put,
        "is one of": is_one_of,
        "is tuple": is_tuple_of,
        "matches": matches,
        "lies in": lies_in,
        "has value": lambda value, word: has_value(value, word, describe),
        "remembered": remembered,
        "throw": lambda value: throw(value, lambda shown: str(invoke(library, "to text", shown))),
        "is error": is_error,
        "as error": as_error,
        "caught": caught,
        "misfit": lambda value: misfit_of_pattern(invoke(library, "to text", value)),
        "unmatched": lambda value: unmatched(invoke(library, "to text", value)),
    }


# ---- operators -------------------------------------------------------------------------------------------------------


def _arithmetic(library: Library, symbol: str, name: str, left_weak: bool, right_weak: bool) -> Helper:
    """Numbers here, since only the program's text tells which of them are unsuffixed literals; all else in the library."""
    entry = f"operator {name}"

    def operate(left: Any, right: Any) -> Any:
        result = numbers.arithmetic(symbol, left, right, left_weak, right_weak)
        return result if result is not NotImplemented else on_library(library, entry, symbol, left, right)

    return operate


def _bits_or_both(bits: Helper) -> Helper:
    """`a & b` of what only the values tell: the bits of two ints, else a tuple of both."""

    def operate(left: Any, right: Any) -> Any:
        return bits(left, right) if kind_of(left) == kind_of(right) == "int" else (left, right)

    return operate


def _on_ints(library: Library, symbol: str, operate: Helper) -> Helper:
    """An operator on what the types say are two i64; a list may have got other elements since."""
    general = _arithmetic(library, symbol, ARITHMETIC[symbol], False, False)

    def run(left: Any, right: Any) -> Any:
        return operate(left, right) if type(left) is int and type(right) is int else general(left, right)

    return run


def _comparison(library: Library, symbol: str, name: str, left_weak: bool, right_weak: bool) -> Helper:
    entry = f"operator {name}"

    def operate(left: Any, right: Any) -> Any:
        result = numbers.compare(symbol, left, right, left_weak, right_weak)
        return result if result is not NotImplemented else on_library(library, entry, symbol, left, right)

    return operate


def on_library(library: Library, entry: str, symbol: str, *operands: Any) -> Any:
    """An operator on what is no number."""
    if entry not in library.functions:
        raise LibraryFault("0208", f"`{symbol}` is not defined for {' and '.join(map(describe, operands))}")
    return invoke(library, entry, *operands)


def negate(library: Library, value: Any) -> Any:
    result = numbers.negate(value)
    return result if result is not NotImplemented else on_library(library, "operator neg", "-", value)


def raise_overflow(symbol: str, *operands: Any) -> Any:
    """The i64 result was out of range."""
    text = f"-({shown(operands[0])})" if len(operands) == 1 else f"{shown(operands[0])} {symbol} {shown(operands[1])}"
    raise numbers.overflow(text, DType.I64)


def contains(library: Library, value: Any, container: Any) -> bool:
    """`value in container`, by `==` of the elements."""
    if isinstance(container, str):
        if not isinstance(value, str):
            raise LibraryFault("0208", f"`in` is not defined for {describe(value)} and String")
        return value in container
    if isinstance(container, range) and type(value) is int:
        return value in container
    if isinstance(container, dict):
        return bool(invoke(library, "operator in", value, container))
    same = _comparison(library, "==", "eq", False, False)
    return any(truth(same(value, element)) for element in iterate(library, container))


# ---- parts -----------------------------------------------------------------------------------------------------------


def get_item(library: Library, value: Any, indices: tuple[Any, ...]) -> Any:
    """`value[indices]`; the plain case of a list at once."""
    if type(value) is list and len(indices) == 1:
        index = indices[0]
        if type(index) is int and -len(value) <= index < len(value):
            return value[index]
    if type(value) is dict and len(indices) == 1 and type(indices[0]) in _PLAIN_KEYS and indices[0] in value:
        return value[indices[0]]
    if is_array(value) and len(indices) == 1:
        return element_at(value, indices[0])
    if type(value) is dict and len(indices) == 1 and type(indices[0]) is int and _is_numbered(value, f"{indices[0]}"):
        return named_entries(value, f"{indices[0]}")
    return invoke(library, "index get", value, indices)


def _is_numbered(value: dict[Any, Any], name: str) -> bool:
    """Whether a map's keys begin with a number and a point, as those of a model's layers do."""
    return any(isinstance(key, str) and (key == name or key.startswith(f"{name}.")) for key in value)


def get_field(value: Any, name: str) -> Any:
    """`p.x` of a struct, `t.0` of a tuple, `a.len` of an array; of a map the value of that key, or the entries whose keys begin with it
    and a point, as those of a model's layers do."""
    if isinstance(value, dict) and not isinstance(value, ElementSet):
        return named_entries(value, name)
    if isinstance(value, RecordValue) or (isinstance(value, tuple) and name.isdecimal()):
        return value[part_index(value, name, describe)]
    if name == "len" and is_array(value):
        return len(value)
    raise LibraryFault("0807", f"{describe(value)} has no field `{name}`")


def named_entries(value: dict[Any, Any], name: str) -> Any:
    """The value of a text, or the map of the keys that begin with it and a point. Raises LibraryFault (0801)."""
    if name in value:
        return value[name]
    before = f"{name}."
    inside = {key.removeprefix(before): part for key, part in value.items() if isinstance(key, str) and key.startswith(before)}
    if inside:
        return inside
    names = [key for key in value if isinstance(key, str)]
    first = list(dict.fromkeys(key.partition(".")[0] for key in names))
    listed = ", ".join(f"`{key}`" for key in first[:12]) + (", ..." if len(first) > 12 else "")
    hint = did_you_mean(name, [*names, *first]) or (f"it has {listed}" if first else None)
    raise LibraryFault("0801", f"the map has nothing named `{name}`", hint)


# ---- calls -------------------------------------------------------------------------------------------------------------


def call_method(
    library: Library, receiver: Any, name: str, own: tuple[tuple[Type, Any], ...], values: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """A method of a receiver whose type only its value tells; `own`: those of the program, with the types of their `self`."""
    kind = kind_of(receiver)
    fitting = [(type_, method) for type_, method in own if _may_be(receiver, kind, type_)]
    dtype = numbers.dtype_of(receiver)
    exact = [method for type_, method in fitting if not isinstance(type_, Scalar) or type_.dtype is dtype]
    if exact:
        return exact[0](receiver, *values, **named)
    if isinstance(receiver, RecordValue) and name in receiver.__record__.parts:
        return call_value(get_field(receiver, name), *values, **named)
    function = library.methods.get((kind, name))
    if function is None and fitting:
        return fitting[0][1](receiver, *values, **named)
    if function is None:
        raise LibraryFault("0807", f"{describe(receiver)} has no method `{name}`")
    return call_library(function, (receiver, *values), named)


def _may_be(value: Any, kind: str, type_: Type) -> bool:
    if isinstance(value, RecordValue) and isinstance(type_, DeclaredType):
        return type_.name == (value.__record__.enum or value.__record__.name)
    return kind_of_type(type_) == kind


def call_library(function: LibraryFunction, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Arguments to parameters, as `LibraryFunction` asks for them."""
    return function.implementation(*bind_arguments(function, values, named))


def bind_arguments(function: LibraryFunction, values: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """One value a parameter, in order. Serves values while a program runs, and expressions while its code is made."""
    slots = [ArgumentSlot(p.name, p.default is REQUIRED, p.variadic, p.keyword_only) for p in function.parameters]
    found = assigned(slots, [*(None for _ in values), *named])
    if isinstance(found, Misfit):
        if found.kind == "missing":
            what = f"`{function.name}` needs `{found.names[0]}`"
        else:
            extra = f"`{found.names[0]}=`" if found.names else count_text(len(values))
            what = f"`{function.name}` does not take {extra}"
        raise LibraryFault("0204", what, f"its signature is {function.signature}")
    given = [*values, *named.values()]
    bound: list[Any] = []
    for parameter in function.parameters:
        places = found.get(parameter.name, [])
        if parameter.variadic:
            bound.append(tuple(given[at] for at in places))
        else:
            bound.append(given[places[0]] if places else parameter.default)
    return bound


def call_value(function: Any, *values: Any, **named: Any) -> Any:
    """A call of a value that may or may not be a function."""
    if not callable(function):
        raise LibraryFault("0807", f"{describe(function)} is not a function")
    try:
        return function(*values, **named)
    except TypeError as error:
        trace = error.__traceback__
        if trace is not None and trace.tb_next is None:
            raise LibraryFault("0204", f"the function does not take {count_text(len(values) + len(named))}") from None
        raise


def count_text(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def like_of(value: Any) -> Any:
    """What all values have in common that a declared type takes or refuses alike."""
    return value.layout if value.__class__ is Tensor else value.__class__


def note_passed(seen: dict[Any, tuple[int, ...]], before: tuple[Any, ...], after: tuple[Any, ...], sizes: tuple[int, ...]) -> None:
    """Remembers the sizes that go with values like these, unless some were converted or are of a kind that their content decides on."""
    if all(old is new and _is_told_by_like(old) for old, new in zip(before, after, strict=True)):
        if len(seen) >= SIGNATURES_REMEMBERED:
            seen.clear()
        seen[tuple(map(like_of, before))] = sizes


def _is_told_by_like(value: Any) -> bool:
    """Whether a declared type takes or refuses a value by what `like_of` gives: records without type arguments are told by their class."""
    return value.__class__ is Tensor or isinstance(value, RecordValue) or numbers.dtype_of(value) is not None


def bind_sizes(tensors: tuple[tuple[str, Any, tuple[ShapeExpr | int | None, ...]], ...], names: tuple[str, ...]) -> tuple[int, ...]:
    """The sizes that a signature names, from the shapes of the arguments; each equation must hold, and each bound, an int."""
    axes = [
        (f"axis {axis} of `{parameter}`", form, extent)
        for parameter, tensor, dims in tensors
        for axis, (form, extent) in enumerate(zip(dims, tensor.shape, strict=True))
    ]
    equations = [(axis, form, extent) for axis, form, extent in axes if isinstance(form, ShapeExpr)]
    for axis, form, extent in axes:
        if isinstance(form, int) and extent > form:
            raise LibraryFault("0802", f"{axis} has the extent {extent}, and `?<={form}` is at most {form}")
    known: dict[str, tuple[int, str]] = {}
    # Plain names first: they say where a size comes from most clearly.
    waiting = sorted(equations, key=lambda equation: equation[1].name is None)
    progress = True
    while progress:
        progress = False
        for axis, form, extent in waiting:
            unknown = [name for name in form.names if name not in known]
            factor = dict(form.terms).get(unknown[0]) if len(unknown) == 1 else None
            if factor is not None:
                rest = _size(form + ShapeExpr.of(unknown[0]).times(-factor), known)
                if rest is not None and (extent - rest) % factor == 0 and (extent - rest) // factor >= 0:
                    known[unknown[0]] = ((extent - rest) // factor, axis)
                    progress = True
    for axis, form, extent in waiting:
        _check_size(known, axis, form, extent)
    for name in names:
        if name not in known:
            raise LibraryFault("0303", f"the arguments do not tell the size `{name}`")
    return tuple(known[name][0] for name in names)


def _size(form: ShapeExpr, known: dict[str, tuple[int, str]]) -> int | None:
    found = substitute(form, {name: ShapeExpr.of(size) for name, (size, _) in known.items()})
    return None if found is None else found.value


def _check_size(known: dict[str, tuple[int, str]], axis: str, form: ShapeExpr, extent: int) -> None:
    """Whether an equation holds with the sizes found."""
    size = _size(form, known)
    if size is not None:
        if size == extent:
            return
        if form.name is not None:
            raise LibraryFault("0802", f"size `{form.name}` is {size} by {known[form.name][1]} and {extent} by {axis}")
        raise LibraryFault("0802", f"`{form}` is {size}, but {axis} has the extent {extent}")
    if len(form.terms) == 1 and not isinstance(form.terms[0][0], Quotient):
        raise LibraryFault("0802", f"no size makes `{form}` the extent {extent} of {axis}")
