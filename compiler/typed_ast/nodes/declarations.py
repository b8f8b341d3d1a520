"""Declarations, and the program that they stand in."""

from enum import Enum

from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import CompileTarget, ExecutionConstraints, KernelMetadata, Visibility
from compiler.typed_ast.nodes.bases import Declaration, Expression, Node, Statement, TypeSyntax, children
from compiler.typed_ast.nodes.compute import Annotation
from compiler.typed_ast.nodes.expressions import Block, FieldValue
from compiler.typed_ast.nodes.type_syntax import Parameter, TypeParameter
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class Function(Declaration):
    """`def f(a: T, k: int = 3): R { }`. `body` None only for traits and `extern`. `effects` are those that an `extern` one declares, None
    where it says nothing of them. `variant` tells methods of one name and type apart: copies of a generic one, and the functions of a trait
    that a type implements more than once."""

    name: str
    name_span: Span = NOWHERE
    type_parameters: tuple[TypeParameter, ...] = children
    parameters: tuple[Parameter, ...] = children
    result: TypeSyntax | None = None
    body: Block | None = None
    annotations: tuple[Annotation, ...] = children
    is_async: bool = False
    is_extern: bool = False
    effects: tuple[str, ...] | None = None
    variant: str = ""
    visibility: Visibility = Visibility.PUBLIC
    kernel_metadata: KernelMetadata | None = None
    execution_constraints: ExecutionConstraints | None = None
    compile_target: CompileTarget = CompileTarget.CPU


@frozen_in_types(kw_only=True)
class Variant(Node):
    name: str
    elements: tuple[TypeSyntax, ...] = children
    fields: tuple[Parameter, ...] = children


@frozen_in_types(kw_only=True)
class Struct(Declaration):
    """`suffixes`: of numbers that stand for values of an abstract type, which is a struct of one field; None of a struct.
    `opaque`: its values are made outside of the program, and nothing is known of what is in them."""

    name: str
    type_parameters: tuple[TypeParameter, ...] = children
    fields: tuple[Parameter, ...] = children
    annotations: tuple[Annotation, ...] = children
    suffixes: tuple[str, ...] | None = None
    opaque: bool = False


@frozen_in_types(kw_only=True)
class EnumDeclaration(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = children
    variants: tuple[Variant, ...] = children
    annotations: tuple[Annotation, ...] = children


@frozen_in_types(kw_only=True)
class TypeAlias(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = children
    target: TypeSyntax


@frozen_in_types(kw_only=True)
class Trait(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = children
    members: tuple[Declaration, ...] = children


@frozen_in_types(kw_only=True)
class Impl(Declaration):
    """`impl Trait for T { }` or `impl T { }` (trait None)."""

    trait: TypeSyntax | None = None
    target: TypeSyntax
    type_parameters: tuple[TypeParameter, ...] = children
    members: tuple[Declaration, ...] = children


class ImportForm(Enum):
    MODULE = "module"
    NAMES = "names"
    EVERYTHING = "everything"


@frozen_in_types(kw_only=True)
class Import(Declaration):
    """`import a.b as T` (MODULE), `from a.b import f, g` (NAMES), `from m import *` (EVERYTHING). `bound`: what `names` are called in
    this file. `prefix` stands before each name that the import binds, where it came from another file of the program."""

    form: ImportForm
    module: tuple[str, ...] = children
    alias: str | None = None
    names: tuple[str, ...] = children
    bound: tuple[str, ...] = children
    prefix: str = ""


@frozen_in_types(kw_only=True)
class Module(Declaration):
    """`module a.b`: the name under which others know this file."""

    path: tuple[str, ...] = children


@frozen_in_types(kw_only=True)
class Constant(Declaration):
    """`const CLIP: T = e`, a value known when the program is compiled."""

    name: str
    annotation: TypeSyntax | None = None
    value: Expression


@frozen_in_types(kw_only=True)
class ProgramParameter(Declaration):
    """`param n: int in 1..1000 = 30`."""

    name: str
    annotation: TypeSyntax | None = None
    range: Expression | None = None
    default: Expression


@frozen_in_types(kw_only=True)
class Config(Declaration):
    entries: tuple[FieldValue, ...] = children


@frozen_in_types(kw_only=True)
class Test(Declaration):
    name: str
    body: Block


@frozen_in_types(kw_only=True)
class LaterDeclaration(Declaration):
    """Valid syntax of a declaration that nothing executes yet (effect, handler, abstract, stream...)."""

    feature: str
    parts: tuple[Node, ...] = children


@frozen_in_types(kw_only=True)
class Program(Node):
    """One file: declarations and statements in the order written."""

    path: str
    statements: tuple[Statement, ...] = children
