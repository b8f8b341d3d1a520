"""Reads the text that `text.py` prints, back to an equal module. It trusts the text for types: `verify.py` says whether they are right."""

from typing import Any

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.module import (
    ArchFamily,
    CallingConvention,
    FaultSite,
    Form,
    GpuArch,
    GpuModuleMetadata,
    HirExecutionConstraints,
    HirExport,
    HirFunction,
    HirGlobal,
    HirImport,
    HirKernelInfo,
    HirModule,
    LaunchBounds,
    Linkage,
    LoopWish,
    OptimizationLevel,
)
from compiler.hir.parse_instructions import InstructionReader
from compiler.hir.types import HirType, Space
from compiler.source import Span
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.levels import PRODUCTS


def parse_module(text: str, path: str = "<hir>") -> HirModule:
    """The module that the text holds; ZyntaxError 0101 with a span when it can't be read."""
    reader = ModuleReader(text, path)
    module = reader.module()
    reader.finish()
    return module


def parse_function(text: str, path: str = "<hir>") -> HirFunction:
    """The one function that the text holds."""
    reader = ModuleReader(text, path)
    function = reader.function()
    reader.finish()
    return function


def parse_type(text: str) -> HirType:
    """A type alone."""
    reader = ModuleReader(text)
    type_ = reader.type()
    reader.finish()
    return type_


