"""Calls: of the program's functions by their declaration, of library functions by their entry, of methods by the receiver's
type, and of values that turn out to be functions when the program runs."""

import ast
from collections.abc import Callable

from compiler.backends.host import direct
from compiler.backends.host.emit import is_stable, load, not_supported
from compiler.backends.host.fitted import ConversionTarget, Fitting
from compiler.backends.host.iterators import Iterators
from compiler.backends.host.naming import MARK, DeclaredFunction, ImportedModule, LibraryName
from compiler.backends.host.operators import has_weak, is_already
from compiler.backends.host.record_values import RECORD_TYPES
from compiler.backends.host.support import bind_arguments
from compiler.backends.host.values import kind_of_type
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.library import TARGET, LibraryFault, LibraryFunction
from compiler.typed_ast.types import (
    UNKNOWN,
    FunctionType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    StructType,
    TupleType,
    Type,
)
from runtime.records import evolve

Maker = Callable[[], ast.expr]


class Calls(Iterators):
    """The callee decides how arguments are bound."""

    def call(self, node: nodes.Call) -> ast.expr:
        function = node.function
        if node.callee in self.methods:
            return self._program_method(node, self.methods[node.callee])
        if node.callee and isinstance(copy := self.scope.find(node.callee), DeclaredFunction):
            return self._declared_call(node, copy)
        match function:
            case nodes.Name(name="·iterated"):
                return self.help("iterated", node.span, *self.in_order([self._argument(node.arguments[0])], node.span))
            case nodes.Name(name=name):
                match self.scope.find(name):
                    case DeclaredFunction() as declared:
                        return self._declared_call(node, declared)
                    case LibraryName(function=entry):
                        return self._library_call(node, entry)
                    case None if name in self.library.functions:
                        return self._library_call(node, self.library.functions[name])
                    case None if self.is_wrapper(name):
                        return self.wrapper(node, name, node.type)
                    case None if self.is_case(name):
                        return self.called_case(node, name)
            case nodes.Path(segments=segments) if self.module_member(segments) is None:
                library_function = self.library.functions.get("::".join(segments)) if len(segments) > 1 else None
                if library_function is not None:
                    return self._library_call(node, library_function)
                if segments[0] == "extern":
                    return self._extern_call(node, segments[-1])
                if len(segments) == 2 and segments[0] in self.declared.enums:
                    return self.called_case(node, segments[1], segments[0])
            case nodes.Field(value=receiver, name=name) if not name.isdecimal() and not self._is_field(receiver.type, name):
                in_library = self.library_member(receiver, name)
                if in_library is not None:
                    return self._library_call(node, in_library)
                if not (isinstance(receiver, nodes.Name) and isinstance(self.scope.find(receiver.name), ImportedModule)):
                    return self._method_call(node, receiver, name)
        return self._value_call(node)

    def _is_field(self, of: Type, name: str) -> bool:
        """Whether a call goes to the function in a field."""
        return isinstance(of, StructType) and any(field == name for field, _ in self.layouts.fields(of))

    # ---- the program's functions ------------------------------------------------------------------------------------

    def _declared_call(self, node: nodes.Call, declared: DeclaredFunction) -> ast.expr:
        self._check_arguments(node, declared)
        self.note_use(declared)
        types = {p.name: self.resolve(p.annotation) for p in declared.node.parameters}
        given = zip(node.arguments, types.values(), strict=False)
        fit = declared.trusting and all(argument.name is None and _fits_already(argument.value, type_) for argument, type_ in given)
        return self.plain_call(node, self.at(load(declared.trusting if fit else declared.python), node.function.span), types)

    def _program_method(self, node: nodes.Call, declared: DeclaredFunction) -> ast.expr:
        """A method of the program is a function that gets the receiver first."""
        receiver = node.function.value if isinstance(node.function, nodes.Field) else None
        if receiver is None:
            return self._declared_call(node, declared)
        if not changes_receiver(declared.node):
            first = nodes.Argument(value=receiver, span=receiver.span)
            return self._declared_call(evolve(node, arguments=(first, *node.arguments)), declared)
        return self.changing_call(node, declared, receiver)

    def changing_call(self, node: nodes.Call, declared: DeclaredFunction, receiver: nodes.Expression) -> ast.expr:
        raise AssertionError("defined by the generator")

    def _check_arguments(self, node: nodes.Call, declared: DeclaredFunction) -> None:
        """The checker has said it already, unless this program was not checked."""
        slots = [ArgumentSlot(parameter.name, parameter.default is None) for parameter in declared.node.parameters]
        callee = Callee(declared.name, lambda: f"{declared.name}({', '.join(slot.name for slot in slots)})", declared.node.name_span)
        found = match_arguments(slots, node, callee)
        if isinstance(found, Diagnostic):
            raise ZyntaxError(found)

    def plain_call(self, node: nodes.Call, function: ast.expr, types: dict[str, Type], first: tuple[ast.expr, ...] = ()) -> ast.expr:
        """A Python call with the arguments as written, behind the `first` ones. A literal is made what the parameter declares; the function
        itself converts the rest."""
        order = list(types)
        makers: list[Maker] = [_ready(function)]
        for position, argument in enumerate(node.arguments):
            name = argument.name or (order[position] if position < len(order) else "")
            makers.append(self._argument(argument, types.get(name, UNKNOWN)))
        function, *values = self.in_order(makers, node.span)
        positional = [v for v, a in zip(values, node.arguments, strict=True) if a.name is None]
        named = [ast.keyword(_keyword(a.name), v) for v, a in zip(values, node.arguments, strict=True) if a.name is not None]
        return self.made(ast.Call(function, [*first, *positional], named), node.span, function, *values)

    def _argument(self, argument: nodes.Argument, to: Type = UNKNOWN) -> Maker:
        """A declared type concerns only literals, which have none of their own yet: the function itself converts the rest."""
        value = argument.value
        if self.layouts.holds_arrays(value.type) and self.is_lent(value, to):
            return lambda: self.expression(value)
        literal = isinstance(value, (nodes.ListLiteral, nodes.TupleLiteral)) or self.is_weak(value) or has_weak(value.type)
        wanted = isinstance(to, RECORD_TYPES) or (literal and isinstance(to, (Scalar, ListType, TupleType)))
        return self.maker(value, to if wanted else UNKNOWN)

    def _value_call(self, node: nodes.Call) -> ast.expr:
        """A callee that is a value: a lambda, a parameter, a module's function."""
        function = self.expression(node.function)
        if isinstance(node.function.type, FunctionType):
            return self.plain_call(node, function, {str(i): t for i, t in enumerate(node.function.type.parameters)})
        function, *values = self.in_order([_ready(function), *[self._argument(a) for a in node.arguments]], node.span)
        positional = [v for v, a in zip(values, node.arguments, strict=True) if a.name is None]
        named = [ast.keyword(_keyword(a.name), v) for v, a in zip(values, node.arguments, strict=True) if a.name is not None]
        helper = load(f"{MARK}call")
        return self.made(ast.Call(helper, [function, *positional], named), node.span, function, *values)

    # ---- the library --------------------------------------------------------------------------------------------------

    def _library_call(
        self, node: nodes.Call, entry: LibraryFunction, receiver: nodes.Expression | None = None, to: Type = UNKNOWN
    ) -> ast.expr:
        """Arguments are evaluated as written, literals as `to` has them, and passed in the order of the entry's parameters."""
        target, self.target = self.target, None
        makers: list[Maker] = [] if receiver is None else [lambda: self.expression(receiver)]
        makers += [self._argument(a, to) for a in node.arguments]
        values = self.in_order(makers, node.span)
        offset = 0 if receiver is None else 1
        positional = values[:offset] + [v for v, a in zip(values[offset:], node.arguments, strict=True) if a.name is None]
        named = {a.name: v for v, a in zip(values[offset:], node.arguments, strict=True) if a.name is not None}
        bound = self._bound(entry, tuple(positional), named, node.span)
        arguments = [self._library_argument(b) for b in bound]
        unread, self.unread = self.unread is node, None
        made = self._direct_call(node, entry, receiver, arguments, unread) if not named else None
        if made is not None:
            return made
        if named and [v for v in values if not is_stable(v)] != [v for v in _flat(bound) if v in values and not is_stable(v)]:
            values = [self.keep(v, node.span) for v in values]
            positional = values[:offset] + [v for v, a in zip(values[offset:], node.arguments, strict=True) if a.name is None]
            named = {a.name: v for v, a in zip(values[offset:], node.arguments, strict=True) if a.name is not None}
            arguments = [self._library_argument(b) for b in self._bound(entry, tuple(positional), named, node.span)]
        if entry.takes_target and target is not None and target[0] is node:
            known = self.constant(ConversionTarget(target[1], Fitting(self.library, self.layouts)))
            arguments = [known if p.types == TARGET else a for p, a in zip(entry.parameters, arguments, strict=True)]
        return self.made(self._entry_call(entry, arguments), node.span, *values)

    def _entry_call(self, entry: LibraryFunction, arguments: list[ast.expr]) -> ast.expr:
        name = f"{MARK}library·{entry.name}·{id(entry)}"
        self.constants[name] = entry.implementation
        return ast.Call(load(name), arguments, [])

    def _direct_call(
        self, node: nodes.Call, entry: LibraryFunction, receiver: nodes.Expression | None, arguments: list[ast.expr], unread: bool
    ) -> ast.expr | None:
        """The call as Python's own, where the types say that it means the same."""
        types = tuple(argument.value.type for argument in node.arguments)
        if isinstance(receiver, nodes.Stream):
            return None  # its values come one by one
        if receiver is None:
            if entry.name in ("max", "min") and len(types) == 2 and all(map(direct.is_int, types)):
                return self.extreme(entry.name, arguments[0], node.span)
            make = direct.method(types[0], "len", ()) if entry.name == "len" and len(types) == 1 else None
        elif entry.name == "get" and isinstance(receiver.type, ListType | StringType) and direct.looks_up(receiver.type, types[0]):
            return direct.element(self, arguments[0], arguments[1], node.span)
        elif unread and direct.puts(receiver.type, entry.name, types):
            direct.store(self, arguments[0], arguments[1], arguments[2] if len(types) == 2 else ast.Constant(None), node.span)
            return ast.Constant(None)
        else:
            make = (direct.unread(receiver.type, entry.name, types) if unread else None) or direct.method(receiver.type, entry.name, types)
        if make is None:
            return None
        if receiver is not None and direct.names_receiver(entry.name) and not isinstance(arguments[0], ast.Name):
            arguments = [self.keep(arguments[0], node.span), *arguments[1:]]
        made = make(arguments)
        if isinstance(made, direct.Guarded):
            made = ast.IfExp(made.test, self.at(made.value, node.span), self.at(self._entry_call(entry, arguments), node.span))
        return None if made is None else self.made(made, node.span, *arguments)

    def _bound(self, entry: LibraryFunction, positional: tuple[ast.expr, ...], named: dict[str, ast.expr], span: Span) -> list[object]:
        try:
            return bind_arguments(entry, positional, named)
        except LibraryFault as fault:
            raise ZyntaxError(Diagnostic(fault.code, fault.message, span, hint=fault.hint)) from None

    def _library_argument(self, bound: object) -> ast.expr:
        """An expression, a variadic parameter's tuple of them, or a default value."""
        if isinstance(bound, ast.expr):
            return bound
        if isinstance(bound, tuple) and all(isinstance(b, ast.expr) for b in bound):
            return ast.Tuple(list(bound), ast.Load())
        return self.constant(bound)

    def _extern_call(self, node: nodes.Call, name: str) -> ast.expr:
        entry = self.library.functions.get(name)
        if entry is not None:
            return self._library_call(node, entry)
        function = self.runtime_functions().get(name)
        if function is None:
            raise ZyntaxError(Diagnostic("0201", f"there is no runtime function `{name}`", node.function.span))
        self.constants[f"{MARK}extern·{name}"] = function
        return self.plain_call(node, load(f"{MARK}extern·{name}"), {})

    def runtime_functions(self) -> dict[str, Callable[..., object]]:
        raise AssertionError("defined by the generator")

    def _method_call(self, node: nodes.Call, receiver: nodes.Expression, name: str) -> ast.expr:
        kind = kind_of_type(receiver.type)
        entry = self.library.methods.get((kind, name)) if kind is not None else None
        if entry is not None:
            looped = self.looped(node, receiver, name)
            if looped is not None:
                return looped
            return self._library_call(node, entry, receiver, _argument_type(receiver.type, name))
        makers: list[Maker] = [lambda: self.expression(receiver), *[self._argument(a) for a in node.arguments]]
        value, *values = self.in_order(makers, node.span)
        methods = [self._candidate(declared, node) for declared in self.methods.values() if declared.name == name]
        positional = [v for v, a in zip(values, node.arguments, strict=True) if a.name is None]
        named = [ast.keyword(a.name, v) for v, a in zip(values, node.arguments, strict=True) if a.name is not None]
        table = ast.Tuple(methods, ast.Load())
        call = ast.Call(load(f"{MARK}method"), [value, ast.Constant(name), table, *positional], named)
        return self.made(call, node.span, value, *values)

    def _candidate(self, declared: DeclaredFunction, node: nodes.Call) -> ast.expr:
        """A method of the program that may be meant where only the value says, with the type of its `self`."""
        if changes_receiver(declared.node):
            hint = "write the type of what it is called on"
            raise not_supported(f"`{declared.name}`, which changes its receiver, on a value whose type isn't known", node.span, hint)
        self.note_use(declared)
        return ast.Tuple([self.constant(self.resolve(declared.node.parameters[0].annotation)), load(declared.python)], ast.Load())


def _fits_already(value: nodes.Expression, to: Type) -> bool:
    """Whether an argument is as it is what the parameter declares. Literals are made so."""
    return is_already(value.type, to) and not has_weak(value.type)


def _argument_type(receiver: Type, method: str) -> Type:
    """What a method's argument becomes that stands for a part of its receiver."""
    return receiver.value if method == "unwrap_or" and isinstance(receiver, OptionType | ResultType) else UNKNOWN


def _ready(value: ast.expr) -> Maker:
    return lambda: value


def _keyword(name: str) -> str:
    return f"{name}{MARK}" if name in ("None", "True", "False", "__debug__") else name


def _flat(bound: list[object]) -> list[object]:
    return [part for b in bound for part in (b if isinstance(b, tuple) else (b,))]
