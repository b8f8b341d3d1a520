"""Names across files: a module's declarations get names of their own, as `shapes·area`, and so do the uses of them in its own text and in
the texts that import it. Then all files of a program are one tree, with one table of names."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

from compiler.diagnostics import Diagnostic
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve, fields_of, frozen

N = TypeVar("N", bound=nodes.Node)

SIGN = "·"
"""Between a module and a name that it declares; in no name of a program."""


@define(eq=False)
class ModuleNames:
    """What a module declares. `names`: by name, those that the linked program has for them; `cases`: those of its enums' cases, by the
    enum's linked name."""

    module: str
    prefix: str
    names: dict[str, str] = Factory(dict)
    cases: dict[str, dict[str, str]] = Factory(dict)

    @classmethod
    def of(cls, program: nodes.Program, module: str, prefix: str) -> "ModuleNames":
        found = cls(module, prefix)
        for name in declared_names(program):
            found.names[name] = prefix + name
        for node in program.statements:
            if isinstance(node, nodes.EnumDeclaration):
                found.cases[prefix + node.name] = {variant.name: prefix + variant.name for variant in node.variants}
        return found

    @property
    def public(self) -> dict[str, str]:
        return {name: linked for name, linked in self.names.items() if not name.startswith("_")}

    def cases_of(self, names: Iterable[str]) -> dict[str, str]:
        """The cases of those enums among the names, which stand alone where the enum does."""
        return {case: linked for name in names for case, linked in self.cases.get(self.names.get(name, ""), {}).items()}


Meaning_ = str | ModuleNames
Names = Mapping[str, Meaning_]
"""What names of other files, and a module's own, mean where something stands: another name, or a module."""


def declared_names(program: nodes.Program) -> Iterator[str]:
    """What a file declares at its top, without cases and methods."""
    for node in program.statements:
        match node:
            case nodes.Let(pattern=pattern):
                yield from bound_by(pattern)
            case nodes.Function(name=name) if not is_method(node):
                yield name
            case (
                nodes.Struct(name=name) | nodes.EnumDeclaration(name=name) | nodes.TypeAlias(name=name) | nodes.Trait(name=name)
                | nodes.ProgramParameter(name=name) | nodes.Constant(name=name)
            ):  # fmt: skip
                yield name


def bound_by(pattern: nodes.Pattern) -> list[str]:
    return [node.name for node in walk(pattern) if isinstance(node, nodes.BindingPattern)]


