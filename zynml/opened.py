"""What the functions of a program share when Python calls them: its session, made at once or when one of them needs it first. The calls of
a program that another process compiled, on a GPU and for arrays laid out as they were there, never do."""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import ref

from compiler.launch.kept_programs import KeptProgram, keep
from compiler.launch.returning import Returning
from compiler.source import Sources
from runtime import forks
from runtime.records import Factory, define
from runtime.unawaited import Unawaited

if TYPE_CHECKING:
    from compiler.driver import Session
    from compiler.launch.cuda.repeat import FailedCall
    from compiler.launch.cuda.repeats import Repeats
    from compiler.launch.native_calls.calls import NativeCalls
    from compiler.launch.native_calls.kept import KeptAnswers
    from compiler.typed_ast.function_heads import FunctionHead


@define(eq=False)
class Opened:
    """A program that was found to be right. `functions` by name, with what decides how their calls on a GPU come back; `origin`: all
    that it is made of, where that is known; `open` makes its session. `keeps`: it and its
    calls are put into the cache; `revived`: it came from there."""

    sources: Sources
    functions: Mapping[str, Returning | None]
    origin: tuple[str, ...] | None
    open: "Callable[[], Session]"
    heads: "Mapping[str, FunctionHead]" = Factory(dict)
    unawaited: Unawaited = Factory(Unawaited)
    keeps: bool = False
    revived: bool = False
    _session: "Session | None" = None
    _is_kept: bool = False
    _lock: threading.Lock = Factory(forks.lock)

    @classmethod
    def of(cls, session: "Session", keeps: bool) -> "Opened":
        """The program of a session. Raises ZyntaxError."""
        from compiler.launch.cuda.functions import returning
        from compiler.typed_ast import nodes
        from compiler.typed_ast.read_heads import head_of

        host = session.host
        own = {node.name: node for node in session.check().statements if isinstance(node, nodes.Function)}
        functions = {name: returning(own[name], own, host.names) if name in own else None for name in host.functions if "." not in name}
        heads = {name: head_of(own[name], session.source, host.names) for name in functions if name in own}
        return cls(session.sources, functions, session.origin, lambda: session, heads, session.unawaited, keeps, session=session)

    @property
    def session(self) -> "Session":
        """Raises ZyntaxError, where it is made now."""
        if self._session is None:
            with self._lock:
                if self._session is None:
                    session = self.open()
                    session.unawaited = self.unawaited
                    self._session = session
        return self._session

    def kept_answers(self, name: str, offsets: "dict[str, int] | None") -> "KeptAnswers | None":
        """For calls of a function with arrays on the host, as other processes made them; None where the program isn't kept."""
        if offsets is None or self.origin is None or not (self.keeps or self.revived):
            return None
        from compiler.launch.native_calls.kept import KeptAnswers

        return KeptAnswers((*self.origin, name), offsets, self.unawaited.futures)

    def native_calls(self, name: str, target: "ref[Any]", offsets: dict[str, int], kept: "KeptAnswers | None") -> "NativeCalls | None":
        """For calls of a function with arrays on the host, which machine code may answer; None where the program itself looks at each call.
        `target` is what Python calls, `offsets` where its fields lie; `kept`: where other processes find them."""
        from compiler.launch.native_calls.calls import NativeCalls
        from compiler.launch.native_calls.learn import blocks_function
        from compiler.typed_ast import nodes
        from runtime.calls import arrays

        session = self.session
        own = [node for node in session.check().statements if isinstance(node, nodes.Function) and node.name == name]
        if session.options.explain is not None or session.options.sanitize or len(own) != 1 or not arrays.is_known():
            return None
        function = blocks_function(own[0], session.host.types[name], session.host.names)
        if function is None:
            return None
        placed_blocks = [session.block(block) for block in function.blocks]
        for block, placed in zip(function.blocks, placed_blocks, strict=True):
            if not placed.always_on_cpu or placed.block.constants.intersection(function.names[block.span]):
                return None
        if kept is not None:
            self._keep_program()
        anywhere = all(placed.wish is not None for placed in placed_blocks)
        return NativeCalls(function, target, offsets, self.unawaited.futures, kept, anywhere)

    def repeats(self, name: str, target: "ref[Any]", offsets: dict[str, int] | None, failed: "FailedCall") -> "Repeats | None":
        """For calls of a function with arrays on GPUs, which come back; None where it is more than blocks. `target` is what Python calls,
        `offsets` where its fields lie; `failed` makes the error of a call whose check failed."""
        function = self.functions[name]
        if function is None:
            return None
        from compiler.launch.cuda.kept import KeptCalls
        from compiler.launch.cuda.repeats import Repeats

        self._keep_program()
        kept_calls = None if self.origin is None or function.several else KeptCalls((*self.origin, name))
        return Repeats(function, self.unawaited, target, offsets, kept_calls, failed)

    def _keep_program(self) -> None:
        """Puts the program into the cache, once, where it may be there."""
        if self.keeps and not self._is_kept:
            self._is_kept = True
            session = self.session
            if session.origin is not None:
                warnings = session.checked.diagnostics.warnings
                keep(session.origin, KeptProgram(self.functions, tuple(session.devices), self.heads, warnings))
