"""What one function does, read off its typed body."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.typed_ast import nodes
from compiler.typed_ast.body_scopes import LocalVariable
from compiler.typed_ast.conversions import fits, join, strong
from compiler.typed_ast.definite_assignment import early_reads
from compiler.typed_ast.function_effects import ALLOCATES, DYNAMIC, GLOBAL, SYSTEM
from compiler.typed_ast.native_calls import message_numbers
from compiler.typed_ast.native_tensors import (
    creation,
    enumerated_tensor,
    numbers_given,
    row_type,
    same_elements,
    shape_of,
    sizes,
    tensor_refused,
)
from compiler.typed_ast.tensor_effects import TensorEffects
from compiler.typed_ast.types import (
    ERROR,
    I64,
    NEVER,
    UNIT,
    UNKNOWN,
    ArrayType,
    DType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    TensorType,
    TupleType,
    Type,
)
from compiler.typed_ast.walk import parts

_REFUSED: Mapping[type[nodes.Node], tuple[str, str]] = {
    nodes.Lambda: (DYNAMIC, "it has a function without a name"),
    nodes.Function: (DYNAMIC, "it has a function inside"),
    nodes.FString: (DYNAMIC, "it makes text"),
    nodes.StringLiteral: (DYNAMIC, "it uses text"),
    nodes.Compute: (DYNAMIC, "it has a compute block"),
    nodes.Comprehension: (ALLOCATES, "it makes a list"),
    nodes.DictLiteral: (ALLOCATES, "it makes a dict"),
    nodes.Await: (DYNAMIC, "it awaits a future"),
    nodes.Stream: (ALLOCATES, "it has a stream"),
    nodes.Slice: (ALLOCATES, "it takes a slice"),
    nodes.Try: (DYNAMIC, "it has a `try`"),
    nodes.Throw: (DYNAMIC, "it has a `throw`"),
    nodes.Render: (SYSTEM, "it renders"),
    nodes.Import: (DYNAMIC, "it has an `import`"),
    nodes.Range: (DYNAMIC, "it has a range beside a `for`"),
    nodes.SharedVariable: (DYNAMIC, "it has a shared variable"),
    nodes.Yield: (DYNAMIC, "it has a `yield`"),
}
_STATIC = (
    nodes.IntLiteral, nodes.FloatLiteral, nodes.BoolLiteral, nodes.Name, nodes.Path, nodes.Field, nodes.Index, nodes.Block, nodes.If,
    nodes.Conditional, nodes.Match, nodes.Arm, nodes.LetCondition, nodes.Call, nodes.Argument, nodes.Binary, nodes.Unary, nodes.Cast,
    nodes.TupleLiteral, nodes.RecordLiteral, nodes.FieldValue, nodes.ListLiteral, nodes.Repeat, nodes.Propagate, nodes.ExpressionStatement,
    nodes.Let, nodes.Assign, nodes.For, nodes.ForClause, nodes.While, nodes.Break, nodes.Continue, nodes.Return,
)  # fmt: skip
_VALUES = (nodes.If, nodes.Block, nodes.Match, nodes.Conditional, nodes.LetCondition)


class BodyEffects(TensorEffects):
    """Looks through one function."""

    def look(self) -> None:
        own, node = self.own, self.own.function
        if node.body is None:
            self.because(SYSTEM, "it is declared elsewhere", node.span)
            return
        if node.is_async or node.type_parameters:
            self.because(DYNAMIC, "it has type parameters" if node.type_parameters else "it is `async`", node.span)
            return
        for annotation in node.annotations:
            if annotation.name in ("cache", "memoize"):
                self.because(DYNAMIC, f"its results are kept by `@{annotation.name}`", annotation.span)
        types: list[Type] = []
        for parameter in node.parameters:
            if parameter.default is not None:
                self.visit(parameter.default)
        for parameter in node.parameters:
            found = self.written(parameter.annotation) if parameter.annotation is not None else UNKNOWN
            if parameter.annotation is None:
                self.because(DYNAMIC, f"`{parameter.name}` has no type", parameter.span)
            elif isinstance(found, TupleType) and any(isinstance(part, TensorType) for part in found.elements):
                self.because(DYNAMIC, f"`{parameter.name}` is a tuple with a tensor", parameter.span)
            else:
                self.with_form(found, parameter.span, f"`{parameter.name}`")
            types.append(found)
            self.scopes[-1] |= dict.fromkeys(sizes([found]), LocalVariable(I64)) | {parameter.name: LocalVariable(found, True)}
        own.parameters = tuple(types)
        own.result = self.written(node.result) if node.result is not None else inferred_result(node)
        if isinstance(own.result, TensorType):
            own.result = self.tensor_result(own.result, inferred_result(node), node.result.span if node.result is not None else node.span)
        self.with_form(own.result, node.result.span if node.result is not None else node.span, "its result")
        self.visit(node.body, used=own.result != UNIT)
        for name, _ in early_reads(node.body, lambda declaration: True):
            self.because(DYNAMIC, f"`{name.name}` may be read before it has a value", name.span)

    # ---- the walk ----

    def visit(self, node: nodes.Node, used: bool = True) -> None:
        """`used`: the value is wanted."""
        if type(node) in _REFUSED:
            self.because(*_REFUSED[type(node)], node.span)
            return
        if isinstance(node, nodes.TypeSyntax | nodes.Pattern):
            return
        if not isinstance(node, _STATIC):
            self.because(DYNAMIC, "it has what native code doesn't know", node.span)
            return
        if isinstance(node, nodes.Expression) and (used or not isinstance(node, _VALUES)):
            self._typed(node)
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(self, node, used)
        else:
            self.inside(node)

    def inside(self, node: nodes.Node) -> None:
        for part in parts(node):
            self.visit(part)

    def _typed(self, node: nodes.Expression) -> None:
        if isinstance(node, nodes.Call) and node.type == UNKNOWN:
            return  # told by the callee
        if isinstance(node.type, TensorType) and not isinstance(node, (nodes.Name, nodes.Call, *_VALUES)):
            row = isinstance(node, nodes.Index) and isinstance(node.value.type, TensorType) and node.type.shape.rank is not None
            if not row:
                self.because(DYNAMIC, "it makes a tensor, or a part of one", node.span)
                return
        if isinstance(node, _VALUES) and node.type != UNKNOWN and not isinstance(node.type, TensorType):
            return  # told by the ends of its branches
        if not isinstance(node, nodes.TupleLiteral) or node.elements:
            shown = f"`{node.name}`" if isinstance(node, nodes.Name) else ""
            self.with_form(node.type, node.span, shown)

    def block(self, node: nodes.Block, used: bool) -> None:
        with self.scope():
            for statement in node.statements:
                last = statement is node.statements[-1]
                if isinstance(statement, nodes.ExpressionStatement):
                    self.visit(statement.value, used and last)
                else:
                    self.visit(statement)

    def if_(self, node: nodes.If, used: bool) -> None:
        with self.scope():
            self.visit(node.condition)
            self.visit(node.then, used)
        if node.otherwise is not None:
            self.visit(node.otherwise, used)

    def conditional(self, node: nodes.Conditional, used: bool) -> None:
        self.visit(node.condition)
        self.visit(node.then, used)
        self.visit(node.otherwise, used)

    def match(self, node: nodes.Match, used: bool) -> None:
        self.visit(node.subject)
        for arm in node.arms:
            with self.scope():
                self.bind(arm.pattern, node.subject.type)
                if arm.guard is not None:
                    self.visit(arm.guard)
                self.visit(arm.body, used)

    def let_condition(self, node: nodes.LetCondition, used: bool) -> None:
        self.visit(node.value)
        self.bind(node.pattern, node.value.type)

    def let(self, node: nodes.Let, used: bool) -> None:
        declared = self.written(node.annotation) if node.annotation is not None else None
        if node.value is not None:
            self.visit(node.value)
        actual = declared if declared is not None else strong(node.value.type) if node.value is not None else UNKNOWN
        self.with_form(actual, node.span, "a variable")
        self.bind(node.pattern, actual, declared is not None)
        if isinstance(actual, TensorType):
            self.tensor_taken(actual, node.value.type if node.value is not None else UNKNOWN, node.span)
            if isinstance(node.pattern, nodes.BindingPattern):
                self.scopes[-1][node.pattern.name].fresh = isinstance(node.value, nodes.Call) and creation(node.value) is not None

    def assign(self, node: nodes.Assign, used: bool) -> None:
        self.own.fails = self.own.fails or node.operator is not None
        self.visit(node.value)
        targets = node.target.elements if isinstance(node.target, nodes.TupleLiteral) else (node.target,)
        for target in targets:
            if isinstance(target, nodes.Name):
                if target.name != "_":
                    self._assigned(target, node, len(targets) > 1)
            else:
                self.visit(target)
                self._element_assigned(target, node, len(targets) > 1)

    def _element_assigned(self, target: nodes.Expression, node: nodes.Assign, several: bool) -> None:
        """Elements of tensors take numbers of their type, and floats of another width, which are rounded."""
        if not isinstance(target, nodes.Index) or not isinstance(target.value.type, TensorType):
            return
        self.own.fails = True
        self.tensor_written(target.value)
        want, found = target.value.type.element, node.value.type
        if node.operator is not None and isinstance(want, Scalar) and isinstance(found, Scalar):
            found = want if node.operator in ("<<", ">>") else self.checker.meaning.meet(want, found) or UNKNOWN
        numbers = isinstance(want, Scalar) and isinstance(found, Scalar)
        if several or not (numbers and (strong(found) == want or _adapts(found, want))):
            self.because(DYNAMIC, f"it assigns a {found} to an element of a {target.value.type}", target.span)

    def _assigned(self, target: nodes.Name, node: nodes.Assign, several: bool) -> None:
        """A variable that takes values of other types one after the other has no native form."""
        local = self.local(target.name)
        if local is None:
            self.because(GLOBAL, f"it assigns the top-level variable `{target.name}`", target.span)
            return
        found = node.value.type
        if several:
            inside = found.elements if isinstance(found, TupleType) else ()
            at = [id(one) for one in getattr(node.target, "elements", ())].index(id(target))
            found = inside[at] if at < len(inside) else UNKNOWN
        if isinstance(local.type, TensorType):
            fresh = isinstance(node.value, nodes.Call) and creation(node.value) is not None and not several
            local.fresh = local.fresh and fresh
            self.own.writes = self.own.writes or (local.written and not fresh)
            if node.operator is not None:
                self.because(DYNAMIC, f"it computes with the tensor `{target.name}`", target.span)
            else:
                self.tensor_taken(local.type, found, target.span)
            return
        if node.operator is not None and isinstance(local.type, Scalar) and isinstance(found, Scalar):
            found = local.type if node.operator in ("<<", ">>") else self.checker.meaning.meet(local.type, found) or UNKNOWN
        if local.type is None or found in (UNKNOWN, NEVER):
            self.because(DYNAMIC, f"the type of `{target.name}` isn't known", target.span)
            return
        keeps = strong(found) == local.type or (isinstance(found, Scalar) and found.weak) or isinstance(local.type, OptionType | ResultType)
        if not (fits(found, local.type) if local.declared else keeps and fits(found, local.type)):
            self.because(DYNAMIC, f"`{target.name}` takes values of other types", target.span)

    def for_(self, node: nodes.For, used: bool) -> None:
        self.own.loops = True
        with self.scope():
            for clause in node.clauses:
                source = clause.source
                if isinstance(source, nodes.Range):
                    self.inside(source)
                    self.own.fails = True
                    self.scopes[-1][clause.names[0]] = LocalVariable(I64)
                    continue
                tensor = enumerated_tensor(source) if self.local("enumerate") is None else None
                self.visit(tensor if tensor is not None else source)
                held = tensor.type if tensor is not None else source.type
                one: Type | None = held.element if isinstance(held, ArrayType) else None
                if isinstance(held, TensorType) and tensor_refused(held) is None:
                    one = held.element if held.shape.rank == 1 else row_type(held, 1)
                elif not isinstance(held, ArrayType):
                    self.because(DYNAMIC, f"it goes over a {held}", source.span)
                if tensor is not None and len(clause.names) == 2:
                    self.scopes[-1].update({clause.names[0]: LocalVariable(I64), clause.names[1]: LocalVariable(one)})
                elif tensor is not None or (len(clause.names) > 1 and isinstance(held, TensorType)):
                    self.because(DYNAMIC, "it takes rows of a tensor apart", source.span)
                else:
                    self.scopes[-1].update({name: LocalVariable(one if len(clause.names) == 1 else None) for name in clause.names})
            self.visit(node.body, used=False)

    def while_(self, node: nodes.While, used: bool) -> None:
        self.own.loops = True
        if node.bound is not None:
            self.visit(node.bound)
        with self.scope():
            self.visit(node.condition)
            self.visit(node.body, used=False)

    def name(self, node: nodes.Name, used: bool) -> None:
        name = node.name
        local = self.local(name)
        if local is not None:
            narrowed = isinstance(local.type, OptionType) and local.type.value == node.type
            if same_elements(node.type, local.type or UNKNOWN):
                return
            if local.type is not None and strong(node.type) != local.type and not narrowed and node.type not in (UNKNOWN, ERROR):
                self.because(DYNAMIC, f"`{name}` takes values of other types", node.span)
        elif name in self.program.functions:
            self.because(DYNAMIC, f"it uses the function `{name}` as a value", node.span)
        elif name not in self.program.constants and not self._is_case(name):
            self.because(GLOBAL, f"it reads `{name}`, whose value isn't known when it is compiled", node.span)

    def _is_case(self, name: str) -> bool:
        meaning, declared = self.checker.meaning, self.checker.declarations
        return name in (meaning.none, meaning.some, "Ok", "Err") or name in declared.cases

    def path(self, node: nodes.Path, used: bool) -> None:
        if node.segments[0] not in self.checker.declarations.enums:
            self.because(GLOBAL, f"it reads `{'::'.join(node.segments)}`", node.span)

    def call(self, node: nodes.Call, used: bool) -> None:
        if self.is_creation(node):
            for one in numbers_given(node) if self.tensor_made(node) else ():
                self.visit(one)
            return
        for argument in node.arguments:
            told = message_numbers(argument.value) if getattr(node.function, "name", "") in ("assert", "panic") else None
            if told is not None:
                for number in told:
                    self.visit(number)
                continue
            self.visit(argument.value)
        if isinstance(node.function, nodes.Field):
            self.visit(node.function.value)
        match node.function:
            case nodes.Name() | nodes.Path() | nodes.Field() if node.callee in self.program.functions:
                self.own.calls.setdefault(node.callee, node.span)
                self.tensors_passed(node)
            case nodes.Name(name=name) if self.local(name) is None and self._is_case(name):
                pass
            case nodes.Name(name=name) if self.local(name) is None:
                self._library(node, name)
            case nodes.Path(segments=segments) if segments[0] in self.checker.declarations.enums:
                pass
            case nodes.Path(segments=segments):
                self._library(node, "::".join(segments))
            case nodes.Field(name=name):
                self._library(node, name)
            case other:
                self.because(DYNAMIC, "it calls a value", other.span)

    def _library(self, node: nodes.Call, name: str) -> None:
        self.own.fails = True
        if not self.native_call(node, name):
            effect = SYSTEM if name in ("print", "println", "input") else DYNAMIC
            self.because(effect, f"it calls `{name}`, which has no native code", node.span)

    def record(self, node: nodes.RecordLiteral, used: bool) -> None:
        for value in node.fields:
            self.visit(value.value)
        if node.base is not None:
            self.visit(node.base)

    def list_(self, node: nodes.ListLiteral, used: bool) -> None:
        if isinstance(node.type, ListType):
            self.because(ALLOCATES, "it makes a list", node.span)
        self.inside(node)

    def failing(self, node: nodes.Node, used: bool) -> None:
        self.own.fails = True
        self.inside(node)

    def index(self, node: nodes.Index, used: bool) -> None:
        if shape_of(node) is not None:
            return
        self.failing(node, used)
        if isinstance(node.value.type, TensorType) and not all(_is_index(one.type) for one in node.indices):
            self.because(DYNAMIC, "it has an index of a tensor that is no int of 64 bits or less", node.span)

    def binary(self, node: nodes.Binary, used: bool) -> None:
        self.own.fails = self.own.fails or (isinstance(node.type, Scalar) and node.type.dtype.is_int)
        ordered = node.operator in ("<", "<=", ">", ">=") and not isinstance(node.left.type, Scalar)
        if node.operator in ("in", "@") or ordered:
            self.because(DYNAMIC, f"it uses `{node.operator}`", node.span)
        if node.operator in ("<<", ">>") and strong(node.left.type) != strong(node.right.type) and not _weak(node.right.type):
            self.because(DYNAMIC, "it shifts by an int of another type", node.span)
        self.inside(node)

    def repeat(self, node: nodes.Repeat, used: bool) -> None:
        if isinstance(node.type, ListType):
            self.because(ALLOCATES, "it makes a list", node.span)
        self.visit(node.element)


_RULES: Mapping[type[nodes.Node], Callable[[BodyEffects, Any, bool], None]] = {
    nodes.Block: BodyEffects.block,
    nodes.If: BodyEffects.if_,
    nodes.Conditional: BodyEffects.conditional,
    nodes.Match: BodyEffects.match,
    nodes.LetCondition: BodyEffects.let_condition,
    nodes.Let: BodyEffects.let,
    nodes.Assign: BodyEffects.assign,
    nodes.For: BodyEffects.for_,
    nodes.While: BodyEffects.while_,
    nodes.Name: BodyEffects.name,
    nodes.Path: BodyEffects.path,
    nodes.Call: BodyEffects.call,
    nodes.RecordLiteral: BodyEffects.record,
    nodes.ListLiteral: BodyEffects.list_,
    nodes.Index: BodyEffects.index,
    nodes.Cast: BodyEffects.failing,
    nodes.Unary: BodyEffects.failing,
    nodes.Binary: BodyEffects.binary,
    nodes.Repeat: BodyEffects.repeat,
}


def _is_index(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.dtype.is_int and fits(strong(type_), I64)


def _adapts(actual: Type, want: Type) -> bool:
    """Whether a number becomes an element as a cast has it: a float of any width or an int as a float, a literal as what its place has."""
    if not isinstance(actual, Scalar) or not isinstance(want, Scalar) or DType.BOOL in (actual.dtype, want.dtype):
        return False
    return want.dtype.is_float or (actual.weak and actual.dtype.is_int and want == I64)


def _weak(type_: Type) -> bool:
    return isinstance(type_, Scalar) and type_.weak


def inferred_result(function: nodes.Function) -> Type:
    """The result of a function that doesn't declare one, from its typed body."""
    assert function.body is not None
    found = function.body.type
    for node in _own_returns(function.body):
        found = join(found, node.value.type if node.value is not None else UNIT)
    return strong(found) if found != NEVER else UNKNOWN


def _own_returns(node: nodes.Node) -> Iterator[nodes.Return]:
    """Of a body, without those of functions inside of it."""
    for part in parts(node):
        if isinstance(part, nodes.Return):
            yield part
        elif not isinstance(part, nodes.Function | nodes.Lambda):
            yield from _own_returns(part)
