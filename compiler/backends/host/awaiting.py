"""`await` to Python: a call that waits; with a limit and `else`, what stands there is evaluated only when the time is over."""

import ast

from compiler.backends.host.emit import load
from compiler.backends.host.naming import MARK
from compiler.backends.host.operators import Operators, inferred
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import duration


class Awaiting(Operators):
    """The expression `await`."""

    def await_(self, node: nodes.Await) -> ast.expr:
        limit = None if node.timeout is None else duration(node.timeout)
        computed = [] if node.timeout is None or limit is not None else [self.maker(node.timeout)]
        made = list(self.in_order([*(self.maker(future) for future in node.futures), *computed], node.span))
        futures, limits = made[: len(node.futures)], made[len(node.futures) :]
        nanoseconds = ast.Subscript(limits[0], ast.Constant(0), ast.Load()) if limits else ast.Constant(limit)
        facts = (nanoseconds, ast.Constant(node.otherwise is not None))
        awaited = self.help(f"await {node.which.value}", node.span, *facts, *futures)
        if node.otherwise is None:
            return awaited
        name = self.frame.temporary()
        self.assign(name, awaited, node.span)
        with self.collected() as instead:
            value = self.converted(node.otherwise, inferred(node.type))
            self.assign(name, value, node.otherwise.span)
        self.write(ast.If(ast.Compare(load(name), [ast.Is()], [load(f"{MARK}late")]), instead, []), node.span)
        return load(name)
