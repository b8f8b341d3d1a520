"""Sizes: names in bounds, guards and result types that are no variable. A declared dim gives one, an int in scope is one, the
rest is solved from indices: the largest size for which every access is in bounds.

Two vocabularies meet here. *Launch* forms speak of facts (`A.0`, the extent of A's axis 0), scalars and sizes. *Function* forms
speak of the function's parameters: sizes under their names, and `A_0` for an extent that no size states exactly."""

from collections.abc import Iterable, Mapping, Sequence

from compiler.diagnostics import Diagnostic, Diagnostics, Label
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.prover import Inequalities
from compiler.lowering.body import Access
from compiler.lowering.kernel import Equation, Signature, SizeRule, TensorInput
from compiler.lowering.ranges import extreme
from compiler.lowering.tile_sizes import SliceOfInput
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve, field, frozen


def fact(tensor: str, axis: int) -> str:
    return f"{tensor}.{axis}"


def dim_form(tensor: TensorInput, axis: int) -> Affine:
    """The extent as a launch form: a number, declared sizes, or the fact itself."""
    dim = tensor.dims[axis]
    return Affine.of(fact(tensor.name, axis)) if dim is None else Affine.of(dim)


# ---- which names are sizes ---------------------------------------------------------------------------------------------


@frozen
class Candidates:
    """Names that could be sizes, by where they stand. A name that only guards mention must be solved by one."""

    bounds: Mapping[str, Span]
    guards: Mapping[str, Span]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.bounds) | frozenset(self.guards)


def candidates(compute: nodes.Compute) -> Candidates:
    bounds: dict[str, Span] = {}
    guards: dict[str, Span] = {}
    for node in walk(compute.body):
        match node:
            case nodes.ForClause(source=nodes.Range() as source):
                _collect(source, bounds)
            case nodes.SharedVariable(dims=dims):
                for dim in dims:
                    _collect(dim, bounds)
            case nodes.If(condition=condition) | nodes.Conditional(condition=condition) | nodes.While(condition=condition):
                for part in walk(condition):
                    if isinstance(part, nodes.Binary) and part.operator in ("<", "<=", ">", ">=", "==", "!="):
                        for side in (part.left, part.right):
                            _collect(side, guards)
            case _:
                pass
    for result in compute.results:
        for node in walk(result.type_syntax):
            if isinstance(node, nodes.Dim) and node.value is not None:
                _collect(node.value, bounds)
    return Candidates(bounds, guards)


def _collect(node: nodes.Node, into: dict[str, Span]) -> None:
    """Names that stand for ints: not those that are called or indexed."""
    match node:
        case nodes.Name(name=name, span=span):
            into.setdefault(name, span)
        case nodes.Binary(left=left, right=right):
            _collect(left, into)
            _collect(right, into)
        case nodes.Unary(operand=operand):
            _collect(operand, into)
        case nodes.Range(low=low, high=high, step=step):
            for part in (low, high, step):
                if part is not None:
                    _collect(part, into)
        case nodes.Call(function=nodes.Name(name="min" | "max"), arguments=arguments):
            for argument in arguments:
                _collect(argument.value, into)
        case nodes.Cast(value=value):
            _collect(value, into)
        case _:
            pass


# ---- solving -----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class SizeStatement:
    """One equation `size == form`, and the access or declaration that says so. `loose`: the index runs to a bound that other loops
    move (`j in 0..i`), so that it bounds the size, but needn't reach it."""

    form: Affine
    source: str
    span: Span | None
    guarded: bool = False
    loose: bool = False


