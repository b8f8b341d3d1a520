"""From a checked program to host functions in HIR."""

from collections.abc import Mapping
from functools import partial

from compiler.diagnostics import Diagnostics
from compiler.hir import native_types as native
from compiler.hir.module import FaultSite, HirModule
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.types import Pointer, Struct
from compiler.lowering.native import (  # noqa: F401  They register their rules.
    arrays,
    calls,
    expressions,
    function_code,
    literals,
    operators,
    patterns,
    records,
    statements,
)
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.program import Elaboration
from compiler.typed_ast import nodes
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import VariableKind
from quantdsl.check import library as standard
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.check.checker import quant_checker
from quantdsl.elaborate import (  # noqa: F401  They register their rules.
    blocks,
    containers,
    conversions,
    exact,
    exact_literals,
    heap,
    library,
    market,
    orders,
    randoms,
    rounding,
    signals,
)
from quantdsl.elaborate.own import MarketNeeds, frame_of
from quantdsl.elaborate.rules import RULES
from runtime.records import frozen


@frozen
class ElaboratedTest:
    """A `test` block: its name, the name of its function in HIR, and the memory that this takes, which begins with all bytes 0."""

    name: str
    function: str
    memory: Struct


@frozen
class Elaborated:
    """The functions of a program. `functions`: the names in HIR of those that can be called from outside, by their own. Functions with
    signals have memory, and can't."""

    module: HirModule
    functions: Mapping[str, str]
    tests: tuple[ElaboratedTest, ...]

    def site(self, function: str, number: int) -> FaultSite:
        """What a failure speaks of."""
        return self.module.functions[function].sites[number]


def begin(checked: CheckedQuantProgram, exported: bool = False) -> Elaboration:
    """An elaboration of a program without errors, with its constants and nothing written yet. `exported`: its functions can be called from
    outside."""
    world, tree = checked.world, checked.program
    rebuilt = world.declared.by_name(tree.statements)
    inside = {standard.INSIDE + name: declaration for name, declaration in checked.library.items()}
    functions = {**world.declared.functions, **checked.library, **inside, **rebuilt}
    checker = quant_checker(world, Diagnostics())
    plain = [f for f in rebuilt.values() if isinstance(f, nodes.Function) and callable_from_outside(f)]
    outside = frozenset(map(id, plain)) if exported else frozenset()
    layouts = Layouts(RULES, partial(cases_of, checker))
    made = Elaboration(MarketNeeds(world), checker, ModuleBuilder("program"), layouts, functions, frame_of(world.only_market), outside)
    checker.top = made.top.sizes
    with made.seeing(made.top):
        for statement in tree.statements:
            match statement:
                case nodes.Constant(name=name, annotation=annotation, value=value):
                    made.declare_constant(made.top, name, annotation, value)
                case nodes.ProgramParameter(name=name, annotation=annotation, default=value):
                    made.declare_constant(made.top, name, annotation, value, VariableKind.PROGRAM_PARAMETER)
    return made


def callable_from_outside(function: nodes.Function) -> bool:
    """Whether a function is one function: without type or constant parameters."""
    constant = any(isinstance(parameter.annotation, nodes.ConstantTypeSyntax) for parameter in function.parameters)
    return function.body is not None and not function.type_parameters and not constant


def elaborate(checked: CheckedQuantProgram, functions: bool = True, tests: bool = True) -> Elaborated:
    """The functions of a program that can be called from outside, its tests, or both. Raises ZyntaxError for what isn't supported yet."""
    made = begin(checked, exported=functions)
    names: dict[str, str] = {}
    found: list[ElaboratedTest] = []
    for statement in checked.program.statements:
        for name, function in checked.world.declared.by_name((statement,)).items():
            if id(function) in made.exported:
                instance = made.instance(function)
                if not instance.borrowed:
                    names.setdefault(name, instance.name)
        if isinstance(statement, nodes.Test) and tests:
            found.append(write_test(made, statement, len(found)))
    return Elaborated(made.program.module, names, tuple(found))


def write_test(made: Elaboration, test: nodes.Test, number: int) -> ElaboratedTest:
    """Its memory, that of the signals that it calls, is handed in."""
    name = f"test.n{number}"
    inside = f"{name}.body"
    with made.program.function(inside, {}, internal=True, span=test.span) as b, made.seeing(made.top):
        c = FunctionContext(made, b, made.top, {})
        with c.reaching():
            c.body(test.body)
    memory = Struct("memory", (("first", native.U8), *((f"n{number}", one.type) for number, one in enumerate(c.borrowed))))
    with made.program.function(name, {"memory": Pointer(memory)}, span=test.span) as b:
        b.call(inside, *(b.at(b.parameters[0], field) for field, _ in memory.fields[1:]))
    return ElaboratedTest(test.name, name, memory)
