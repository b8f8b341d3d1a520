"""A nest's loops in C, as C programmers write them first: the peer of the wide bench on the CPU."""

import ast
from collections.abc import Sequence

from bench.nests.arrays import GAP
from bench.nests.form import BenchNest, Operand
from bench.nests.printing import numbered

TYPES = {
    "f64": "double", "f32": "float", "f16": "_Float16", "bf16": "uint16_t",
    "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t", "u8": "uint8_t", "u32": "uint32_t",
}  # fmt: skip

TOTALS = {"f64": "double", "f32": "float", "f16": "float", "bf16": "float", "i64": "int64_t", "u8": "uint32_t", "u32": "uint32_t"}
"""In which elements are gathered; those that aren't listed in int32_t."""

HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>
#undef I

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

static inline float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

static inline uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
"""

OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.And: "&&", ast.Or: "||",
}  # fmt: skip


def program(nest: BenchNest) -> str:
    """A function `f` of the operands, the result, and the sizes that are names; threads take turns of the outermost loop."""
    return _Printer(nest).program()


def size_arguments(nest: BenchNest) -> list[str]:
    return list(nest.sizes) if nest.named else []


def is_parallel(loop: ast.For) -> bool:
    """Whether the turns of a loop write and read different elements of the result."""
    assert isinstance(loop.target, ast.Name)
    for node in ast.walk(loop):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "out":
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if not any(isinstance(part, ast.Name) and part.id == loop.target.id for part in index):
                return False
    return True


class _Printer:
    def __init__(self, nest: BenchNest) -> None:
        self.nest = nest
        self.sizes = {} if nest.named else nest.sizes
        self.arrays = {**nest.operands, "out": Operand(nest.result_dims, nest.result_dtype)}

    def program(self) -> str:
        parameters = [f"const {TYPES[operand.dtype]} *restrict {name}" for name, operand in self.nest.operands.items()]
        parameters.append(f"{TYPES[self.nest.result_dtype]} *restrict out")
        parameters += [f"int64_t {name}" for name in size_arguments(self.nest)]
        lines = [HEAD, f"void f({', '.join(parameters)}) {{"]
        if self.nest.zeroed:
            count = " * ".join(f"({self.form(dim)})" for dim in self.nest.result_dims)
            lines.append(f"    memset(out, 0, sizeof *out * {count});")
        for statement in self.nest.tree.body:
            if isinstance(statement, ast.For) and is_parallel(statement):
                lines.append("#pragma omp parallel for")
            lines += self.statement(statement, 1)
        return "\n".join([*lines, "}", ""])

    def form(self, dim: str) -> str:
        return self.shown(ast.parse(dim, mode="eval").body)

    def block(self, statements: Sequence[ast.stmt], depth: int) -> list[str]:
        return [line for statement in statements for line in self.statement(statement, depth)]

    def statement(self, statement: ast.stmt, depth: int) -> list[str]:
        indent = "    " * depth
        match statement:
            case ast.For(ast.Name(id=name), ast.Call(args=bounds), body):
                low, high = [ast.Constant(0), *bounds] if len(bounds) == 1 else bounds
                head = f"for (int64_t {name} = {self.shown(low)}; {name} < {self.shown(high)}; {name}++) {{"
                return [indent + head, *self.block(body, depth + 1), indent + "}"]
            case ast.If(test, body, []):
                return [f"{indent}if ({self.shown(test)}) {{", *self.block(body, depth + 1), indent + "}"]
            case ast.AnnAssign(ast.Name(id=name), ast.Name(id=role), value) if value is not None:
                kind = self.total if role == "total" else "int64_t" if role == "index" else "__auto_type"
                return [f"{indent}{kind} {name} = {self.shown(value)};"]
            case ast.Assign([target], value):
                return [f"{indent}{self.stored(target, self.shown(value))};"]
            case ast.AugAssign(ast.Subscript() as target, ast.Add(), value):
                return [f"{indent}{self.stored(target, f'{self.shown(target)} + {self.shown(value)}')};"]
            case ast.AugAssign(target, ast.Add(), value):
                return [f"{indent}{self.shown(target)} += {self.shown(value)};"]
        raise ValueError(ast.unparse(statement))

    @property
    def total(self) -> str:
        floats = [one.dtype for one in self.nest.operands.values() if one.dtype[0] in "fb"]
        return TOTALS.get("f64" if "f64" in floats else floats[0] if floats else self.nest.dtype, "int32_t")

    def stored(self, target: ast.expr, value: str) -> str:
        if not isinstance(target, ast.Subscript):
            return f"{self.shown(target)} = {value}"
        kind = self.nest.result_dtype
        return f"{self.element(target)} = {f'to_bf16({value})' if kind == 'bf16' else f'({TYPES[kind]})({value})'}"

    def element(self, node: ast.Subscript) -> str:
        """Where it lies: rows one behind the other, or as the operand's layout has it."""
        assert isinstance(node.value, ast.Name)
        operand = self.arrays[node.value.id]
        index = [self.shown(part) for part in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])]
        extents = [self.form(dim) for dim in operand.dims]
        if operand.layout == "columns":
            index[-2:], extents[-2:] = index[-2:][::-1], extents[-2:][::-1]
        if operand.layout == "padded":
            extents[-1] = f"({extents[-1]} + {GAP})"
        place = index[0]
        for part, extent in zip(index[1:], extents[1:], strict=True):
            place = f"({place}) * ({extent}) + {part}"
        return f"{node.value.id}[{place}]"

    def shown(self, node: ast.expr) -> str:
        return self.expression(numbered(node, self.sizes))

    def expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=float(number)):
                return f"{number!r}" if self.total == "double" else f"{number!r}f"
            case ast.Constant(value=number):
                return str(number)
            case ast.Name(id="inf"):
                return "1e308" if self.total == "double" else "3e38f"
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=ast.Name(id=name)):
                kind = self.arrays[name].dtype
                return f"from_bf16({self.element(node)})" if kind == "bf16" else f"{'(float)' * (kind == 'f16')}{self.element(node)}"
            case ast.UnaryOp(ast.USub(), value):
                return f"(-{self.expression(value)})"
            case ast.BinOp(left, operator, right):
                return f"({self.expression(left)} {OPERATORS[type(operator)]} {self.expression(right)})"
            case ast.Compare(left, [operator], [right]):
                return f"({self.expression(left)} {OPERATORS[type(operator)]} {self.expression(right)})"
            case ast.BoolOp(operator, values):
                return f"({f' {OPERATORS[type(operator)]} '.join(map(self.expression, values))})"
            case ast.IfExp(test, body, orelse):
                return f"({self.expression(test)} ? {self.expression(body)} : {self.expression(orelse)})"
            case ast.Call(ast.Name(id=name), arguments):
                words = ", ".join(map(self.expression, arguments))
                return f"({TYPES[name]})({words})" if name in TYPES else f"{FUNCTIONS.get(name, name)}({words})"
        raise ValueError(ast.unparse(node))


FUNCTIONS = {"max": "MAX", "min": "MIN", "abs": "fabs"}