class ModuleReader(InstructionReader):
    """Functions and modules on top of instructions."""

    def finish(self) -> None:
        if self.kind != "end":
            self.fail(f"expected the end of the text, found {self.shown()}")

    # ---- modules ----

    def module(self) -> HirModule:
        self.expect("module")
        module = HirModule(self.function_name())
        while self.text != "{":
            match self.setting():
                case "version":
                    module.version = self.integer()
                case "dependencies":
                    module.dependencies = frozenset(self.separated(self.word, "[", "]"))
                case other:
                    self.fail(f"a module has no `{other}`", self.at - 2)
        self.expect("{")
        while not self.accept("}"):
            self.module_part(module)
        return module

    def module_part(self, module: HirModule) -> None:
        match self.text:
            case "func":
                token = self.at
                function = self.function()
                if function.name in module.functions:
                    self.fail(f"a second function @{function.name}", token + 1)
                module.functions[function.name] = function
                return
            case "import":
                self.at += 1
                name = self.function_name()
                self.expect("from")
                module.imports = (*module.imports, HirImport(name, self.quoted()))
            case "export":
                self.at += 1
                name = self.function_name()
                self.expect("=")
                module.exports = (*module.exports, HirExport(name, self.function_name()))
            case "type":
                self.at += 1
                name = self.function_name()
                self.expect("=")
                module.types[name] = self.type()
            case "global":
                self.at += 1
                name = self.function_name()
                self.expect(":")
                type_ = self.type()
                self.expect("=")
                module.globals[name] = HirGlobal(name, type_, tuple(self.separated(self.number, "[", "]")))
            case "gpu":
                self.at += 1
                module.gpu_metadata = self.gpu()
            case _:
                self.fail(f"expected a part of a module, found {self.shown()}")

    def gpu(self) -> GpuModuleMetadata:
        fields: dict[str, Any] = {}
        names = {"entries": "kernel_entries", "devices": "device_functions", "constants": "constant_memory"}
        while self.texts[self.at + 1] == "=":
            match self.setting():
                case "archs":
                    fields["target_archs"] = tuple(self.separated(self.arch, "[", "]"))
                case "ptx":
                    fields["ptx_version"] = tuple(self.separated(self.integer, "[", "]"))
                case "capability":
                    fields["compute_capability"] = tuple(self.separated(self.integer, "[", "]"))
                case "features":
                    fields["required_features"] = frozenset(self.separated(self.word, "[", "]"))
                case "entries" | "devices" | "constants" as name:
                    fields[names[name]] = tuple(self.separated(self.word, "[", "]"))
                case other:
                    self.fail(f"GPU data have no `{other}`", self.at - 2)
        return GpuModuleMetadata(**fields)

    def arch(self) -> GpuArch:
        token = self.at
        family, _, rest = self.name().partition("_")
        digits = rest.rstrip("abcdefghijklmnopqrstuvwxyz")
        if family not in [f.value for f in ArchFamily] or not digits.isdecimal():
            self.fail("a target is written `sm_90a`", token)
        return GpuArch(ArchFamily(family), int(digits), rest[len(digits) :])

    # ---- functions ----

    def function(self) -> HirFunction:
        self.expect("func")
        self.values = {}
        function = HirFunction(self.function_name())
        function.parameters = self.separated(self.parameter, "(", ")")
        while self.text != "{":
            self.function_setting(function)
        self.expect("{")
        sites: list[FaultSite] = []
        while self.text == "site":
            sites.append(self.site())
        function.sites = tuple(sites)
        self.region(function.body)
        return function

    def parameter(self) -> Value:
        token = self.at
        name = self.take("value", "a parameter")
        self.expect(":")
        return self.define(name[1:], self.type(), token)

    def function_setting(self, function: HirFunction) -> None:
        token = self.at
        match self.setting():
            case "form":
                function.form = self.one_of({form.value: form for form in Form}, "form")
            case "axes":
                function.axes = dict(self.separated(self.axis, "[", "]"))
            case "results":
                function.results = tuple(self.separated(self.type, "[", "]"))
            case "linkage":
                function.linkage = self.one_of({linkage.value: linkage for linkage in Linkage}, "linkage")
            case "convention":
                function.calling_convention = self.one_of({c.value: c for c in CallingConvention}, "calling convention")
            case "attributes":
                function.attributes = tuple(self.separated(self.word, "[", "]"))
            case "link_name":
                function.link_name = self.quoted()
            case "previous":
                function.previous_version = self.quoted()
            case "kernel":
                function.kernel_info = self.kernel()
            case "constraints":
                function.constraints = self.constraints()
            case other:
                self.fail(f"a function has no `{other}`", token)

    def one_of(self, choices: dict[str, Any], kind: str) -> Any:
        word = self.word()
        if word not in choices:
            self.fail(f"no {kind} is called `{word}`", self.at - 1)
        return choices[word]

    def axis(self) -> tuple[str, Affine]:
        name = self.name()
        self.expect(":")
        return name, self.affine()

    def kernel(self) -> HirKernelInfo:
        fields: dict[str, Any] = {}
        bounds: dict[str, int] = {}

        def part() -> None:
            token = self.at
            match self.setting():
                case "entry":
                    fields["is_kernel_entry"] = self.truth()
                case "kind":
                    fields["kernel_type"] = self.one_of({kind.value: kind for kind in KernelType}, "kind of kernel")
                case "arch":
                    fields["target_arch"] = self.arch()
                case "threads" | "blocks" as name:
                    bounds[name] = self.integer()
                case "shared":
                    fields["shared_memory_bytes"] = self.integer()
                case "registers":
                    fields["max_registers"] = self.integer()
                case "spaces":
                    spaces = {space.name.lower(): space for space in Space}
                    fields["address_spaces_used"] = frozenset(self.separated(lambda: self.one_of(spaces, "space"), "[", "]"))
                case "workgroup":
                    fields["workgroup"] = tuple(self.separated(self.integer, "[", "]"))
                case "grid":
                    fields["grid"] = tuple(self.separated(self.affine, "[", "]"))
                case "cluster":
                    fields["cluster"] = tuple(self.separated(self.integer, "[", "]"))
                case "stages" | "warps" as name:
                    fields[name] = self.integer()
                case "tensor_cores":
                    fields["tensor_cores"] = self.truth()
                case "products":
                    fields["products"] = self.one_of({word: word for word in PRODUCTS}, "way to multiply")
                case "floats":
                    fields["strict"] = self.one_of({"strict": True}, "rule of floats")
                case "atomics":
                    fields["relaxed"] = self.one_of({"relaxed": True}, "order of atomics")
                case "tile":
                    fields["tile"] = self.separated(self.tile_size, "[", "]")
                case "loops":
                    fields["loops"] = self.separated(self.wish, "[", "]")
                case other:
                    self.fail(f"kernel information has no `{other}`", token)

        self.separated(part, "[", "]")
        if "threads" in bounds:
            fields["launch_bounds"] = LaunchBounds(bounds["threads"], bounds.get("blocks"))
        return HirKernelInfo(**fields)

    def tile_size(self) -> tuple[str, int]:
        name = self.name()
        self.expect(":")
        return name, self.integer()

    def wish(self) -> LoopWish:
        axis = self.name()
        self.expect(":")
        fields: dict[str, Any] = {"axis": axis, "loop": self.name()}
        while self.text not in (",", "]"):
            name = self.one_of({name: name for name in ("serial", "parallel", "unroll", "vectorize")}, "annotation of a loop")
            if name in ("unroll", "vectorize"):
                self.expect("=")
            fields[name] = self.integer() if name in ("unroll", "vectorize") else True
        return LoopWish(**fields)

    def constraints(self) -> HirExecutionConstraints:
        fields: dict[str, Any] = {}

        def part() -> None:
            name = self.name()
            if name == "opt":
                self.expect("=")
                fields["opt_level"] = self.one_of(dict(OptimizationLevel.__members__), "optimization level")
            elif name in ("no_alloc", "inline_always", "no_bounds_check", "no_null_check", "critical_path"):
                fields[name] = True
            else:
                self.fail(f"no constraint is called `{name}`", self.at - 1)

        self.separated(part, "[", "]")
        return HirExecutionConstraints(**fields)

    def site(self) -> FaultSite:
        self.expect("site")
        code, message = self.take("number", "a code"), self.quoted()
        label, hint, span = "", None, None
        while self.texts[self.at + 1] == "=" and self.text in ("label", "hint"):
            if self.setting() == "label":
                label = self.quoted()
            else:
                hint = self.quoted()
        if self.accept("at"):
            span = self.place()
        others = []
        while self.accept("other"):
            text = self.quoted()
            self.expect("at")
            others.append(Label(self.place(), text))
        return FaultSite(code, span, message, label, hint, tuple(others))

    def place(self) -> Span:
        path = self.quoted()
        self.expect(":")
        start = self.integer()
        self.expect(":")
        return Span(path, start, self.integer())
