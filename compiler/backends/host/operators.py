"""Operators to Python: directly where both types are known and Python means the same, with a range check on i64; by a helper
that looks at the values everywhere else."""

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from compiler.backends.host import direct, intervals
from compiler.backends.host.emit import Emitter, is_stable, load
from compiler.backends.host.naming import MARK
from compiler.backends.host.numbers import I64_MAX, I64_MIN, cast_scalar
from compiler.backends.host.record_values import RECORD_TYPES
from compiler.backends.host.support import ARITHMETIC, COMPARISONS
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import DTYPE_NAMES, strong
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import (
    F64,
    UNKNOWN,
    WEAK_INT,
    DType,
    FutureType,
    ListType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
    UnknownType,
)
from compiler.typed_ast.walk import walk
from compiler.typed_ast.weak_ints import weak_int

_PYTHON: dict[str, Callable[[], ast.operator]] = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult}
_COMPARE: dict[str, Callable[[], ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}
_DIRECT = (DType.I64, DType.F64)
SMALL = (1 << 30) - 1
"""The largest int that Python keeps in one digit."""


class Operators(Emitter):
    """Literals, unary and binary operators."""

    tries = 0
    """In how many `try`s what is written now stands: what stops there is caught when the program runs."""

    def expression(self, node: nodes.Expression) -> ast.expr:
        raise AssertionError("defined by the generator")

    def both_at_once(self, sides: list[nodes.Expression], span: Span) -> ast.expr:
        raise AssertionError("defined by the generator")

    def otherwise(self, node: nodes.Binary) -> ast.expr:
        raise AssertionError("defined by the generator")

    # ---- literals --------------------------------------------------------------------------------------------------

    def number(self, node: nodes.IntLiteral | nodes.FloatLiteral) -> ast.expr:
        """A literal as its suffix, or else the type that the checker found, wants it."""
        dtype = DTYPE_NAMES.get(node.suffix) if node.suffix is not None else _dtype(node.type)
        weak = DType.I64 if isinstance(node, nodes.IntLiteral) else DType.F64
        return self._scalar(node.value, weak, dtype or weak, node.span)

    def _scalar(self, value: Any, have: DType, want: DType, span: Span) -> ast.expr:
        try:
            number = cast_scalar(value, have, want)
        except LibraryFault as fault:
            if self.tries and isinstance(value, int | float):
                return self.help("cast", span, ast.Constant(value), self.constant(Scalar(want)))
            raise ZyntaxError(Diagnostic("0207", fault.message, span, hint=fault.hint)) from None
        if (isinstance(number, float) and number < 0) or (type(number) is int and number < 0):
            return self.at(ast.UnaryOp(ast.USub(), ast.Constant(-number)), span)
        return self.constant(number)

    def weak_literal(self, node: nodes.Expression) -> tuple[Any, DType] | None:
        """The number of an unsuffixed literal, also behind a minus and as `inf`, `nan`, `pi`."""
        match node:
            case nodes.IntLiteral(value=value, suffix=None):
                return value, DType.I64
            case nodes.FloatLiteral(value=value, suffix=None):
                return value, DType.F64
            case nodes.Unary(operator="-", operand=operand):
                inner = self.weak_literal(operand)
                return None if inner is None else (-inner[0], inner[1])
            case nodes.Name(name=name) if self.scope.find(name) is None and name in self.library.constants:
                type_, value = self.library.constants[name]
                if isinstance(type_, Scalar) and type_.weak:
                    return value, type_.dtype
        return None

    def written_int(self, node: nodes.Expression) -> ast.expr | None:
        """Arithmetic on ints that are written out, which is computed now, as the type that the checker found; None of anything else."""
        if not isinstance(node, nodes.Binary) or not isinstance(node.type, Scalar):
            return None
        value = weak_int(node) if is_weak_int(node.left) and is_weak_int(node.right) else None
        return None if value is None else self._scalar(value, DType.I64, node.type.dtype, node.span)

    def is_weak(self, node: nodes.Expression) -> bool:
        """Whether the value takes the other operand's type: all that flows into it are unsuffixed literals."""
        if isinstance(node.type, Scalar):
            return node.type.weak
        waiting = [node]
        while waiting:
            match waiting.pop():
                case nodes.Binary(operator=operator, left=left, right=right) if operator in ARITHMETIC:
                    waiting += [left, right]
                case nodes.Unary(operator="-", operand=operand):
                    waiting.append(operand)
                case nodes.Conditional(then=then, otherwise=otherwise):
                    waiting += [then, otherwise]
                case other:
                    if self.weak_literal(other) is None:
                        return False
        return True

    def converted(self, node: nodes.Expression, to: Type) -> ast.expr:
        """The expression as the declared type has it. What is written out, part by part, takes the type of each part."""
        match node, to:
            case nodes.ListLiteral(elements=elements), ListType(element=element):
                return self.list_of(elements, (element,) * len(elements), node.span)
            case nodes.TupleLiteral(elements=elements), TupleType(elements=types) if len(types) == len(elements) > 0:
                return self.tuple_of(elements, types, node.span)
        if isinstance(to, Scalar):
            literal = self.weak_literal(node)
            if literal is not None and to.dtype is not DType.BOOL and (to.dtype.is_float or literal[1].is_int):
                return self._scalar(*literal, to.dtype, node.span)
            if not isinstance(node.type, Scalar) and self.is_weak(node):
                return self.help("weak", node.span, self.expression(node), self.constant(to.dtype))
        value = self.expression(node)
        return self.convert(value, node.type, to, node.span)

    def convert(self, value: ast.expr, have: Type, to: Type, span: Span) -> ast.expr:
        """The value as the declared type has it; itself where the types say that it already is."""
        match to:
            case Scalar(dtype=want):
                if isinstance(have, Scalar):
                    if have.dtype is want:
                        return value
                    if have.weak:
                        return self.help("weak", span, value, self.constant(want))
                return self.help("convert", span, value, self.constant(to))
        if (is_already(strong(have), strong(to)) and not names_a_device(to)) or needs_no_check(to):
            return value
        return self.help("convert·weak" if has_weak(have) else "convert", span, value, self.constant(to))

    def list_of(self, elements: Sequence[nodes.Expression], types: Sequence[Type], span: Span) -> ast.expr:
        values = self.in_order([self.maker(e, t) for e, t in zip(elements, types, strict=True)], span)
        return self.made(ast.List(values, ast.Load()), span, *values)

    def tuple_of(self, elements: Sequence[nodes.Expression], types: Sequence[Type], span: Span) -> ast.expr:
        values = self.in_order([self.maker(e, t) for e, t in zip(elements, types, strict=True)], span)
        return self.made(ast.Tuple(values, ast.Load()), span, *values)

    def maker(self, node: nodes.Expression, to: Type = UNKNOWN) -> Callable[[], ast.expr]:
        return lambda: self.converted(node, to)

    # ---- operators -------------------------------------------------------------------------------------------------

    def unary(self, node: nodes.Unary) -> ast.expr:
        literal = self.weak_literal(node)
        if literal is not None:
            value, dtype = literal
            return self._scalar(value, dtype, _dtype(node.type) or dtype, node.span)
        if node.operator in ("not", "!"):
            operand = self.condition(node.operand)
            return self.made(ast.UnaryOp(ast.Not(), operand), node.span, operand)
        operand = self.expression(node.operand)
        match node.operand.type:
            case Scalar(dtype=DType.F64):
                return self.made(ast.UnaryOp(ast.USub(), operand), node.span, operand)
            case Scalar(dtype=DType.I64):
                return self._checked(lambda a: ast.UnaryOp(ast.USub(), a), "-", [operand], node.span)
        return self.help("negate", node.span, operand)

    def condition(self, node: nodes.Expression) -> ast.expr:
        """An expression of which only the truth matters."""
        value = self.expression(node)
        if isinstance(node.type, Scalar) and node.type.dtype is DType.BOOL:
            return value
        return self.help("truth", node.span, value)

    def binary(self, node: nodes.Binary) -> ast.expr:
        """A chain `a + b + c...` is left-deep and may have thousands of terms: a loop, no recursion."""
        match node.operator:
            case "and" | "or":
                return self.logical(node)
            case "??":
                return self.otherwise(node)
        if is_at_once(node):
            return self.both_at_once(_sides(node), node.span)
        spine: list[nodes.Binary] = []
        left: nodes.Expression = node
        value: ast.expr | None = None
        while _is_step(left) and (value := self.written_int(left)) is None:
            spine.append(left)
            left = left.left
        for step in reversed(spine):
            value = self._apply(step, value)
        assert value is not None
        return value

    def _apply(self, node: nodes.Binary, left: ast.expr | None) -> ast.expr:
        """One operator, `left` already made unless it is the first of a chain."""
        left_to, right_to = self._operand_dtypes(node)
        if left is not None and left_to is not None:
            left = self.convert(left, node.left.type, left_to, node.span)
        makers = [lambda: left or self._operand(node.left, left_to), lambda: self._operand(node.right, right_to)]
        first, second = self.in_order(makers, node.span)
        return self.operate(
            node.operator,
            first,
            second,
            left_to or node.left.type,
            right_to or node.right.type,
            self.is_weak(node.left) and left_to is None,
            self.is_weak(node.right) and right_to is None,
            node.span,
        )

    def _operand_dtypes(self, node: nodes.Binary) -> tuple[Scalar | None, Scalar | None]:
        """The types that the operands' literals take from each other; and f64 for both, where the language says that an int and an f32 meet
        there."""
        kinds = [side.type.dtype for side in (node.left, node.right) if isinstance(side.type, Scalar) and not side.type.weak]
        if node.type == F64 and DType.F32 in kinds and any(kind.is_int for kind in kinds):
            return F64, F64

        def taken(literal: nodes.Expression, other: nodes.Expression) -> Scalar | None:
            if not isinstance(other.type, Scalar) or other.type.weak:
                return None
            weak = self.weak_literal(literal)
            if weak is None or other.type.dtype is DType.BOOL or (weak[1].is_float and not other.type.dtype.is_float):
                return None
            return Scalar(other.type.dtype)

        return taken(node.left, node.right), taken(node.right, node.left)

    def _operand(self, node: nodes.Expression, to: Scalar | None) -> ast.expr:
        return self.expression(node) if to is None else self.converted(node, to)

    def operate(
        self,
        symbol: str,
        left: ast.expr,
        right: ast.expr,
        left_type: Type,
        right_type: Type,
        left_weak: bool,
        right_weak: bool,
        span: Span,
    ) -> ast.expr:
        """`left symbol right` of two expressions that are evaluated in this order."""
        if symbol == "in" and direct.contains_directly(left_type, right_type):
            return self.made(ast.Compare(left, [ast.In()], [right]), span, left, right)
        if symbol == "in":
            return self.help("contains", span, left, right)
        if symbol == "@":
            return self.help("matmul", span, left, right)
        pair = (_dtype(left_type), _dtype(right_type))
        if symbol in COMPARISONS:
            same = (pair[0] is pair[1] and pair[0] in _DIRECT) or (pair == (DType.BOOL, DType.BOOL) and symbol in ("==", "!="))
            if same or (isinstance(left_type, StringType) and isinstance(right_type, StringType)):
                return self.made(ast.Compare(left, [_COMPARE[symbol]()], [right]), span, left, right)
            return self.help(COMPARISONS[symbol] + _suffix(left_weak, right_weak), span, left, right)
        if pair == (DType.I64, DType.I64) and symbol != "&":
            if symbol in _PYTHON:
                return self._checked(lambda a, b: ast.BinOp(a, _PYTHON[symbol](), b), symbol, [left, right], span)
            if symbol in ("/", "%"):
                return self._divided(symbol, left, right, span)
            return self.help(f"{ARITHMETIC[symbol]}·i64", span, left, right)
        if DType.F64 in pair and pair[0] in _DIRECT and pair[1] in _DIRECT and symbol not in ("<<", ">>", "&"):
            if symbol in _PYTHON:
                return self.made(ast.BinOp(left, _PYTHON[symbol](), right), span, left, right)
            return self._divided_floats(left, right, span) if symbol == "/" else self.help(f"{ARITHMETIC[symbol]}·f64", span, left, right)
        if symbol == "+" and isinstance(left_type, StringType) and isinstance(right_type, StringType):
            return self.made(ast.BinOp(left, ast.Add(), right), span, left, right)
        return self.help(ARITHMETIC[symbol] + _suffix(left_weak, right_weak), span, left, right)

    def _divided(self, symbol: str, left: ast.expr, right: ast.expr, span: Span) -> ast.expr:
        """`a / b` or `a % b` of i64: Python's where neither is negative nor the divisor 0, `a % b if a >= 0 < b else rem(a, b)`."""
        written = right.value if isinstance(right, ast.Constant) else None
        if not isinstance(right, ast.Name) and not (isinstance(written, int) and written > 0):
            return self.help(f"{ARITHMETIC[symbol]}·i64", span, left, right)
        bounds = intervals.quotient(symbol, intervals.interval(left), intervals.interval(right))
        make = ast.FloorDiv if symbol == "/" else ast.Mod
        if intervals.interval(left)[0] >= 0 and intervals.interval(right)[0] > 0:
            return intervals.marked(self.made(ast.BinOp(left, make(), right), span, left, right), bounds)
        first, again = self._named(left, span)
        test = ast.Compare(first, [ast.GtE()], [ast.Constant(0)])
        if written is None and intervals.interval(left)[0] >= 0:
            first, again = left, left
            test = ast.Compare(right, [ast.Gt()], [ast.Constant(0)])
        elif written is None:
            test = ast.Compare(first, [ast.GtE(), ast.Lt()], [ast.Constant(0), right])
        fast = ast.BinOp(again, make(), right)
        slow = self.at(ast.Call(load(f"{MARK}{ARITHMETIC[symbol]}·i64"), [again, right], []), span)
        return intervals.marked(self.made(ast.IfExp(test, self.at(fast, span), slow), span, left, right), bounds)

    def _divided_floats(self, left: ast.expr, right: ast.expr, span: Span) -> ast.expr:
        """`a / b` of f64: Python's where the divisor isn't 0."""
        if isinstance(right, ast.Constant) and right.value:
            return self.made(ast.BinOp(left, ast.Div(), right), span, left, right)
        if not isinstance(left, ast.Name | ast.Constant) or not isinstance(right, ast.Name):
            return self.help(f"{ARITHMETIC['/']}·f64", span, left, right)
        slow = self.at(ast.Call(load(f"{MARK}{ARITHMETIC['/']}·f64"), [left, right], []), span)
        return self.made(ast.IfExp(right, self.at(ast.BinOp(left, ast.Div(), right), span), slow), span, left, right)

    def extreme(self, name: str, pair: ast.expr, span: Span) -> ast.expr:
        """The larger or smaller of two i64, which are the elements of a tuple."""
        assert isinstance(pair, ast.Tuple)
        left, right = pair.elts
        first, again = self._named(left, span, not isinstance(right, ast.Name | ast.Constant) and not is_stable(left))
        second, other = self._named(right, span)
        test = ast.Compare(first, [ast.GtE() if name == "max" else ast.LtE()], [second])
        pick = max if name == "max" else min
        bounds = [pick(ends) for ends in zip(intervals.interval(left), intervals.interval(right), strict=True)]
        return intervals.marked(self.made(ast.IfExp(test, again, other), span, left, right), (bounds[0], bounds[1]))

    def _named(self, operand: ast.expr, span: Span, may_change: bool = False) -> tuple[ast.expr, ast.expr]:
        """The operand, and what gives its value once more; of a variable that `may_change` a copy."""
        if isinstance(operand, ast.Name | ast.Constant) and not may_change:
            return operand, operand
        name = self.frame.temporary()
        return self.made(ast.NamedExpr(ast.Name(name, ast.Store()), operand), span, operand), load(name)

    def _checked(self, make: Callable[..., ast.expr], symbol: str, operands: list[ast.expr], span: Span) -> ast.expr:
        """An i64 operation whose result must be in range: `t if low <= (t := a + b) <= high else overflow(...)`. What is
        surely in range isn't tested."""
        bounds = intervals.result(symbol, [intervals.interval(operand) for operand in operands])
        if bounds[0] >= I64_MIN and bounds[1] <= I64_MAX:
            return intervals.marked(self.made(make(*operands), span, *operands), bounds)
        simple = all(is_stable(o) or isinstance(o, ast.Name) or hasattr(o, "again") for o in operands)
        named: list[ast.expr] = []
        again: list[ast.expr] = []
        for place, operand in enumerate(operands):
            # Nothing comes between the evaluation of a last operand and its use.
            stays = isinstance(operand, ast.Constant) or (place == len(operands) - 1 and isinstance(operand, ast.Name))
            if simple or stays:
                named.append(operand)
                again.append(getattr(operand, "again", operand))
            else:
                name = self.frame.temporary()
                named.append(self.made(ast.NamedExpr(ast.Name(name, ast.Store()), operand), span, operand))
                again.append(load(name))
        result = self.frame.temporary()
        value = self.made(make(*named), span, *named)
        bound = ast.NamedExpr(ast.Name(result, ast.Store()), value)
        if bounds[0] >= I64_MIN:
            test = ast.Compare(bound, [ast.LtE()], [ast.Constant(I64_MAX)])
        elif bounds[1] <= I64_MAX:
            test = ast.Compare(bound, [ast.GtE()], [_minimum()])
        else:
            # Python compares small ints much sooner than large ones, and most are small.
            test = ast.Compare(ast.Constant(-SMALL), [ast.LtE(), ast.LtE()], [bound, ast.Constant(SMALL)])
        fault = self.at(ast.Call(load(f"{MARK}overflow"), [ast.Constant(symbol), *again], []), span)
        otherwise: ast.expr = fault
        if bounds[0] < I64_MIN and bounds[1] > I64_MAX:
            whole = ast.Compare(_minimum(), [ast.LtE(), ast.LtE()], [load(result), ast.Constant(I64_MAX)])
            otherwise = ast.IfExp(whole, load(result), fault)
        made = self.made(ast.IfExp(test, load(result), otherwise), span, value)
        made.again = load(result)  # type: ignore[attr-defined]
        return intervals.marked(made, intervals.clipped(bounds))

    def logical(self, node: nodes.Binary) -> ast.expr:
        """`and`, `or`: a chain of one operator is one list; what needs statements is evaluated only when it is its turn."""
        terms: list[nodes.Expression] = []
        left: nodes.Expression = node
        while isinstance(left, nodes.Binary) and left.operator == node.operator:
            terms.append(left.right)
            left = left.left
        terms.append(left)
        terms.reverse()
        operator = ast.And() if node.operator == "and" else ast.Or()
        values: list[ast.expr] = [self.condition(terms[0])]
        for term in terms[1:]:
            with self.collected() as written:
                value = self.condition(term)
            if not written:
                values.append(value)
                continue
            name = self.frame.temporary()
            self.assign(name, values[0] if len(values) == 1 else self.made(ast.BoolOp(operator, values), node.span, *values), node.span)
            with self.collected() as inner:
                self.body.extend(written)
                self.assign(name, value, term.span)
            test: ast.expr = load(name) if node.operator == "and" else ast.UnaryOp(ast.Not(), load(name))
            self.write(ast.If(test, inner, []), node.span)
            values = [load(name)]
        return values[0] if len(values) == 1 else self.made(ast.BoolOp(operator, values), node.span, *values)


def needs_no_check(to: Type) -> bool:
    """Whether every value is fine as it is where this type is asked for."""
    match to:
        case ListType(element=element):
            return isinstance(element, UnknownType)
        case TensorType(element=element, shape=shape):
            return isinstance(element, UnknownType) and shape.rank is None and to.device is None
    return not isinstance(to, (Scalar, StringType, TupleType, UnitType, FutureType, *RECORD_TYPES))


def is_already(have: Type, to: Type) -> bool:
    """Whether values of a type are those of another as they are; what that leaves open may be anything."""
    match have, to:
        case _, UnknownType():
            return True
        case ListType(element=given), ListType(element=wanted):
            return is_already(given, wanted)
        case TupleType(elements=given), TupleType(elements=wanted):
            return len(given) == len(wanted) and all(map(is_already, given, wanted))
    return have == to


def names_a_device(to: Type) -> bool:
    """Whether the type says where tensors lie: a value of that type may lie elsewhere by now."""
    match to:
        case TensorType(device=device):
            return device is not None
        case ListType(element=part) | FutureType(value=part):
            return names_a_device(part)
        case TupleType(elements=parts):
            return any(map(names_a_device, parts))
    return False


def has_weak(type_: Type) -> bool:
    """Whether the value, or a part of it, came out of unsuffixed literals."""
    match type_:
        case Scalar(weak=weak):
            return weak
        case ListType(element=element):
            return has_weak(element)
        case TupleType(elements=elements):
            return any(map(has_weak, elements))
    return False


def is_at_once(node: nodes.Binary) -> bool:
    """Whether the sides of `a & b` run at once; where the types leave it open, only if one of them does something."""
    if node.operator != "&" or isinstance(node.type, Scalar):
        return False
    return isinstance(node.type, TupleType) or any(isinstance(inner, nodes.Call | nodes.Compute) for inner in walk(node))


def _sides(node: nodes.Binary) -> list[nodes.Expression]:
    left = node.left
    chained = isinstance(left, nodes.Binary) and isinstance(left.type, TupleType) and is_at_once(left)
    return [*(_sides(left) if isinstance(left, nodes.Binary) and chained else [left]), node.right]


def _is_step(node: nodes.Expression) -> TypeGuard[nodes.Binary]:
    return isinstance(node, nodes.Binary) and node.operator not in ("and", "or", "??") and not is_at_once(node)


def inferred(type_: Type) -> Type:
    """What a value must become where the type was not written but found: only numbers change, alone and in containers."""
    match type_:
        case Scalar():
            return type_
        case ListType(element=element):
            inner = inferred(element)
            return UNKNOWN if isinstance(inner, UnknownType) else ListType(inner)
        case TupleType(elements=elements):
            parts = tuple(map(inferred, elements))
            return UNKNOWN if all(isinstance(p, UnknownType) for p in parts) else TupleType(parts)
    return type_ if isinstance(type_, RECORD_TYPES) else UNKNOWN


def _dtype(type_: Type) -> DType | None:
    return type_.dtype if isinstance(type_, Scalar) else None


def is_weak_int(node: nodes.Expression) -> bool:
    return node.type == WEAK_INT


def _suffix(left_weak: bool, right_weak: bool) -> str:
    return "" if left_weak == right_weak else "·l" if left_weak else "·r"


def _minimum() -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-I64_MIN))