@define(eq=False)
class Sizes:
    """What is known of sizes after solving. `solved`: launch forms in the order in which they can be computed."""

    signature: Signature
    solved: dict[str, Affine] = Factory(dict)
    sources: dict[str, SizeStatement] = Factory(dict)
    exact: list[tuple[str, Affine]] = Factory(list)
    at_most: list[tuple[str, Affine]] = Factory(list)
    equations: list[Equation] = Factory(list)
    diagnostics: Diagnostics = Factory(Diagnostics)
    function_forms: dict[str, Affine] = Factory(dict)
    parameters: dict[str, Affine] = field(factory=dict)
    rows: dict[str, Affine] = field(factory=dict)
    """Tensors that the body runs over with one index: the number of their elements."""

    def extents(self, tensor: TensorInput) -> tuple[Affine, ...]:
        """The extents that indices meet, as launch forms."""
        if tensor.name in self.rows:
            return (self.rows[tensor.name],)
        return tuple(dim_form(tensor, axis) for axis in range(tensor.rank))

    # -- rule 1

    def declare(self) -> None:
        """Dims that the inputs' types name."""
        affine: list[tuple[TensorInput, int, Affine]] = []
        for tensor in self.signature.tensors:
            for axis, dim in enumerate(tensor.dims):
                if isinstance(dim, str):
                    statement = SizeStatement(Affine.of(fact(tensor.name, axis)), f"axis {axis} of `{tensor.name}`", tensor.span)
                    self.settle(dim, statement)
                elif isinstance(dim, Affine) and dim.terms:
                    affine.append((tensor, axis, dim))
                elif isinstance(dim, int):
                    # kernels are compiled for this number: nothing but a check keeps another one out
                    affine.append((tensor, axis, Affine((), dim)))
        for tensor, axis, dim in affine:
            known = Affine.of(fact(tensor.name, axis))
            unknown = [name for name in dim.names if name not in self.solved]
            if len(unknown) == 1 and dim.coefficient(unknown[0]) > 0:
                factor = dim.coefficient(unknown[0])
                rest = dim.without(unknown[0])
                self.settle(unknown[0], SizeStatement((known - rest).floordiv(factor), f"axis {axis} of `{tensor.name}`", tensor.span))
            self.equations.append(
                Equation(
                    dim,
                    known,
                    "==",
                    Diagnostic(
                        "0802",
                        f"axis {axis} of `{tensor.name}` is declared as {dim}, which is {{left}}, but it has {{right}} elements",
                        tensor.span,
                    ),
                )
            )
        for name, number in self.signature.numbers:
            if name in self.solved:
                other = Diagnostic("0802", f"size `{name}` is {{left}} in a kernel for {number}", self.sources[name].span)
                self.equations.append(Equation(Affine.of(name), Affine.of(number), "==", other))
            else:
                self.settle(name, SizeStatement(Affine.of(number), "the call", None))

    def settle(self, name: str, statement: SizeStatement, words_of: str = "") -> None:
        """`name == form`: the first one defines the size, each further one is checked: now if both are numbers, else at launch."""
        if name not in self.solved:
            self.solved[name] = statement.form
            self.sources[name] = statement
            if _is_exact(statement.form):
                self.exact.append((name, statement.form))
            return
        first = self.sources[name]
        left, right = self._numbers(first.form), self._numbers(statement.form)
        if left == right or (statement.loose and left.value is not None and right.value is not None and left.value <= right.value):
            return
        others = (Label(first.span, f"{first.source} gives {name} = {left}"),) if first.span is not None else ()
        if left.value is not None and right.value is not None:
            self.diagnostics.add(
                Diagnostic(
                    "0302",
                    f"size `{name}` is bound to two values: {left} and {right}",
                    statement.span,
                    f"{statement.source} gives {name} = {right}",
                    others,
                    notes=() if first.span is not None else (f"{first.source} gives {name} = {left}",),
                    hint="the two axes must be equal: check the indices, or use two loops",
                )
            )
            return
        if statement.loose:
            self.at_most.append((name, statement.form))
        elif _is_exact(statement.form):
            self.exact.append((name, statement.form))
        if first.span is None or first.span == statement.span:
            others = ()
        self.equations.append(
            Equation(
                Affine.of(name),
                statement.form,
                "<=" if statement.loose else "==",
                Diagnostic(
                    "0802",
                    f"size `{name}` is {{left}} by {first.source}, "
                    f"but {'at most ' if statement.loose else ''}{{right}} by {statement.source}",
                    statement.span or first.span,
                    f"{statement.source} gives {name}" if others else "",
                    tuple(Label(o.span, f"{first.source} gives {name}") for o in others),
                    hint="give the block tensors whose axes agree",
                ),
            )
        )

    def bound(self, name: str) -> Affine:
        """What a solved size is in a walk: a number that the signature gives, else its name."""
        return Affine.of(dict(self.signature.numbers).get(name, name))

    def _numbers(self, form: Affine) -> Affine:
        """The form with solved sizes put in, as far as they go."""
        for _ in range(len(self.solved) + 1):
            replaced = form.substitute(self.solved)
            if replaced == form:
                break
            form = replaced
        return form

    # -- rule 3

    def solve(self, accesses: Sequence[Access], wanted: Iterable[str], slices: Sequence[SliceOfInput] = ()) -> None:
        """Solve sizes from slices and accesses until nothing new is found."""
        unknown = [name for name in wanted if name not in self.solved]
        while True:
            progress = False
            for name in unknown:
                if name in self.solved:
                    continue
                statements = self._from_slices(name, slices)
                of_accesses = self._from_accesses(name, accesses, set(unknown))
                statements += [statement for statement in of_accesses if not statements or not statement.guarded]
                if statements:
                    progress = True
                    for statement in statements:
                        self.settle(name, statement)
            if not progress:
                return

    def _from_slices(self, name: str, slices: Sequence[SliceOfInput]) -> list[SizeStatement]:
        """One equation a tensor axis that slices go along to the size."""
        by_axis: dict[tuple[str, int], SizeStatement] = {}
        for slice_ in slices:
            tensor = self.tensor(slice_.tensor)
            others = set(slice_.end.names) - {name}
            if tensor is None or tensor.name in self.rows or name not in slice_.end.names or not all(map(self._is_known, others)):
                continue
            solution = solve_for(slice_.end, self.extents(tensor)[slice_.axis], name) if slice_.axis < tensor.rank else None
            if solution is not None:
                by_axis.setdefault((slice_.tensor, slice_.axis), SizeStatement(solution, f"`{slice_.source}`", slice_.span))
        return list(by_axis.values())

    def _is_known(self, name: str) -> bool:
        return name in self.solved or any(scalar.name == name and scalar.dtype is DType.I64 for scalar in self.signature.scalars)

    def _from_accesses(self, name: str, accesses: Sequence[Access], unknown: set[str]) -> list[SizeStatement]:
        """One equation a tensor axis that states the size: that of the access which allows least."""
        by_axis: dict[tuple[str, int], SizeStatement] = {}
        for access in accesses:
            tensor = self.tensor(access.memory)
            if tensor is None or len(access.index) != len(self.extents(tensor)):
                continue
            for axis, (form, extent) in enumerate(zip(access.index, self.extents(tensor), strict=True)):
                statement = self._equation(name, access, form, extent, unknown)
                if statement is None:
                    continue
                have = by_axis.get((tensor.name, axis))
                if have is None or (have.guarded and not statement.guarded) or _allows_less(statement.form, have.form):
                    by_axis[tensor.name, axis] = statement
        free = sorted((statement for statement in by_axis.values() if not statement.guarded), key=lambda statement: statement.loose)
        guarded = [statement for statement in by_axis.values() if statement.guarded]
        if free and free[0].loose:
            # Nothing reaches the size: the least of what is allowed has to do.
            free[0] = evolve(free[0], loose=False)
        return free or guarded

    def tensor(self, name: str) -> TensorInput | None:
        return next((tensor for tensor in self.signature.tensors if tensor.name == name), None)

    def _equation(self, name: str, access: Access, form: Affine, extent: Affine, unknown: set[str]) -> SizeStatement | None:
        bound, guarded, loose = self._largest(access, form)
        if bound is None or name not in bound.names:
            return None
        if any(other in unknown and other not in self.solved and other != name for other in (*bound.names, *extent.names)):
            return None
        if name in extent.names:
            return None
        solution = solve_for(bound + 1, extent, name)
        if solution is None:
            return None
        return SizeStatement(solution, f"`{access.words}`", access.span, guarded, loose)

    def _largest(self, access: Access, form: Affine) -> tuple[Affine | None, bool, bool]:
        """The largest index over the loops; or what a guard allows (then the second is true), where one bounds the index by sizes
        alone. The third: whether a loop that it takes to its end ends where other loops say."""
        varying = {loop.name for loop in access.ranges} | access.opaque
        clamped = form.substitute(access.upper)
        if clamped != form and not any(name in varying for name in clamped.names):
            return clamped, True, False
        for guard in access.guards:
            allowed = form + guard
            if any(name in varying for name in form.names) and not any(name in varying for name in allowed.names):
                return allowed, True, False
        bound = _filled(form, access)
        loose = False
        for loop in reversed(access.ranges):
            before = bound.names
            bound = extreme(bound, [loop], upper=True)
            loose = loose or any(name in varying and name not in before for name in bound.names)
        if any(name in varying for name in bound.names):
            return None, False, False
        return bound, False, loose

    def explain(self, name: str, accesses: Sequence[Access]) -> list[str]:
        """The equations in which an unsolved size occurs, in words."""
        lines: list[str] = []
        for access in accesses:
            tensor = self.tensor(access.memory)
            if tensor is None or len(access.index) != len(self.extents(tensor)):
                continue
            for axis, form in enumerate(access.index):
                bound, _, _ = self._largest(access, form)
                if bound is not None and name in bound.names:
                    unknown = [other for other in bound.names if "." not in other and other not in self.solved and other != name]
                    line = f"`{access.words}` gives {bound + 1} <= the extent of axis {axis} of `{tensor.name}`"
                    if unknown:
                        line += f", where {' and '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} unknown too"
                    lines.append(line)
        return list(dict.fromkeys(lines))

    # -- the function's own symbols

    def name_parameters(self, taken: Iterable[str]) -> None:
        """Decide how facts are named in the function: by a size that states them exactly, else by a parameter of their own."""
        taken = set(taken) | set(self.solved)
        eliminated: dict[str, Affine] = {}
        for name, form in self.exact:
            if self._numbers(form).value is not None:
                continue
            for symbol, coefficient in form.terms:
                if coefficient == 1 and isinstance(symbol, str) and "." in symbol and symbol not in eliminated:
                    rest = form.without(symbol)
                    if symbol not in rest.names and not any(symbol in eliminated.get(other, Affine()).names for other in rest.names):
                        eliminated[symbol] = Affine.of(name) - rest
                        break
        facts = [fact(t.name, axis) for t in self.signature.tensors for axis in range(t.rank)]
        facts += [f"{t.name}.numel" for t in self.signature.tensors]
        for fact_ in facts:
            if fact_ not in eliminated:
                parameter = fact_.replace(".", "_")
                while parameter in taken:
                    parameter += "_"
                self.parameters[parameter] = Affine.of(fact_)
                self.function_forms[fact_] = Affine.of(parameter)
        for fact_, form in eliminated.items():
            self.function_forms[fact_] = self._closed(form, eliminated)
        for name in self.solved:
            number = self._numbers(self.bound(name))
            if number.value is not None:
                self.function_forms[name] = number
        first: dict[Affine, str] = {}
        for name, form in self.solved.items():
            same = first.setdefault(form, name)
            if same != name and name not in self.function_forms:
                self.function_forms[name] = Affine.of(same)
        for fact_ in list(self.function_forms):
            self.function_forms[fact_] = self.function_forms[fact_].substitute(
                {n: f for n, f in self.function_forms.items() if f.value is not None}
            )

    def _closed(self, form: Affine, eliminated: Mapping[str, Affine]) -> Affine:
        for _ in range(8):
            known = {name: eliminated.get(name) or self.function_forms.get(name) for name in form.names if "." in name}
            replaced = {name: known_form for name, known_form in known.items() if known_form is not None}
            if not replaced:
                break
            form = form.substitute(replaced)
        return form

    def in_function(self, form: Affine) -> Affine:
        """A launch form in the function's symbols."""
        for _ in range(4):
            replaced = form.substitute(self.function_forms)
            if replaced == form:
                break
            form = replaced
        return form

    def at_launch(self, form: Affine) -> Affine:
        """A function form in launch symbols."""
        return form.substitute(self.parameters)

    def facts(self) -> Inequalities:
        """What holds of the sizes: extents aren't negative, and sizes equal what they were solved to be."""
        facts = Inequalities()
        for tensor in self.signature.tensors:
            for extent in (*self.extents(tensor), *(dim_form(tensor, axis) for axis in range(tensor.rank))):
                facts.at_least_zero(self.in_function(extent))
        for name, form in self.solved.items():
            left, right = self.in_function(Affine.of(name)), self.in_function(form)
            if left != right:
                facts.equal(left, right)
        for name, form in self.at_most:
            facts.at_least_zero(self.in_function(form) - self.in_function(Affine.of(name)))
        return facts

    def rules(self) -> list[SizeRule]:
        return [SizeRule(name, form, f"{self.sources[name].source}") for name, form in self.solved.items()]


