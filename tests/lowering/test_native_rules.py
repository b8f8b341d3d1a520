"""What a language adds to the lowering of native functions: entries of its tables, and types that it holds in its own way."""

import pytest

from compiler.diagnostics import ZyntaxError
from compiler.hir.layout import size_of
from compiler.hir.native_types import I32
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.rules import LoweringTables, NativeRules, TypeLowering
from compiler.typed_ast import nodes
from compiler.typed_ast.meaning import Meaning, RuleTable
from compiler.typed_ast.types import ERROR, STRING, ListType, OptionType, TupleType, Type
from runtime.records import frozen


@frozen
class Length(Type):
    """Millimetres."""


def layouts() -> Layouts:
    meaning = Meaning(RuleTable(show=lambda found: type(found).__name__), not_yet="does not run in Lengths")
    length = TypeLowering(number=lambda found: I32)
    rules = NativeRules(meaning, lambda *written: ERROR, types={Length: length}, instead="use lengths")
    return Layouts(rules, lambda found: None)


def test_what_a_language_registers_is_its_own() -> None:
    core = LoweringTables()
    own, other = core.extended(), core.extended()

    @core.elaborates(nodes.Name, nodes.Call)
    def plain() -> None: ...

    @own.elaborates(nodes.Call)
    def particular() -> None: ...

    @own.emits("sqrt")
    def root() -> None: ...

    assert own.values[nodes.Name] is plain and own.values[nodes.Call] is particular
    assert core.values[nodes.Call] is plain and other.values[nodes.Call] is plain
    assert own.prelude["sqrt"] is root and "sqrt" not in core.prelude


def test_an_added_type_is_held_as_its_number() -> None:
    found = layouts()
    pair = TupleType((Length(), OptionType(Length())))
    assert [(name, number) for name, number in found.leaves(pair, "p") if name != "p.1.present"] == [("p.0", I32), ("p.1.value", I32)]
    assert size_of(found.memory(pair)) == 12, "four bytes, a truth with three of padding, four bytes"
    assert not found.in_memory(pair) and not found.is_sized(pair)


@pytest.mark.parametrize(("type", "what"), [(ListType(Length()), "a list"), (STRING, "text"), (Type(), "a `Type`")])
def test_a_type_without_a_form_is_refused_in_the_languages_words(type: Type, what: str) -> None:
    with pytest.raises(ZyntaxError) as raised:
        layouts().parts(type)
    (found,) = raised.value.diagnostics
    assert (found.code, found.message, found.hint) == ("0109", f"{what} in compiled code does not run in Lengths", "use lengths")
