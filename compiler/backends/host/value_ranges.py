"""Between which bounds the ints lie that a function's variables, lists and maps hold, whatever it is called with. Names count, not scopes:
what is said of a name holds for each variable of the function that has it.

A variable that only grows by bounded steps (`at += 1`, `total += x % 10`) grows at most `ROUNDS` times: Python takes ten nanoseconds at the
least for each, so that many last months."""

from compiler.backends.host.intervals import FULL, LENGTH, ROUNDS, Interval, clipped, quotient, result
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DictType, DType, ListType, Scalar, SetType, StringType, Type
from compiler.typed_ast.walk import walk

Cell = str
"""A variable's name; `[c]` is what the list or map of the name `c` holds at its innermost."""
_LOOKING = frozenset(["len", "is_empty", "contains", "contains_key", "clear", "sort", "reverse"])
_GIVING = frozenset(["get_or", "get", "first", "last", "pop"])
_STORING = {"push": 0, "append": 0, "insert": 1, "set": 1}
"""Methods that store an argument, with its place."""
_TRIES = 4


class ValueRanges:
    """Of one function; `outer` are names that may mean variables of the program's top."""

    def __init__(self, function: nodes.Function, outer: frozenset[str]) -> None:
        self._sources: dict[Cell, list[nodes.Expression | Interval]] = {}
        self._bounds: dict[Cell, Interval | None] = {}
        self._joined: dict[str, str] = {}
        self._shared: set[str] = set()
        self._bound: set[str] = set()
        self._mentions: dict[str, int] = {}
        self._watched: dict[str, int] = {}
        for node in walk(function):
            self._note(node)
        if function.body is not None and (value := _last(function.body)) is not None:
            self._watch(value)
        used = self._mentions.keys() | {cell.strip("[]") for cell in self._sources}
        self._hidden = self._bound | self._sources.keys() | outer
        for name in outer | (used - self._bound):
            self._open(name)
        self._shared |= {name for name, count in self._mentions.items() if count != self._watched.get(name, 0)}
        self._solve()

    def of(self, node: nodes.Expression) -> Interval:
        """The bounds of an int of the function."""
        found = self._of(node)
        return FULL if found is None else found

    # ---- what flows where -----------------------------------------------------------------------------------------------

    def _open(self, name: str) -> None:
        """Anything may come into the variable."""
        self._sources.setdefault(name, []).append(FULL)
        self._shared.add(name)

    def _into(self, cell: Cell, source: nodes.Expression | Interval) -> None:
        self._sources.setdefault(cell, []).append(source)

    def _note(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.Name | nodes.Index) and _holds(node.type) and (root := _root(node)) is not None:
            self._mentions[root] = self._mentions.get(root, 0) + 1
        match node:
            case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value):
                self._bound.add(name)
                if value is not None:
                    self._stored(name, value)
            case nodes.Let(pattern=pattern) | nodes.LetCondition(pattern=pattern) | nodes.Arm(pattern=pattern):
                for part in walk(pattern):
                    if isinstance(part, nodes.BindingPattern):
                        self._open(part.name)
            case nodes.Assign(target=nodes.Name() | nodes.Index() as target, operator=operator, value=value):
                self._watch(target)
                if operator is not None:
                    value = nodes.Binary(operator=operator, left=target, right=value, type=target.type)
                if isinstance(target, nodes.Name):
                    self._stored(target.name, value)
                else:
                    self._kept(_root(target.value), value)
            case nodes.Assign(target=target):
                for part in walk(target):
                    if isinstance(part, nodes.Name):
                        self._open(part.name)
            case nodes.ForClause(names=names, source=source) | nodes.Comprehension(names=names, source=source):
                self._bound.update(names)
                self._handed_out(names, source)
            case nodes.Index(value=value) | nodes.Return(value=nodes.Expression() as value) | nodes.Binary(operator="in", right=value):
                self._watch(value)
            case nodes.Call(function=nodes.Field(value=receiver, name=name)):
                self._method(node, receiver, name)
            case nodes.Lambda():
                for part in walk(node.body):
                    if isinstance(part, nodes.Name) and _holds(part.type):
                        self._shared.add(part.name)
            case nodes.Name() | nodes.BindingPattern() | nodes.Field() | nodes.FieldValue() | nodes.Argument() | nodes.TypeSyntax():
                pass
            case _:
                own = getattr(node, "name", None)
                if isinstance(own, str):
                    self._open(own)

    def _watch(self, value: nodes.Expression) -> None:
        """A mention of a list or map that hands it to nobody, or only to what is followed."""
        root = _root(value)
        if root is not None and _holds(value.type):
            self._watched[root] = self._watched.get(root, 0) + 1

    def _stored(self, name: str, value: nodes.Expression) -> None:
        """A variable's new value."""
        if _holds(value.type):
            self._kept(name, value)
        else:
            self._into(name, value)

    def _kept(self, container: str | None, value: nodes.Expression) -> None:
        """What a list or map holds from here on, or a part of it."""
        if container is None:
            return
        if not _holds(value.type):
            self._into(f"[{container}]", value)
            return
        match value:
            case nodes.ListLiteral(elements=elements):
                for element in elements:
                    self._kept(container, element)
            case nodes.DictLiteral(entries=entries):
                for entry in entries:
                    self._kept(container, entry.value)
            case nodes.Comprehension(element=element):
                self._kept(container, element)
            case nodes.Name() | nodes.Index() if (root := _root(value)) is not None:
                self._watch(value)
                self._join(container, root)
            case nodes.Call(function=nodes.Field(value=nodes.ListLiteral() as repeated, name="repeat"), callee=""):
                self._kept(container, repeated)
            case _:
                self._shared.add(container)

    def _handed_out(self, names: tuple[str, ...], source: nodes.Expression) -> None:
        root = _root(source)
        self._watch(source)
        if len(names) == 1 and isinstance(source, nodes.Range):
            step = source.step
            forward = step is None or (isinstance(step, nodes.IntLiteral) and step.value > 0)
            self._into(names[0], source if forward else FULL)
        elif root is not None and isinstance(source.type, ListType | DictType) and len(names) == 1 + isinstance(source.type, DictType):
            part = source.type.element if isinstance(source.type, ListType) else source.type.value
            if len(names) == 2:
                self._open(names[0])
            if _holds(part):
                self._join(root, names[-1])
            else:
                self._into(names[-1], nodes.Index(value=source, indices=(source,), type=part))
        else:
            for name in names:
                self._open(name)

    def _method(self, node: nodes.Call, receiver: nodes.Expression, name: str) -> None:
        root = _root(receiver)
        if node.callee:
            for part in walk(receiver):
                if isinstance(part, nodes.Name):
                    self._open(part.name)
        elif root is None:
            return
        elif name in _STORING and len(node.arguments) > _STORING[name]:
            self._watch(receiver)
            self._kept(root, node.arguments[_STORING[name]].value)
        elif name in _LOOKING or (name in _GIVING and not _holds(node.type)):
            self._watch(receiver)
            if name == "get_or" and len(node.arguments) == 2:
                self._kept(root, node.arguments[1].value)

    def _join(self, one: str, other: str) -> None:
        """Two names may stand for one list."""
        first, second = self._first(one), self._first(other)
        if first != second:
            self._joined[second] = first

    def _first(self, name: str) -> str:
        while name in self._joined:
            name = self._joined[name]
        return name

    # ---- bounds -----------------------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        shared = {self._first(name) for name in self._shared}
        sources: dict[Cell, list[nodes.Expression | Interval]] = {}
        for cell, flowing in self._sources.items():
            root = self._first(cell[1:-1]) if cell.startswith("[") else cell
            sources.setdefault(f"[{root}]" if cell.startswith("[") else cell, []).extend(flowing)
        self._bounds = dict.fromkeys(sources)
        self._bounds |= {f"[{root}]": FULL for root in shared}
        tries = dict.fromkeys(sources, 0)
        changed = True
        while changed:
            changed = False
            for cell, flowing in sources.items():
                before = self._bounds[cell]
                if before == FULL:
                    continue
                grows = tries[cell] >= _TRIES
                now = _hull([before, self._grown(cell, flowing)] if grows else [before, *map(self._flow, flowing)])
                if now != before:
                    changed = True
                    tries[cell] += 1
                    self._bounds[cell] = now if tries[cell] <= _TRIES + 1 else FULL

    def _flow(self, source: nodes.Expression | Interval) -> Interval | None:
        return source if isinstance(source, tuple) else self._of(source)

    def _grown(self, cell: Cell, flowing: list[nodes.Expression | Interval]) -> Interval:
        """The bounds where values come out of earlier ones by steps; what doesn't is bounded whatever the cell holds."""
        kept, self._bounds[cell] = self._bounds[cell], FULL
        starts: list[Interval | None] = []
        low = high = 0
        for source in flowing:
            for value in [source] if isinstance(source, tuple) else self._alternatives(source):
                step = None if isinstance(value, tuple) else self._step(value, cell)
                if step is None:
                    starts.append(self._flow(value))
                else:
                    low, high = min(low, step[0]), max(high, step[1])
        self._bounds[cell] = kept
        start = _hull(starts)
        return FULL if start is None else clipped((start[0] + ROUNDS * low, start[1] + ROUNDS * high))

    def _step(self, node: nodes.Expression, cell: Cell) -> Interval | None:
        """By how much the value differs from one of the cell's; None where it isn't made of one."""
        if self._cell(node) == cell:
            return 0, 0
        match node:
            case nodes.Binary(operator="+" | "-" as operator, left=left, right=right):
                for inner, other, symbol in ((left, right, operator), (right, left, "+" if operator == "+" else "")):
                    step = self._step(inner, cell) if symbol else None
                    by = self._of(other)
                    if step is not None and by is not None:
                        return clipped(result(symbol, [step, by]))
        return None

    def _cell(self, node: nodes.Expression) -> Cell | None:
        match node:
            case nodes.Name(name=name):
                return name
            case nodes.Index() if isinstance(node.value.type, ListType | DictType) and (root := _root(node)) is not None:
                return f"[{self._first(root)}]"
            case nodes.Call(function=nodes.Field(value=receiver, name=name), callee="") if name in _GIVING:
                known = isinstance(receiver.type, ListType | DictType) and (root := _root(receiver)) is not None
                return f"[{self._first(root)}]" if known and root is not None else None
        return None

    def _of(self, node: nodes.Expression) -> Interval | None:
        """The bounds as they are known so far; None of what no value has come to yet."""
        if isinstance(node, nodes.Range):
            low, high = self._of(node.low), self._of(node.high)
            if low is None or high is None:
                return None
            return low[0], max(low[0], min(high[1] - (not node.inclusive), low[1] + ROUNDS))
        if not isinstance(node.type, Scalar) or node.type.dtype is not DType.I64:
            return FULL
        cell = self._cell(node)
        if cell is not None:
            return self._bounds.get(cell, FULL)
        match node:
            case nodes.IntLiteral(value=value):
                return clipped((value, value))
            case nodes.Unary(operator="-", operand=operand):
                inner = self._of(operand)
                return None if inner is None else clipped(result("-", [inner]))
            case nodes.Binary(operator=operator, left=left, right=right) if operator in ("+", "-", "*", "/", "%"):
                first, second = self._of(left), self._of(right)
                if first is None or second is None:
                    return None
                return clipped(quotient(operator, first, second) if operator in ("/", "%") else result(operator, [first, second]))
            case nodes.Call(function=nodes.Field(value=receiver, name="len"), callee=""):
                return LENGTH if isinstance(receiver.type, ListType | DictType | SetType | StringType) else FULL
        values = self._alternatives(node)
        return FULL if values == [node] else _hull([self._of(value) for value in values])

    def _alternatives(self, node: nodes.Expression) -> list[nodes.Expression]:
        """What the value of a choice may be."""
        match node:
            case nodes.Conditional(then=then, otherwise=otherwise):
                choices: tuple[nodes.Expression | None, ...] = (then, otherwise)
            case nodes.If(then=then, otherwise=nodes.Block() as otherwise):
                choices = (_last(then), _last(otherwise))
            case nodes.Call(function=nodes.Name(name="max" | "min" as name), arguments=(first, second), callee=""):
                choices = (first.value, second.value) if name not in self._hidden else (None,)
            case _:
                return [node]
        return [node] if None in choices else [value for choice in choices if choice is not None for value in self._alternatives(choice)]


def _last(block: nodes.Block) -> nodes.Expression | None:
    match block.statements:
        case (*_, nodes.ExpressionStatement(value=value)):
            return value
    return None


def _root(node: nodes.Expression) -> str | None:
    """The variable whose elements, or whose elements' elements, are meant."""
    while isinstance(node, nodes.Index) and isinstance(node.value.type, ListType | DictType) and len(node.indices) == 1:
        node = node.value
    return node.name if isinstance(node, nodes.Name) and _holds(node.type) else None


def _holds(type_: Type) -> bool:
    """Whether values of the type are shared and hold others."""
    return not isinstance(type_, Scalar | StringType)


def _hull(intervals: list[Interval | None]) -> Interval | None:
    known = [interval for interval in intervals if interval is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None
