"""Streams to Python: one call of a helper a step, which hands an iterator on."""

import ast

from compiler.backends.host.awaiting import Awaiting
from compiler.typed_ast import nodes
from compiler.typed_ast.stream_steps import STEPS


class Streams(Awaiting):
    """The expression `stream`."""

    def stream(self, node: nodes.Stream) -> ast.expr:
        value = self.help("stream", node.source.span, self.expression(node.source))
        for step in node.steps:
            form = STEPS[step.name]
            names = form.arguments
            places = {argument.name or names[number]: argument.value for number, argument in enumerate(step.arguments)}
            given = [places[name] for name in names if name in places]
            before = value
            value, *arguments = self.in_order([lambda before=before: before, *map(self.maker, given)], step.span)  # type: ignore[misc]
            if form.others:
                arguments = [self.help("stream", step.span, argument) for argument in arguments]
            value = self.help(f"stream {step.name}", step.span, value, *arguments)
        return value
