"""Reads the text that `text.py` prints, back to an equal module. It trusts the text for types: `verify.py` says whether they are right."""

from collections.abc import Callable
from typing import Any

import attrs

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.hir.control import Attempt, Call, For, If, While
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.instructions import INSTRUCTIONS
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
    OptimizationLevel,
)
from compiler.hir.parse_types import Reader
from compiler.hir.syntax import Named, Syntax, syntax_of
from compiler.hir.types import I1, INDEX, HirType, Space
from compiler.source import Span
from compiler.typed_ast.kernel import PRODUCTS, KernelType

MAXIMUM_DEPTH = 250
"""Regions inside one another that the parser takes."""


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
    made = reader.type()
    reader.finish()
    return made


class ModuleReader(Reader):
    """Functions and modules on top of tokens and types."""

    def __init__(self, text: str, path: str = "<hir>") -> None:
        super().__init__(text, path)
        self.values: dict[str, Value] = {}
        self.depth = 0
        self.readers: dict[str, Callable[[], Any]] = {
            "text": self.optional_word,
            "integer": self.optional_integer,
            "truth": self.truth,
            "number": self.optional_number,
            "affine": self.optional_affine,
            "type": self.type,
            "texts": lambda: tuple(self.separated(self.word, "[", "]")),
            "integers": lambda: tuple(self.separated(self.integer, "[", "]")),
            "affines": lambda: tuple(self.separated(self.affine, "[", "]")),
        }

    def finish(self) -> None:
        if self.kind != "end":
            self.fail(f"expected the end of the text, found {self.shown()}")

    def optional_integer(self) -> int | None:
        return None if self.accept("none") else self.integer()

    def optional_number(self) -> int | float | bool | None:
        return None if self.accept("none") else self.number()

    def optional_word(self) -> str | None:
        if self.kind == "name" and self.accept("none"):
            return None
        return self.word()

    def optional_affine(self) -> Affine | None:
        return None if self.accept("none") else self.affine()

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

    def setting(self) -> str:
        name = self.name()
        self.expect("=")
        return name

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

    def one_of(self, choices: dict[str, Any], what: str) -> Any:
        word = self.word()
        if word not in choices:
            self.fail(f"no {what} is called `{word}`", self.at - 1)
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
                case other:
                    self.fail(f"kernel information has no `{other}`", token)

        self.separated(part, "[", "]")
        if "threads" in bounds:
            fields["launch_bounds"] = LaunchBounds(bounds["threads"], bounds.get("blocks"))
        return HirKernelInfo(**fields)

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

    # ---- values ----

    def define(self, name: str, type_: HirType, token: int) -> Value:
        if name in self.values:
            self.fail(f"%{name} is defined twice", token)
        made = self.values[name] = Value(name, type_)
        return made

    def use(self) -> Value:
        token = self.at
        name = self.take("value", "a value")
        value = self.values.get(name[1:])
        if value is None:
            self.fail(f"{name} is not defined", token)
        return value

    # ---- instructions ----

    def region(self, region: Region) -> None:
        """Instructions up to the brace that ends them."""
        self.depth += 1
        if self.depth > MAXIMUM_DEPTH:
            self.fail(f"more than {MAXIMUM_DEPTH} regions inside one another")
        while not self.accept("}"):
            region.body.append(self.instruction())
        self.depth -= 1

    def instruction(self) -> Instruction:
        results: list[tuple[str, int]] = []
        if self.kinds[self.at] == "value":
            while True:
                results.append((self.take("value", "a result")[1:], self.at - 1))
                if not self.accept(","):
                    break
            self.expect("=")
        token = self.at
        name = self.name()
        match name:
            case "for":
                op, types = self.loop()
            case "if":
                op, types = self.branch()
            case "while":
                op, types = self.repeat()
            case "call" | "attempt":
                function = self.function_name()
                arguments = tuple(self.separated(self.use, "(", ")"))
                if name == "attempt":
                    op, types = Attempt(function=function, arguments=arguments), [I1]
                else:
                    types = self.types()
                    op = Call(function=function, arguments=arguments, types=tuple(types))
            case _:
                cls = INSTRUCTIONS.get(name)
                if cls is None:
                    self.fail(f"no instruction is called `{name}`", token)
                op, types = self.plain(cls, name, syntax_of(cls))
        if len(results) != len(types):
            self.fail(f"`{name}` gives {len(types)} values, and {len(results)} are named", token)
        for (result, place), type_ in zip(results, types, strict=True):
            value = self.define(result, type_, place)
            value.source = op
            op.results.append(value)
        return op

    def types(self) -> list[HirType]:
        """`: type, type`, or nothing."""
        if not self.accept(":"):
            return []
        found = [self.type()]
        while self.text == "," and self.kinds[self.at + 1] == "name":
            self.at += 1
            found.append(self.type())
        return found

    def plain(self, cls: type[Instruction], name: str, syntax: Syntax) -> tuple[Instruction, list[HirType]]:
        fields: dict[str, Any] = {"operator": name} if syntax.tabled else {}
        for f in syntax.words:
            fields[f.name] = self.readers[f.kind]()
        self.operands(syntax, fields)
        named = {f.name: f for f in syntax.named}
        flags: list[str] = []
        while self.kind == "name":
            following = self.texts[self.at + 1]
            if following == "=":
                self.named_field(cls, syntax, named, fields)
            elif syntax.flags is not None:  # such an instruction has results, so a colon comes before the next one
                flags.append(self.name())
            else:
                break
        if flags:
            fields["flags"] = tuple(flags)
        types = self.types()
        if syntax.typed == "type":
            if len(types) != 1:
                self.fail(f"`{name}` wants one type after a colon")
            fields["type"] = types[0]
        elif syntax.typed == "types":
            fields["types"] = tuple(types)
        missing = [f.name for f in syntax.named if f.name not in fields and f.default is attrs.NOTHING]
        if missing:
            self.fail(f"`{name}` wants `{missing[0]}=`")
        return cls(**fields), types

    def named_field(self, cls: type[Instruction], syntax: Syntax, named: dict[str, Named], fields: dict[str, Any]) -> None:
        token = self.at
        name = self.setting()
        if name in named:
            fields[name] = self.readers[named[name].kind]()
        elif name in syntax.keywords:
            fields[name] = self.use()
        elif name == "flags" and syntax.flags is not None:
            fields[name] = tuple(self.separated(self.word, "[", "]"))
        else:
            self.fail(f"`{cls.mnemonic}` has no `{name}`", token)

    def operands(self, syntax: Syntax, fields: dict[str, Any]) -> None:
        first = True
        for operand in syntax.operands:
            match operand.role:
                case Role.OPERANDS:
                    found: list[Value] = []
                    while self.another(first):
                        first = False
                        found.append(self.use())
                    fields[operand.name] = tuple(found)
                case Role.OPTIONAL:
                    if self.another(first):
                        first = False
                        fields[operand.name] = self.use()
                case _:
                    if not first:
                        self.expect(",")
                    first = False
                    fields[operand.name] = self.use()
                    if operand.index is not None:
                        fields[operand.index] = tuple(self.separated(self.affine, "[", "]"))

    def another(self, first: bool) -> bool:
        """Whether one more operand follows; its comma is taken."""
        if first:
            # A value at the start of the next line is its result, not an operand of this one.
            return self.kind == "value" and self.texts[self.at + 1] != "=" and not self.starts_results()
        return self.accept(",")

    def starts_results(self) -> bool:
        """Whether here begins `%a, %b = ...`, the next instruction."""
        at = self.at
        while self.kinds[at] == "value" and self.texts[at + 1] == ",":
            at += 2
        return self.kinds[at] == "value" and self.texts[at + 1] == "="

    # ---- control ----

    def loop(self) -> tuple[Instruction, list[HirType]]:
        token = self.at
        variable = self.define(self.name(), INDEX, token)
        self.expect("in")
        low = self.affine()
        self.expect("..")
        high = self.affine()
        step = self.integer() if self.accept("step") else 1
        parameters, carried = self.carry()
        place, marks = "time", []
        while self.kind == "name":
            name = self.setting()
            if name == "place":
                place = self.word()
            else:
                marks.append((name, self.mark()))
        self.expect("{")
        op = For(
            carried=tuple(carried), body=Region([variable, *parameters]), low=low, high=high, step=step, place=place, marks=tuple(marks)
        )
        self.region(op.body)
        return op, [value.type for value in carried]

    def mark(self) -> object:
        match self.kind, self.text:
            case "text", _:
                return self.quoted()
            case "name", "affine":
                self.at += 1
                self.expect("(")
                form = self.affine()
                self.expect(")")
                return form
            case "name", "none":
                self.at += 1
                return None
            case "mark", "[":
                return tuple(self.separated(self.mark, "[", "]"))
            case _:
                return self.number()

    def carry(self) -> tuple[list[Value], list[Value]]:
        if not self.accept("carry"):
            return [], []
        pairs = self.separated(self.carried, "(", ")")
        return [p for p, _ in pairs], [v for _, v in pairs]

    def carried(self) -> tuple[Value, Value]:
        token = self.at
        name = self.take("value", "a carried value")
        self.expect("=")
        start = self.use()
        return self.define(name[1:], start.type, token), start

    def branch(self) -> tuple[Instruction, list[HirType]]:
        condition = self.use()
        types = self.types()
        op = If(condition=condition, types=tuple(types))
        self.expect("{")
        self.region(op.then)
        if self.accept("else"):
            self.expect("{")
            op.otherwise = Region()
            self.region(op.otherwise)
        return op, types

    def repeat(self) -> tuple[Instruction, list[HirType]]:
        parameters, carried = self.carry()
        op = While(carried=tuple(carried), before=Region(parameters))
        self.expect("{")
        self.region(op.before)
        self.expect("do")
        if self.text == "(":
            names = self.separated(lambda: (self.take("value", "a parameter")[1:], self.at - 1), "(", ")")
            if len(names) != len(carried):
                self.fail("`do` names as many values as are carried")
            op.body.parameters = [self.define(n, v.type, at) for (n, at), v in zip(names, carried, strict=True)]
        self.expect("{")
        self.region(op.body)
        return op, [value.type for value in carried]
