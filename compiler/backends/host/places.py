"""Assignments: to variables, to elements, to parts. Lists and tensors change in place; a struct or tuple that gets another part is a new
value of its variable, or of the list that holds it."""

import ast
from collections.abc import Callable

from compiler.backends.host import direct
from compiler.backends.host.emit import load
from compiler.backends.host.intervals import within
from compiler.backends.host.naming import ImportedModule, PythonVariable
from compiler.backends.host.patterns import Patterns
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNKNOWN, ArrayType, DictType, DType, ListType, Scalar, StructType, TensorType, TupleType, Type
from runtime.records import frozen

Step = nodes.Field | nodes.Index


@frozen
class Place:
    """What is assigned to. `base`: the list or tensor that holds it, at `indices`, in stable places; else it lies in `variable`, or in a
    value that nobody keeps. `steps` lead from there to the part, with the index of each, if it has one."""

    target: Step
    variable: PythonVariable | None
    base: ast.expr | None
    indices: list[ast.expr]
    steps: list[tuple[Step, list[ast.expr]]]


class Places(Patterns):
    """One method a kind of target."""

    def assignment(self, node: nodes.Assign) -> None:
        match node.target:
            case nodes.Name(name="_") if node.operator is None:
                self.write(ast.Expr(self.expression(node.value)), node.span)
            case nodes.Name(name=name):
                variable = self.assigned_variable(name, node.target.span)
                if node.operator is None:
                    self.store(variable, self.converted(node.value, variable.type), node.span)
                else:
                    self.store(variable, self._updated(node, variable), node.span)
            case nodes.Index() as target if _is_shared(target.value.type):
                self.index_assignment(node, target)
            case nodes.Index() | nodes.Field() as target:
                self.part_assignment(node, target)
            case nodes.TupleLiteral(elements=elements):
                if node.operator is not None:
                    raise ZyntaxError(Diagnostic("0203", "a tuple of targets takes `=` only", node.span))
                whole = self.converted(node.value, UNKNOWN)
                parts = self.help("unpack", node.value.span, whole, ast.Constant(len(elements)))
                names = [self.frame.temporary() for _ in elements]
                self.write(ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], parts), node.span)
                types = node.value.type.elements if isinstance(node.value.type, TupleType) else (UNKNOWN,) * len(elements)
                for element, name, type_ in zip(elements, names, types, strict=True):
                    self._assign_made(element, load(name), type_, node.span)
            case _:
                raise ZyntaxError(Diagnostic("0205", "this can't be assigned to", node.target.span))

    def _assign_made(self, target: nodes.Expression, value: ast.expr, have: Type, span: Span) -> None:
        match target:
            case nodes.Name(name="_"):
                pass
            case nodes.Name(name=name):
                variable = self.assigned_variable(name, target.span)
                self.store(variable, self.convert(value, have, variable.type, span), span)
            case nodes.Index() | nodes.Field():
                place = self.place(target)
                self.store_part(place, self.convert(value, have, stored_type(target), span))
            case _:
                raise ZyntaxError(Diagnostic("0205", "this can't be assigned to", target.span))

    def assigned_variable(self, name: str, span: Span) -> PythonVariable:
        variable = self.scope.find(name)
        if not isinstance(variable, PythonVariable):
            problem = f"there is no `{name}` here" if variable is None else f"`{name}` is no variable"
            raise ZyntaxError(Diagnostic("0201" if variable is None else "0205", problem, span))
        return variable

    def store(self, variable: PythonVariable, value: ast.expr, span: Span) -> None:
        if variable.boxed:
            self.note_use(variable)
            target: ast.expr = ast.Subscript(load(variable.python), ast.Constant(0), ast.Store())
            self.write(ast.Assign([target], value), span)
            return
        if variable.frame is not self.frame:
            self.note_use(variable)
        if variable.is_global:
            self.frame.globals.add(variable.python)
        elif variable.frame is not self.frame:
            self.frame.nonlocals.add(variable.python)
        self.assign(variable.python, value, span)

    def _updated(self, node: nodes.Assign, variable: PythonVariable) -> ast.expr:
        """`x += e` as `x + e`, in the variable's type."""
        assert node.operator is not None
        type_ = variable.type if isinstance(variable.type, Scalar) else node.target.type
        left = nodes.Name(name=variable.name, type=type_, span=node.target.span)
        whole = nodes.Binary(operator=node.operator, left=left, right=node.value, span=node.span)
        result = self.binary(whole)
        if isinstance(variable.type, Scalar) and not self._keeps_type(variable.type, node):
            return self.help("convert", node.span, result, self.constant(variable.type))
        return result

    def _keeps_type(self, to: Scalar, node: nodes.Assign) -> bool:
        """Whether `x op e` surely has x's type."""
        have = node.value.type
        if not isinstance(have, Scalar):
            return False
        return have.dtype is to.dtype or (have.weak and (to.dtype.is_float or have.dtype.is_int)) or (
            to.dtype is DType.F64 and have.dtype is DType.I64
        )

    # ---- elements of lists and tensors -----------------------------------------------------------------------------

    def index_assignment(self, node: nodes.Assign, target: nodes.Index) -> None:
        """Base, indices, value: each evaluated once, as written."""
        makers: list[Callable[[], ast.expr]] = [lambda: self.expression(target.value), *[self._index_maker(i) for i in target.indices]]
        if node.operator is None:
            parts = self.in_order([*makers, lambda: self.converted(node.value, stored_type(target))], node.span)
            if _is_direct(target):
                base, index, value = parts
                direct.store(self, base, index, value, target.span)
                return
            self.write(ast.Expr(self.help("set", target.span, *parts)), node.span)
            return
        base, *indices = [self.keep(v, target.span) for v in self.in_order(makers, target.span)]
        if _is_direct(target):
            old = self.keep(within(direct.element(self, base, indices[0], target.span), self.range_of(target)), target.span)
            direct.store(self, base, indices[0], self._changed(node, old), target.span)
            return
        old = self.keep(self.help("get", target.span, base, *indices), target.span)
        self.write(ast.Expr(self.help("set", target.span, base, *indices, self._changed(node, old))), node.span)

    def _changed(self, node: nodes.Assign, old: ast.expr) -> ast.expr:
        """`old operator e`, as what it is stored into has it."""
        assert node.operator is not None
        [value] = self.in_order([lambda: self.expression(node.value)], node.span)
        weak = self.is_weak(node.value)
        result = self.operate(node.operator, old, value, node.target.type, node.value.type, False, weak, node.span)
        if isinstance(node.target.type, Scalar) and not self._keeps_type(node.target.type, node):
            result = self.help("convert", node.span, result, self.constant(node.target.type))
        return result

    # ---- parts of values -------------------------------------------------------------------------------------------

    def part_assignment(self, node: nodes.Assign, target: Step) -> None:
        """The base that is shared and all indices, then the value, then the store: a value that lies in a variable is read at the store."""
        place = self.place(target)
        if node.operator is None:
            value = self.converted(node.value, stored_type(target))
        else:
            value = self._changed(node, self.keep(self.read_part(place), target.span))
        self.store_part(place, value)

    def place(self, target: Step) -> Place:
        steps: list[Step] = []
        root: nodes.Expression = target
        while isinstance(root, nodes.Field | nodes.Index) and not _is_member(self, root):
            steps.append(root)
            root = root.value
        steps.reverse()
        shared = max((place for place, step in enumerate(steps) if _is_shared(step.value.type)), default=None)
        found = self.scope.find(root.name) if isinstance(root, nodes.Name) else None
        variable = found if isinstance(found, PythonVariable) else None
        base: ast.expr | None = None
        indices: list[ast.expr] = []
        if shared is not None:
            holder = steps[shared]
            if not isinstance(holder, nodes.Index):
                raise ZyntaxError(Diagnostic("0202", f"{holder.value.type} has no field `{holder.name}`", holder.span))
            makers: list[Callable[[], ast.expr]] = [lambda: self.expression(holder.value), *map(self._index_maker, holder.indices)]
            base, *indices = [self.keep(v, holder.span) for v in self.in_order(makers, holder.span)]
            steps, variable = steps[shared + 1 :], None
        elif variable is None:
            base = self.keep(self.expression(root), root.span)
        kept: list[tuple[Step, list[ast.expr]]] = []
        for step in steps:
            written = step.indices if isinstance(step, nodes.Index) else ()
            kept.append((step, [self.keep(v, step.span) for v in self.in_order([self._index_maker(i) for i in written], step.span)]))
        return Place(target, variable, base, indices, kept)

    def _held(self, place: Place) -> ast.expr:
        """What the variable, list or tensor holds now."""
        if place.variable is not None:
            return self.variable(place.variable, place.target.span)
        assert place.base is not None
        return self.help("get", place.target.span, place.base, *place.indices) if place.indices else place.base

    def read_part(self, place: Place) -> ast.expr:
        value = self._held(place)
        for step, indices in place.steps:
            value = self._part(step, value, indices)
        return value

    def _part(self, step: Step, value: ast.expr, indices: list[ast.expr]) -> ast.expr:
        if isinstance(step, nodes.Field):
            return self.field_of(step, value)
        if isinstance(step.value.type, ArrayType):
            return self.element(step.value.type, value, indices[0], step.span)
        return self.help("get", step.span, value, *indices)

    def store_part(self, place: Place, value: ast.expr) -> None:
        """Writes the part. Values of unknown types say themselves what they are; an array is changed where it lies, in the value that
        holds it."""
        span = place.target.span
        if not place.steps:
            assert place.base is not None
            self.write(ast.Expr(self.help("set", span, place.base, *place.indices, value)), span)
            return
        value = self.keep(value, span)
        held = self.keep(self._held(place), span)
        if not all(_is_known(step) for step, _ in place.steps):
            keys = [ast.Constant(s.name) if isinstance(s, nodes.Field) else ast.Tuple(list(i), ast.Load()) for s, i in place.steps]
            self._put_back(place, self.help("put", span, held, ast.Tuple(list(keys), ast.Load()), value))
            return
        holders = [held]
        for step, indices in place.steps[:-1]:
            holders.append(self.keep(self._part(step, holders[-1], indices), step.span))
        for holder, (step, indices) in zip(reversed(holders), reversed(place.steps), strict=True):
            if isinstance(step, nodes.Index) and isinstance(step.value.type, ArrayType):
                self.write(ast.Expr(self.help("store", step.span, holder, indices[0], value)), span)
                return
            value = self.keep(self._with_part(step, holder, value), step.span)
        self._put_back(place, value)

    def _with_part(self, step: Step, holder: ast.expr, value: ast.expr) -> ast.expr:
        """The struct or tuple `holder` with another part."""
        assert isinstance(step, nodes.Field)
        return self.help("replaced", step.span, holder, ast.Constant(self.place_of_field(step)), value)

    def _put_back(self, place: Place, value: ast.expr) -> None:
        span = place.target.span
        if place.variable is not None:
            self.store(place.variable, value, span)
        elif place.indices:
            assert place.base is not None
            self.write(ast.Expr(self.help("set", span, place.base, *place.indices, value)), span)
        else:
            self.write(ast.Expr(value), span)


def stored_type(target: Step) -> Type:
    """What a part must be; a slice of a tensor takes numbers and tensors alike."""
    if isinstance(target.value.type, TensorType) and not isinstance(target.type, Scalar):
        return UNKNOWN
    known = isinstance(target.type, Scalar) or isinstance(target.value.type, ListType | DictType | StructType | TupleType | ArrayType)
    return target.type if known else UNKNOWN


def _is_direct(target: nodes.Index) -> bool:
    return len(target.indices) == 1 and direct.looks_up(target.value.type, target.indices[0].type)


def _is_shared(type_: Type) -> bool:
    return isinstance(type_, ListType | DictType | TensorType)


def _is_known(step: Step) -> bool:
    if isinstance(step, nodes.Field):
        return isinstance(step.value.type, StructType | TupleType)
    return isinstance(step.value.type, ArrayType)


def _is_member(places: Places, node: nodes.Expression) -> bool:
    """`m.x` of an imported module, which is a name and no part."""
    return (
        isinstance(node, nodes.Field)
        and isinstance(node.value, nodes.Name)
        and isinstance(places.scope.find(node.value.name), ImportedModule)
    )
