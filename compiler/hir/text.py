"""Prints HIR. The form of each instruction follows from its declaration (`syntax.py`); only control flow, calls, functions and modules are
written out here. `parse.py` reads all of it back to an equal module."""

import json
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.control import Call, For, If, While
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.module import (
    CallingConvention,
    FaultSite,
    Form,
    GpuModuleMetadata,
    HirExecutionConstraints,
    HirFunction,
    HirGlobal,
    HirKernelInfo,
    HirModule,
    Linkage,
    LoopWish,
)
from compiler.hir.ring import RunRole
from compiler.hir.syntax import BARE, Syntax, syntax_of
from compiler.source import Span


def print_module(module: HirModule) -> str:
    """The whole module as text."""
    head = f"module @{module.name} version={module.version}"
    if module.dependencies:
        head += f" dependencies={_texts(sorted(module.dependencies))}"
    lines = [head + " {"]
    lines += [f"  import @{i.name} from {quoted(i.module)}" for i in module.imports]
    lines += [f"  export @{e.name} = @{e.function}" for e in module.exports]
    lines += [f"  type @{name} = {type_}" for name, type_ in module.types.items()]
    lines += [f"  {_global(g)}" for g in module.globals.values()]
    if module.gpu_metadata is not None:
        lines.append(f"  {_gpu(module.gpu_metadata)}")
    for function in module.functions.values():
        lines += [f"  {line}" for line in _function_lines(function)]
    return "\n".join([*lines, "}"]) + "\n"


def print_function(function: HirFunction) -> str:
    """One function as text."""
    return "\n".join(_function_lines(function)) + "\n"


def print_instruction(op: Instruction) -> str:
    """An instruction with its regions, as a message shows it."""
    lines: list[str] = []
    _instruction(op, "", lines)
    return "\n".join(lines)


