"""A nest's program in ZynML, as a textbook writes it, and its loops in Python."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from bench.nests.form import BYTES, BenchNest

INDENT = "    "


def zynml(nest: BenchNest) -> str:
    """The program: a function `f` of the operands, and of sizes that no operand's dim states."""
    sizes = {} if nest.named else nest.sizes
    dims = {name: [_text(dim, sizes) for dim in operand.dims] for name, operand in nest.operands.items()}
    parameters = [f"{name}: tensor[{', '.join([*dims[name], operand.dtype])}]" for name, operand in nest.operands.items()]
    parameters += [f"{name}: int" for name in scalars(nest)]
    header = ", ".join([*nest.operands, *scalars(nest)])
    if nest.stated:
        header += f") -> tensor[{', '.join([*(_text(dim, sizes) for dim in nest.result_dims), nest.result_dtype])}"
    close = "]" if nest.stated else ")"
    body = _block(nest.tree.body, sizes, 2)
    return "\n".join([f"def f({', '.join(parameters)}) {{", f"    compute({header}{close} {{", *body, "    }", "}", ""])


def scalars(nest: BenchNest) -> list[str]:
    """Sizes that are passed as ints: those that are names and no dim of an operand."""
    dims = {dim for operand in nest.operands.values() for dim in operand.dims}
    used = {node.id for node in ast.walk(nest.tree) if isinstance(node, ast.Name)} | names_of(nest.result_dims) | names_of(dims)
    return [size for size in nest.sizes if nest.named and size in used and size not in dims]


def names_of(forms: Sequence[str] | set[str]) -> set[str]:
    return {node.id for form in forms for node in ast.walk(ast.parse(form)) if isinstance(node, ast.Name)}


def _block(statements: Sequence[ast.stmt], sizes: Mapping[str, int], depth: int) -> list[str]:
    return [line for statement in statements for line in _statement(statement, sizes, depth)]


def _statement(statement: ast.stmt, sizes: Mapping[str, int], depth: int) -> list[str]:
    indent = INDENT * depth
    match statement:
        case ast.For():
            ranges, inner = loops_together(statement)
            words = [f"{name} in {_range(bounds, sizes)}" for name, bounds in ranges]
            return [f"{indent}for {', '.join(words)}:", *_block(inner, sizes, depth + 1)]
        case ast.If(test, body, otherwise):
            lines = [f"{indent}if {_shown(test, sizes)}:", *_block(body, sizes, depth + 1)]
            return [*lines, f"{indent}else:", *_block(otherwise, sizes, depth + 1)] if otherwise else lines
        case ast.AnnAssign(target, ast.Name(id=role), value) if value is not None:
            return [f"{indent}{'var' if role == 'total' else 'let'} {_shown(target, sizes)} = {_shown(value, sizes)}"]
        case ast.Assign([target], value):
            return [f"{indent}{_shown(target, sizes)} = {_shown(value, sizes)}"]
        case ast.AugAssign(target, ast.Add(), value):
            return [f"{indent}{_shown(target, sizes)} += {_shown(value, sizes)}"]
    raise ValueError(ast.unparse(statement))


def loops_together(loop: ast.For) -> tuple[list[tuple[str, list[ast.expr]]], list[ast.stmt]]:
    """The loops that stand in each other with nothing between them and bounds that don't depend on each other; and what is inside."""
    ranges: list[tuple[str, list[ast.expr]]] = []
    statement: ast.stmt = loop
    inner: list[ast.stmt] = [loop]
    while isinstance(statement, ast.For) and isinstance(statement.iter, ast.Call) and isinstance(statement.target, ast.Name):
        bounds = statement.iter.args
        outer = {name for name, _ in ranges}
        if any(isinstance(node, ast.Name) and node.id in outer for bound in bounds for node in ast.walk(bound)):
            break
        ranges.append((statement.target.id, bounds))
        inner = statement.body
        statement = inner[0] if len(inner) == 1 else ast.Pass()
    return ranges, inner


def _range(bounds: list[ast.expr], sizes: Mapping[str, int]) -> str:
    low, high, *step = [ast.Constant(0), *bounds] if len(bounds) == 1 else bounds
    words = f"{_shown(low, sizes)}..{_shown(high, sizes)}"
    return f"{words} step {_shown(step[0], sizes)}" if step else words


def _shown(expression: ast.expr, sizes: Mapping[str, int]) -> str:
    return ast.unparse(_InZynML(sizes).visit(numbered(expression, sizes)))


def _text(form: str, sizes: Mapping[str, int]) -> str:
    return _shown(ast.parse(form, mode="eval").body, sizes)


def numbered(expression: ast.expr, sizes: Mapping[str, int]) -> ast.expr:
    """A copy with numbers for the sizes; what is computed of numbers alone is one number."""
    copy = ast.parse(ast.unparse(expression), mode="eval").body
    changed: ast.expr = _Numbers(sizes).visit(copy)
    return changed


class _Numbers(ast.NodeTransformer):
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.sizes[node.id]) if node.id in self.sizes else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        sides = (node.left, node.right)
        if all(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides) and not isinstance(node.op, ast.Div):
            return ast.Constant(eval(ast.unparse(node)))
        return node


class _InZynML(ast.NodeTransformer):
    """Casts are written behind what they convert, and `//` is `/`: of ints it is the same."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name(id=name), [value]) if name in BYTES:
                words = ast.unparse(value)
                return ast.Name(f"({words} as {name})" if isinstance(value, ast.Name | ast.Subscript) else f"(({words}) as {name})")
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.FloorDiv):
            node.op = ast.Div()
        return node


def run_by_python(nest: BenchNest, operands: Mapping[str, Any], out: Any) -> None:
    """The loops themselves, which write `out`; for small sizes."""
    import math

    names: dict[str, Any] = {name: getattr(math, name) for name in ("exp", "log", "sqrt", "tanh", "erf", "inf")}
    names |= {name: float if name[0] in "fb" else int for name in BYTES}
    names |= {"total": None, "let": None, "index": None, **nest.sizes, **operands, "out": out}
    exec(compile(nest.tree, f"<{nest.kind}>", "exec"), names)