def _filled(form: Affine, access: Access) -> Affine:
    """Stepped loops are taken to divide their range where the rest of the index fills the step (`x[q + t]`, t in 0..64, q by 64)."""
    for loop in access.ranges:
        if loop.step > 1 and form.coefficient(loop.name) == 1:
            rest = form.without(loop.name)
            for other in reversed([o for o in access.ranges if o.name != loop.name]):
                rest = extreme(rest, [other], upper=True)
            if rest.value == loop.step - 1:
                form = form.without(loop.name) + loop.last - (loop.step - 1)
    return form


def _is_exact(form: Affine) -> bool:
    return all(isinstance(symbol, str) for symbol, _ in form.terms)


def _allows_less(form: Affine, than: Affine) -> bool:
    difference = (than - form).value
    return difference is not None and difference > 0


def solve_for(needed: Affine, extent: Affine, name: str) -> Affine | None:
    """The largest `name` with needed <= extent. A floor of the size is taken to divide exactly: `0..H/2` under `2*d + 1` gives H."""
    for symbol, coefficient in needed.terms:
        rest = needed.without(symbol)
        if name in rest.names or coefficient <= 0:
            continue
        if symbol == name:
            return (extent - rest).floordiv(coefficient)
        if isinstance(symbol, FloorDiv) and symbol.numerator.coefficient(name) == 1:
            inner = symbol.numerator.without(name)
            if inner.terms:
                continue
            exact = inner.constant - inner.constant % symbol.divisor
            return (
                ((extent - rest) * symbol.divisor).floordiv(coefficient) - exact
                if (symbol.divisor % coefficient or coefficient == 1)
                else (extent - rest) * (symbol.divisor // coefficient) - exact
            )
    return None


def unsolved(name: str, span: Span, lines: Sequence[str]) -> Diagnostic:
    """0303: the bound, the equations there are, and how to state the size."""
    notes = tuple(lines) or (f"no access to an input has an index that `{name}` bounds",)
    return Diagnostic(
        "0303",
        f"size `{name}` can't be determined",
        span,
        "this bound",
        notes=notes,
        hint=f"set it before the block, `let {name} = ...`, or name it in an input's type: `x: tensor[{name}]`",
    )