def number(value: Any) -> str:
    """A number that reads back as the same: `true`, `3`, `-0.0`, `inf`, `nan`."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case _:
            return repr(value)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def word(text: str) -> str:
    """A string, quoted where it has to be."""
    return text if BARE.match(text) else quoted(text)


def _texts(texts: Any) -> str:
    return f"[{', '.join(map(word, texts))}]"


def _list(values: Any) -> str:
    return f"[{', '.join(map(str, values))}]"


PRINT: dict[str, Any] = {
    "text": lambda value: "none" if value is None else quoted(value) if value == "none" else word(value),
    "integer": number,
    "truth": number,
    "number": number,
    "affine": lambda value: "none" if value is None else str(value),
    "type": str,
    "texts": _texts,
    "integers": _list,
    "affines": _list,
}


# ---- functions and modules ---------------------------------------------------------------------------------------


def _function_lines(function: HirFunction) -> list[str]:
    parameters = ", ".join(f"%{p.name}: {p.type}" for p in function.parameters)
    head = [f"func @{function.name}({parameters})", f"form={function.form.value}"]
    if function.axes:
        head.append(f"axes=[{', '.join(f'{name}:{extent}' for name, extent in function.axes.items())}]")
    if function.results:
        head.append(f"results={_list(function.results)}")
    if function.linkage is not Linkage.EXPORTED:
        head.append(f"linkage={function.linkage.value}")
    if function.calling_convention is not CallingConvention.C:
        head.append(f"convention={function.calling_convention.value}")
    if function.attributes:
        head.append(f"attributes={_texts(function.attributes)}")
    if function.link_name is not None:
        head.append(f"link_name={quoted(function.link_name)}")
    if function.previous_version is not None:
        head.append(f"previous={quoted(function.previous_version)}")
    if function.kernel_info is not None:
        head.append(f"kernel={_kernel(function.kernel_info)}")
    if function.constraints is not None:
        head.append(f"constraints={_constraints(function.constraints)}")
    lines = [" ".join(head) + " {"]
    lines += [f"  {_site(site)}" for site in function.sites]
    _region(function.body, "  ", lines)
    lines.append("}")
    return lines


def _kernel(info: HirKernelInfo) -> str:
    parts = [f"entry={number(info.is_kernel_entry)}", f"kind={info.kernel_type.value}"]
    if info.target_arch is not None:
        parts.append(f"arch={info.target_arch}")
    if info.launch_bounds is not None:
        parts.append(f"threads={info.launch_bounds.max_threads_per_block}")
        if info.launch_bounds.min_blocks_per_sm is not None:
            parts.append(f"blocks={info.launch_bounds.min_blocks_per_sm}")
    if info.shared_memory_bytes:
        parts.append(f"shared={info.shared_memory_bytes}")
    if info.max_registers is not None:
        parts.append(f"registers={info.max_registers}")
    if info.address_spaces_used:
        parts.append(f"spaces={_texts(space.name.lower() for space in sorted(info.address_spaces_used))}")
    if info.workgroup is not None:
        parts.append(f"workgroup={_list(info.workgroup)}")
    if info.grid is not None:
        parts.append(f"grid={_list(info.grid)}")
    if info.cluster is not None:
        parts.append(f"cluster={_list(info.cluster)}")
    if info.stages is not None:
        parts.append(f"stages={info.stages}")
    if info.warps is not None:
        parts.append(f"warps={info.warps}")
    if info.tensor_cores is not None:
        parts.append(f"tensor_cores={number(info.tensor_cores)}")
    if info.products is not None:
        parts.append(f"products={info.products}")
    if info.strict:
        parts.append("floats=strict")
    if info.relaxed:
        parts.append("atomics=relaxed")
    if info.tile:
        parts.append(f"tile=[{', '.join(f'{name}:{size}' for name, size in info.tile)}]")
    if info.loops:
        parts.append(f"loops=[{', '.join(map(_wish, info.loops))}]")
    return f"[{', '.join(parts)}]"


def _wish(wish: LoopWish) -> str:
    words = [f"{wish.axis}:{wish.loop}"]
    words += [name for name in ("serial", "parallel") if getattr(wish, name)]
    words += [f"{name}={size}" for name, size in (("unroll", wish.unroll), ("vectorize", wish.vectorize)) if size is not None]
    return " ".join(words)


def _constraints(constraints: HirExecutionConstraints) -> str:
    names = ("no_alloc", "inline_always", "no_bounds_check", "no_null_check", "critical_path")
    parts = [name for name in names if getattr(constraints, name)]
    return f"[{', '.join([*parts, f'opt={constraints.opt_level.name}'])}]"


def _site(site: FaultSite) -> str:
    text = f"site {site.code} {quoted(site.message)}"
    if site.label:
        text += f" label={quoted(site.label)}"
    if site.hint is not None:
        text += f" hint={quoted(site.hint)}"
    if site.span is not None:
        text += f" at {_place(site.span)}"
    for other in site.others:
        text += f" other {quoted(other.text)} at {_place(other.span)}"
    return text


def _place(span: Span) -> str:
    return f"{quoted(span.path)}:{span.start}:{span.end}"


def _global(table: HirGlobal) -> str:
    return f"global @{table.name} : {table.type} = [{', '.join(map(number, table.values))}]"


def _gpu(gpu: GpuModuleMetadata) -> str:
    text = f"gpu archs={_list(gpu.target_archs)} ptx={_list(gpu.ptx_version)} capability={_list(gpu.compute_capability)}"
    for name, values in (
        ("features", sorted(gpu.required_features)),
        ("entries", gpu.kernel_entries),
        ("devices", gpu.device_functions),
        ("constants", gpu.constant_memory),
    ):
        if values:
            text += f" {name}={_texts(values)}"
    return text


# ---- instructions ------------------------------------------------------------------------------------------------


def _region(region: Region, indent: str, lines: list[str]) -> None:
    for op in region.body:
        _instruction(op, indent, lines)


_LIKELY = {None: "", True: " likely", False: " unlikely"}


def _instruction(op: Instruction, indent: str, lines: list[str]) -> None:
    head = indent
    if op.results:
        head += ", ".join(f"%{r.name}" for r in op.results) + " = "
    inner = indent + "  "
    match op:
        case For():
            lines.append(f"{head}for {_for(op)} {{")
            _region(op.body, inner, lines)
        case If():
            lines.append(f"{head}if %{op.condition.name}{_LIKELY[op.likely]}{_colon(op.types)} {{")
            _region(op.then, inner, lines)
            if op.otherwise is not None:
                lines.append(f"{indent}}} else {{")
                _region(op.otherwise, inner, lines)
        case While():
            lines.append(f"{head}while{_carry(op.before.parameters, op.carried)} {{")
            _region(op.before, inner, lines)
            own = f" ({_values(op.body.parameters)})" if op.body.parameters else ""
            lines.append(f"{indent}}} do{own} {{")
            _region(op.body, inner, lines)
        case RunRole():
            lines.append(f"{head}{_plain(op, syntax_of(type(op)))} {{")
            _region(op.body, inner, lines)
        case Call():
            lines.append(f"{head}{op.mnemonic} @{op.function}({_values(op.arguments)}){_colon(op.types)}")
            return
        case _:
            lines.append(head + _plain(op, syntax_of(type(op))))
            return
    lines.append(indent + "}")


def _for(op: For) -> str:
    text = f"{op.variable.name} in {op.low}..{op.high}"
    if op.step != 1:
        text += f" step {op.step}"
    text += _carry(op.body.parameters[1:], op.carried)
    if op.place != "time":
        text += f" place={word(op.place)}"
    return text + "".join(f" {name}={_mark(value)}" for name, value in op.marks)


def _mark(value: object) -> str:
    match value:
        case str():
            return quoted(value)
        case Affine():
            return f"affine({value})"
        case tuple() | list():
            return f"[{', '.join(map(_mark, value))}]"
        case _:
            return number(value)


def _carry(parameters: list[Value], carried: tuple[Value, ...]) -> str:
    if not carried:
        return ""
    return f" carry({', '.join(f'%{p.name} = %{v.name}' for p, v in zip(parameters, carried, strict=True))})"


def _values(values: Any) -> str:
    return ", ".join(f"%{value.name}" for value in values)


def _colon(types: Any) -> str:
    return f" : {', '.join(map(str, types))}" if types else ""


def _plain(op: Instruction, syntax: Syntax) -> str:
    parts = [op.name]
    parts += [PRINT[f.kind](getattr(op, f.name)) for f in syntax.words]
    values: list[str] = []
    for operand in syntax.operands:
        value = getattr(op, operand.name)
        if operand.role is Role.OPERANDS:
            values += [f"%{v.name}" for v in value]
        elif value is not None:
            index = f"[{', '.join(map(str, getattr(op, operand.index)))}]" if operand.index else ""
            values.append(f"%{value.name}{index}")
    if values:
        parts.append(", ".join(values))
    for name in syntax.keywords:
        value = getattr(op, name)
        if value is not None:
            parts.append(f"{name}=%{value.name}")
    for field in syntax.named:
        value = getattr(op, field.name)
        if value != field.default:
            parts.append(f"{field.name}={PRINT[field.kind](value)}")
    if syntax.flags is not None:
        flags = op.flags  # type: ignore[attr-defined]
        if flags != syntax.flags:
            parts += flags or ["flags=[]"]
    text = " ".join(parts)
    if op.results:
        text += _colon([r.type for r in op.results])
    return text


__all__ = ["Form", "print_function", "print_instruction", "print_module"]