@frozen(eq=False)
class Renaming:
    """Gives the names of one file their linked ones. `cases`: those of all enums; `imported`: what an `import` inside of a block brings;
    `report` hears of what a module doesn't have, `private` of uses of what is private to one."""

    own: ModuleNames
    cases: Mapping[str, Mapping[str, str]]
    imported: Callable[[nodes.Import], Names]
    keeps: Callable[[nodes.Import], bool]
    report: Callable[[Diagnostic], None]
    private: Callable[[str, str, Span], None]

    def top(self, statement: nodes.Statement, names: Names) -> nodes.Statement:
        """A statement at a file's top, whose declarations get linked names."""
        changed = self.node(statement, names)
        prefix = self.own.prefix
        match changed:
            case nodes.Let(pattern=pattern):
                return evolve(changed, pattern=_renamed_pattern(pattern, prefix))
            case nodes.EnumDeclaration(variants=variants):
                return evolve(
                    changed, name=prefix + changed.name, variants=tuple(evolve(variant, name=prefix + variant.name) for variant in variants)
                )
            case nodes.Function() if is_method(changed):
                return changed
            case (
                nodes.Function() | nodes.Struct() | nodes.TypeAlias() | nodes.Trait() | nodes.ProgramParameter() | nodes.Constant()
            ):  # fmt: skip
                return evolve(changed, name=prefix + changed.name)
        return changed

    def node(self, node: N, names: Names) -> N:
        rule = _RULES.get(type(node))
        return self.parts(node, names) if rule is None else cast("N", rule(self, node, names))

    def parts(self, node: N, names: Names, **given: Any) -> N:
        """The node with its parts renamed, but those that are `given`."""
        changes: dict[str, Any] = {}
        for attribute in fields_of(type(node)):
            value = given.get(attribute.name)
            if value is None:
                value = self._value(getattr(node, attribute.name), names)
            if value is not getattr(node, attribute.name):
                changes[attribute.name] = value
        return evolve(node, **changes) if changes else node

    def _value(self, value: Any, names: Names) -> Any:
        if isinstance(value, nodes.Node):
            return self.node(value, names)
        if type(value) is tuple and value:
            new = tuple(self.node(one, names) if isinstance(one, nodes.Node) else one for one in value)
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    # ---- names ----

    def path(self, segments: tuple[str, ...], names: Names, span: Span) -> tuple[str, ...]:
        """Names that stand behind each other, `shapes::Point::new`, without the modules."""
        first, *rest = segments
        meaning = names.get(first)
        if isinstance(meaning, ModuleNames):
            if not rest:
                return segments
            first, *rest = self.member(meaning, rest[0], span), *rest[1:]
        elif meaning is not None:
            first = meaning
        if rest and first in self.cases:
            rest = [self.cases[first].get(rest[0], rest[0]), *rest[1:]]
        return (first, *rest)

    def member(self, module: ModuleNames, name: str, span: Span) -> str:
        if name in module.names:
            if name.startswith("_"):
                self.private(module.module, name, span)
            return module.names[name]
        self.report(not_in_module(module, name, span))
        return module.prefix + name

    def name(self, node: nodes.Name, names: Names) -> nodes.Name:
        meaning = names.get(node.name)
        if isinstance(meaning, ModuleNames):
            some = next(iter(sorted(meaning.public)), None)
            hint = f"name what you use of it: `{node.name}.{some}`" if some else None
            self.report(Diagnostic("0203", f"`{node.name}` is a module, and no value", node.span, hint=hint))
            return node
        return node if meaning is None else evolve(node, name=meaning)

    def field(self, node: nodes.Field, names: Names) -> nodes.Expression:
        chain = _chain(node)
        if chain is not None and chain[0] in names:
            meaning = names[chain[0]]
            if isinstance(meaning, ModuleNames):
                return self._member_and_fields(node, chain, meaning)
        return self.parts(node, names)

    def _member_and_fields(self, node: nodes.Field, chain: tuple[str, ...], module: ModuleNames) -> nodes.Expression:
        parts: list[nodes.Field] = []
        inner: nodes.Expression = node
        while isinstance(inner, nodes.Field):
            parts.insert(0, inner)
            inner = inner.value
        first = self.member(module, chain[1], parts[0].span)
        found: nodes.Expression = nodes.Name(name=first, span=parts[0].span)
        rest = parts[1:]
        if rest and rest[0].name in self.cases.get(first, {}):
            found = nodes.Path(segments=(first, self.cases[first][rest[0].name]), span=rest[0].span)
            rest = rest[1:]
        for part in rest:
            found = evolve(part, value=found)
        return found

    def written_path(self, node: nodes.Path, names: Names) -> nodes.Expression:
        segments = self.path(node.segments, names, node.span)
        arguments = self._value(node.arguments, names)
        if len(segments) == 1 and not arguments:
            return nodes.Name(name=segments[0], span=node.span)
        return evolve(node, segments=segments, arguments=arguments)

    def named_type(self, node: nodes.NamedTypeSyntax, names: Names) -> nodes.TypeSyntax:
        name = "::".join(self.path(tuple(node.name.split("::")), names, node.span))
        return self.parts(node, names, name=name)

    def pattern(self, node: nodes.VariantPattern | nodes.StructPattern, names: Names) -> nodes.Pattern:
        return self.parts(node, names, path=self.path(node.path, names, node.span))

    # ---- what hides names ----

    def block(self, node: nodes.Block, names: Names) -> nodes.Block:
        inner = without(names, (one.name for one in node.statements if isinstance(one, nodes.Function)))
        statements: list[nodes.Statement] = []
        for statement in node.statements:
            if isinstance(statement, nodes.Import):
                inner = {**inner, **self.imported(statement)}
                if not self.keeps(statement):
                    continue
            statements.append(self.node(statement, inner))
            match statement:
                case nodes.Let(pattern=pattern):
                    inner = without(inner, bound_by(pattern))
                case nodes.SharedVariable(name=name):
                    inner = without(inner, (name,))
        return evolve(node, statements=tuple(statements))

    def function(self, node: nodes.Function, names: Names) -> nodes.Function:
        outer = without(names, (one.name for one in node.type_parameters))
        inner = without(outer, (one.name for one in node.parameters))
        body = None if node.body is None else self.node(node.body, inner)
        parameters = tuple(self._parameter(one, outer, inner) for one in node.parameters)
        return self.parts(node, outer, parameters=parameters, body=body)

    def _parameter(self, node: nodes.Parameter, outer: Names, inner: Names) -> nodes.Parameter:
        default = None if node.default is None else self.node(node.default, inner)
        return self.parts(node, outer, default=default)

    def with_parameters(self, node: Any, names: Names) -> Any:
        """A declaration with type parameters, which hide what is outside."""
        return self.parts(node, without(names, (type_parameter.name for type_parameter in node.type_parameters)))

    def anonymous(self, node: nodes.Lambda, names: Names) -> nodes.Lambda:
        return self.parts(node, names, body=self.node(node.body, without(names, (parameter.name for parameter in node.parameters))))

    def loop(self, node: nodes.For, names: Names) -> nodes.For:
        inner, clauses = names, []
        for clause in node.clauses:
            clauses.append(self.parts(clause, inner))
            inner = without(inner, clause.names)
        return self.parts(node, names, clauses=tuple(clauses), body=self.node(node.body, inner))

    def condition(self, node: nodes.If | nodes.While, names: Names) -> Any:
        block = "then" if isinstance(node, nodes.If) else "body"
        inner = without(names, bound_by(node.condition.pattern)) if isinstance(node.condition, nodes.LetCondition) else names
        return self.parts(node, names, **{block: self.node(getattr(node, block), inner)})

    def arm(self, node: nodes.Arm, names: Names) -> nodes.Arm:
        return evolve(self.parts(node, without(names, bound_by(node.pattern))), pattern=self.node(node.pattern, names))

    def comprehension(self, node: nodes.Comprehension, names: Names) -> nodes.Comprehension:
        return evolve(self.parts(node, without(names, node.names)), source=self.node(node.source, names))

    def catch(self, node: nodes.Catch, names: Names) -> nodes.Catch:
        return self.parts(node, names, body=self.node(node.body, without(names, (node.name,) if node.name else ())))

    def compute(self, node: nodes.Compute, names: Names) -> nodes.Compute:
        return self.parts(node, names, body=self.node(node.body, without(names, (one.name for one in node.inputs))))

    def annotation(self, node: nodes.Annotation, names: Names) -> nodes.Annotation:
        return node if node.name == "kernel" else self.parts(node, names)

    def kept_import(self, node: nodes.Import, names: Names) -> nodes.Import:
        return evolve(node, prefix=self.own.prefix)


