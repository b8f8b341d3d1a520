"""The static functions of a host program as one module of native functions."""

from collections.abc import Collection, Mapping
from functools import partial

from compiler.diagnostics import ZyntaxError
from compiler.hir.module import HirExecutionConstraints, HirModule
from compiler.hir.native_build import ModuleBuilder
from compiler.lowering.native import (  # noqa: F401  They register their rules.
    arrays,
    calls,
    expressions,
    function_code,
    host_library,
    host_literals,
    host_tensors,
    literals,
    operators,
    patterns,
    records,
    statements,
    tensors,
)
from compiler.lowering.native.host_arithmetic import arithmetic
from compiler.lowering.native.host_library import TABLES, power
from compiler.lowering.native.instances import Instance
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.program import Elaboration
from compiler.lowering.native.rules import NativeRules
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.declarations import CallableDeclaration
from compiler.typed_ast.function_annotations import CRITICAL
from compiler.typed_ast.function_effects import DYNAMIC, FunctionEffects, ProgramEffects, Reason
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import Findings
from compiler.typed_ast.types import UNIT, UNKNOWN, TensorType, Type
from compiler.typed_ast.walk import parts
from runtime.records import evolve, frozen


@frozen
class NativeProgram:
    """The module of a program's static functions. `symbols`: the names in HIR of those that can be called from outside; `layouts` say
    how values of their types are held."""

    module: HirModule
    symbols: Mapping[str, str]
    layouts: Layouts


def rules_of(checker: Checker, results: Mapping[int, Type]) -> NativeRules:
    """What the lowering asks of ZynML. `results`: of functions, by identity."""

    def result(callee: CallableDeclaration) -> Type:
        return results.get(id(callee), UNIT)

    return NativeRules(
        checker.meaning,
        checker.meaning.rules.resolve,
        TABLES,
        result=result,
        types=tensors.TYPES,
        parameters_change=True,
        arithmetic=arithmetic,
        power=power,
        begins=host_tensors.begins,
    )


def native_program(checker: Checker, found: ProgramEffects, wanted: Collection[str]) -> NativeProgram:
    """The static functions `wanted`, and what they call. A function that turns out to need more than native code has, and those that call
    it, get that as a reason not to be static, and stay out."""
    while True:
        made = _begin(checker, found, wanted)
        failed = False
        for name in wanted:
            own = found.functions[name]
            if not own.is_static:
                continue
            try:
                made.instance(made.functions[name])
            except ZyntaxError as error:
                _note(found, made, error)
                failed = True
                break
        if not failed:
            names = {id(made.functions[name]): name for name in wanted if name in made.functions}
            symbols = {names[at]: instance.name for instance in made.instances.values() if (at := id(instance.callee)) in names}
            module = made.program.module
            for instance in made.instances.values():
                asked = {annotation.name for annotation in getattr(instance.callee, "annotations", ())}
                inline, critical = "inline_always" in asked, CRITICAL in asked
                if inline or critical:
                    constraints = HirExecutionConstraints(inline_always=inline, critical_path=critical, no_alloc=critical)
                    module.functions[instance.name].constraints = constraints
            return NativeProgram(module, symbols, made.layouts)


def _note(found: ProgramEffects, made: Elaboration, error: ZyntaxError) -> None:
    """Why the function that was being written isn't native after all."""
    open_ = [instance for instance in made.instances.values() if instance.open]
    innermost: Instance = open_[-1]
    own = found.functions[next(name for name, function in made.functions.items() if function is innermost.callee)]
    first = error.diagnostics[0]
    own.reasons.append(Reason(DYNAMIC, first.message, first.span or own.function.span))
    found.spread()


def _begin(checker: Checker, found: ProgramEffects, wanted: Collection[str]) -> Elaboration:
    """An elaboration with the program's constants, and nothing written yet; what is `wanted` can be called from outside."""
    functions: dict[str, CallableDeclaration] = {own.name: _settled(own) for own in found.static}
    results = {id(function): found.functions[name].result for name, function in functions.items()}
    layouts = Layouts(rules_of(checker, results), partial(cases_of, checker))
    exported = frozenset(id(function) for name, function in functions.items() if name in wanted)
    made = Elaboration(None, checker, ModuleBuilder("functions"), layouts, functions, exported=exported)
    for name, let in found.constants.items():
        assert let.value is not None
        made.declare_constant(made.top, name, let.annotation, let.value)
    return made


def _settled(own: FunctionEffects) -> nodes.Function:
    """The function as it is compiled. The types of branches whose values nobody wants are those of nothing."""
    body = own.function.body
    assert body is not None
    findings = Findings()
    _unused(body, findings.types, own.result == UNIT)
    # of a tensor only the dtype and the rank are known
    result = None if isinstance(own.result, TensorType) else own.function.result
    return evolve(own.function, body=rebuild(body, findings), result=result)


def _unused(node: nodes.Node, types: dict[int, Type], unwanted: bool) -> None:
    match node:
        case nodes.Block(statements=written):
            if unwanted and node.type == UNKNOWN:
                types[id(node)] = UNIT
            for statement in written:
                if isinstance(statement, nodes.ExpressionStatement):
                    _unused(statement.value, types, unwanted or statement is not written[-1])
                else:
                    _unused(statement, types, False)
        case nodes.If(condition=condition, then=then, otherwise=otherwise):
            if unwanted and node.type == UNKNOWN:
                types[id(node)] = UNIT
            _unused(condition, types, False)
            _unused(then, types, unwanted)
            if otherwise is not None:
                _unused(otherwise, types, unwanted)
        case nodes.Match(subject=subject, arms=arms):
            if unwanted and node.type == UNKNOWN:
                types[id(node)] = UNIT
            _unused(subject, types, False)
            for arm in arms:
                _unused(arm.body, types, unwanted)
        case nodes.For(body=body) | nodes.While(body=body):
            _unused(body, types, True)
        case _:
            for part in parts(node):
                _unused(part, types, False)