def not_in_module(module: ModuleNames, name: str, span: Span) -> Diagnostic:
    hint = did_you_mean(name, module.public)
    if hint is None and module.public:
        hint = "it has " + ", ".join(f"`{one}`" for one in [*module.public][:8])
    return Diagnostic("0202", f"module `{module.module}` has no `{name}`", span, "not found", hint=hint)


def without(names: Names, hidden: Iterable[str]) -> Names:
    gone = {*hidden} & names.keys()
    return {name: meaning for name, meaning in names.items() if name not in gone} if gone else names


def _renamed_pattern(node: N, prefix: str) -> N:
    def renamed(found: nodes.Node) -> nodes.Node:
        if isinstance(found, nodes.BindingPattern):
            return evolve(found, name=prefix + found.name)
        changes: dict[str, Any] = {}
        for attribute in fields_of(type(found)):
            value: Any = getattr(found, attribute.name)
            if isinstance(value, nodes.Pattern | nodes.FieldPattern):
                changes[attribute.name] = renamed(value)
            elif isinstance(value, tuple):
                changes[attribute.name] = tuple(renamed(one) if isinstance(one, nodes.Node) else one for one in value)
        return evolve(found, **changes) if changes else found

    return cast("N", renamed(node))


def _chain(node: nodes.Expression) -> tuple[str, ...] | None:
    """`a.b.c` as its names; None of anything else."""
    match node:
        case nodes.Name(name=name):
            return (name,)
        case nodes.Field(value=value, name=name):
            before = _chain(value)
            return None if before is None else (*before, name)
    return None


_RULES: dict[type[nodes.Node], Callable[[Renaming, Any, Names], nodes.Node]] = {
    nodes.Name: Renaming.name,
    nodes.Field: Renaming.field,
    nodes.Path: Renaming.written_path,
    nodes.NamedTypeSyntax: Renaming.named_type,
    nodes.VariantPattern: Renaming.pattern,
    nodes.StructPattern: Renaming.pattern,
    nodes.Block: Renaming.block,
    nodes.Function: Renaming.function,
    nodes.Struct: Renaming.with_parameters,
    nodes.EnumDeclaration: Renaming.with_parameters,
    nodes.TypeAlias: Renaming.with_parameters,
    nodes.Trait: Renaming.with_parameters,
    nodes.Impl: Renaming.with_parameters,
    nodes.Lambda: Renaming.anonymous,
    nodes.For: Renaming.loop,
    nodes.If: Renaming.condition,
    nodes.While: Renaming.condition,
    nodes.Arm: Renaming.arm,
    nodes.Comprehension: Renaming.comprehension,
    nodes.Catch: Renaming.catch,
    nodes.Compute: Renaming.compute,
    nodes.Annotation: Renaming.annotation,
    nodes.Import: Renaming.kept_import,
}
