"""Source in, artifact or behaviour out: the only file that knows every stage of a program. Frontends parse and call it; the
command and the Python APIs sit on top.

What only programs with compute blocks need (analysis, schedules, LLVM) is imported when the first block is met: a program
that prints a line doesn't wait for it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, Diagnostics, Severity, ZyntaxError, before_it_runs
from compiler.linking import LinkedProgram, link
from compiler.options import CompileOptions as CompileOptions
from compiler.options import origin, tier_of
from compiler.source import Source, Sources, Span
from compiler.syntax.comments import comment_warnings
from compiler.typed_ast import nodes
from compiler.typed_ast.check import CheckedProgram, check, checker_of
from compiler.typed_ast.checker import Checker, ComputeOutcome
from compiler.typed_ast.function_annotations import promises_of_code
from compiler.typed_ast.generics import without_generics, without_unused_open_copies
from compiler.typed_ast.infer_declarations import configured
from compiler.typed_ast.inline import inlined
from compiler.typed_ast.language import SessionLanguage
from compiler.typed_ast.levels import FLOATS
from compiler.typed_ast.program_functions import functions_of
from compiler.typed_ast.specialise import specialised
from compiler.typed_ast.types import Type
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve
from runtime.unawaited import Unawaited

if TYPE_CHECKING:
    from compiler.backends.host.continued import Continued
    from compiler.backends.host.export import ExportedProgram
    from compiler.backends.host.loaded import HostProgram
    from compiler.devices.costs import Rates
    from compiler.devices.placement import PlacedBlock, Placement
    from compiler.devices.places import DevicePlace
    from compiler.fusion.kept_launches import KeptLaunches
    from compiler.launch.checked_blocks import CheckedBlocks
    from compiler.launch.kernels import KernelOptions
    from compiler.launch.native_calls.learn import BlocksFunction
    from compiler.launch.recorded import LaunchedKernel, LaunchRecording
    from compiler.options import Tuning

QUIET = (
    nodes.Function, nodes.Struct, nodes.EnumDeclaration, nodes.TypeAlias, nodes.Trait, nodes.Impl, nodes.Module, nodes.Constant, nodes.Test
)  # fmt: skip
"""Declarations that do nothing when a program starts, and mean the same wherever its text does."""

Warn = Callable[[Diagnostic], None]


def _unheard(warning: Diagnostic) -> None:
    """Warnings about the library are no business of its users."""


def _first_of_each(sites: Sequence[nodes.Compute]) -> list[int]:
    first: dict[Span, int] = {}
    return [first.setdefault(compute.span, number) for number, compute in enumerate(sites)]


@define(eq=False)
class Session:
    """One program from its tree to its end."""

    source: Source
    program: nodes.Program
    language: SessionLanguage
    sources: Sources
    options: CompileOptions
    warn: Warn
    others: tuple[Source, ...] = ()
    """Files of which the program took declarations."""
    continues: "Continued | None" = None
    """The program that this one goes on from."""
    _placed: "dict[Span, PlacedBlock]" = Factory(dict)
    _warned: set[tuple[str, Span | None]] = Factory(set)
    _modules: "dict[Path, HostProgram]" = Factory(dict)
    _sessions: "dict[Path, Session]" = Factory(dict)
    """Of the library's files, shared by all of them."""
    keeps: bool = False
    """Whether what the program becomes is put into the user's cache, for other processes that run it."""
    warned_at_launch: bool = False
    is_library: bool = False
    """Whether the text is the library's: what goes wrong in it is shown where the program called it."""
    unawaited: Unawaited = Factory(Unawaited)
    """Of this program and its modules."""
    _activity: str = ""
    _findings: list[Diagnostic] | None = None
    """What the sanitizer found, while the program runs to its end."""

    # ---- checking ----

    @cached_property
    def checked(self) -> CheckedProgram:
        """The typed tree with all findings; errors aren't raised yet."""
        self._now("checking")
        language = self.language
        linked = self.linked

        def is_known(path: tuple[str, ...]) -> bool:
            return path in linked.known or language.library_module(path) is not None

        checked = check(linked.program, language.library, self._outcome, is_known, meaning=language.meaning)
        if not checked.diagnostics.errors:
            checked.diagnostics.extend(self._broken_promises(checked.program))
        checked.diagnostics.extend_over(linked.faults)
        for source in (self.sources.get(self.program.path), *linked.sources):
            if source is not None:
                checked.diagnostics.extend(self._comment_warnings(source))
        return checked

    def _broken_promises(self, program: nodes.Program) -> "Iterator[Diagnostic]":
        """Of functions that say how their code is to run."""
        if promised := promises_of_code(program):
            from compiler.backends.host.critical_paths import broken_promises

            yield from broken_promises(*self._with_native_forms(program), self.sources, promised)

    def _comment_warnings(self, source: Source) -> tuple[Diagnostic, ...]:
        return comment_warnings(source)

    @cached_property
    def linked(self) -> LinkedProgram:
        """The tree of the program with those of the modules that it imports. A text of the library imports none."""
        if self.is_library:
            return LinkedProgram(self.program)
        return link(self.source, self.program, self.language, self.sources)

    @property
    def files(self) -> tuple[Source, ...]:
        """The texts beside the program's own that its tree is made of."""
        return (*self.others, *self.linked.sources)

    def check(self) -> nodes.Program:
        """The typed tree. Raises all errors, those of imported modules behind the program's own; shows warnings, or raises them under
        `strict`."""
        diagnostics = Diagnostics(first=self.source.path)
        diagnostics.extend(self.checked.diagnostics.sorted)
        with before_it_runs():
            diagnostics.raise_errors(self.options.strict)
        for warning in diagnostics.warnings:
            self._show(warning)
        return self.checked.program

    def inlined(self) -> nodes.Program:
        """The typed tree as it runs, with calls inlined where that makes chains of blocks. Raises ZyntaxError."""
        program = without_generics(self.check())
        return inlined(program, checker_of(program, self.language.library, meaning=self.language.meaning))

    def _as_error(self, diagnostic: Diagnostic) -> Diagnostic:
        return evolve(diagnostic, severity=Severity.ERROR) if diagnostic.severity is Severity.WARNING else diagnostic

    def _show(self, diagnostic: Diagnostic) -> None:
        key = (diagnostic.code, diagnostic.span)
        if key not in self._warned:
            self._warned.add(key)
            self.warn(diagnostic)

    def already_said(self, warnings: Iterable[Diagnostic]) -> None:
        """These are shown no more."""
        self._warned.update((warning.code, warning.span) for warning in warnings)

    def _warn_at_launch(self, diagnostic: Diagnostic) -> None:
        self.warned_at_launch = True
        if self.options.strict and diagnostic.severity is Severity.WARNING:
            raise ZyntaxError(self._as_error(diagnostic))
        self._show(diagnostic)

    @cached_property
    def blocks(self) -> "CheckedBlocks":
        """The file's compute blocks."""
        from compiler.launch.checked_blocks import CheckedBlocks

        return CheckedBlocks(self.kernel_options)

    def _outcome(self, node: nodes.Compute, scope: Mapping[str, Type], functions: Mapping[str, nodes.Function]) -> ComputeOutcome:
        """Asked of the first block, not before."""
        return self.blocks.outcome(node, scope, functions)

    @property
    def origin(self) -> tuple[str, ...] | None:
        """All that the program is made of besides the compiler and the machine; None where that is more than one file, where its own
        statements do something, or somebody wants to hear what is decided."""
        quiet = all(isinstance(node, QUIET) for node in self.program.statements)
        return origin(self.source, self.options) if quiet and not self.files and self.options.explain is None else None

    # ---- kernels ----

    @cached_property
    def kernel_options(self) -> "KernelOptions":
        from compiler.launch.kernels import KernelOptions
        from compiler.machines.cpu import host_machine
        from runtime.cpu import detect

        return KernelOptions(
            level=self.options.level,
            threads=self.options.threads or detect.threads(),
            machine=host_machine(),
            floats=self.options.floats or configured(self.program, "floats") or FLOATS[0],
            products=self.options.products or configured(self.program, "products"),
            compiling=self._compiling,
            tier=tier_of(self.options),
            explain_tiers=self._tell_tier if self.options.explain_tiers is not None else None,
            tuning=self._tuning,
        )

    def _tell_tier(self, span: Span | None, words: str) -> None:
        assert self.options.explain_tiers is not None
        source = self.sources.get(span.path) if span is not None else None
        if span is None or source is None:
            self.options.explain_tiers(words)
            return
        line, column = source.line_and_column(span.start)
        self.options.explain_tiers(f"{source.path}:{line}:{column}: {words}")

    def _tuning(self) -> "Tuning | None":
        from compiler.options import log, tuning

        return tuning(self.options.tune, self.options.tuned or log)

    def same_blocks(self) -> list[int]:
        """Of each compute site the first one that is the same block."""
        return _first_of_each(self.host.compute_sites)

    def compute_site(self, number: int) -> nodes.Compute:
        """A compute expression by its number in the program's code."""
        return self.host.compute_sites[number]

    def block(self, compute: nodes.Compute) -> "PlacedBlock":
        """A compute expression of the typed tree, whose device is to be chosen."""
        placed = self._placed.get(compute.span)
        if placed is None:
            block = self.blocks.block(compute, functions_of(self.checked.program), self._warn_at_launch)
            placed = self._placed[compute.span] = self.placement.of(block)
        return placed

    def blocks_function(self, name: str) -> "BlocksFunction | None":
        """A function, by its name in the namespace of the program's code, as a sequence of blocks; None for any other."""
        from compiler.launch.native_calls.learn import blocks_function

        written = [each for each, python in self.host.names.items() if python == name]
        own = [node for node in self.check().statements if isinstance(node, nodes.Function) and [node.name] == written]
        if len(own) != 1 or own[0].name not in self.host.types:
            return None
        return blocks_function(own[0], self.host.types[own[0].name], self.host.names)

    @cached_property
    def placement(self) -> "Placement":
        """Where blocks run."""
        from compiler.devices.explain import Telling
        from compiler.devices.placement import Placement
        from compiler.devices.places import DevicePlaces

        report = self._report if self.options.sanitize else None
        places = DevicePlaces(self.sources, self._rates, report, self._recording)
        explain = self.options.explain
        tell = None if explain is None else Telling(explain, self.sources)
        return Placement(self._device, lambda: self.language.default_device, places, tell)

    def _rates(self, device: "DevicePlace") -> "Rates":
        from compiler.devices.calibration import known_rates

        return known_rates(device, self.kernel_options)

    @property
    def _recording(self) -> "LaunchRecording | None":
        """Who hears of kernels that run."""
        if self.options.launched is None:
            return None
        from compiler.launch.recorded import LaunchRecording

        return LaunchRecording(self.options.launched, self.options.dry)

    def launches_like(self, texts: Sequence[str], device: str) -> "list[LaunchedKernel]":
        """The kernels that a call runs whose values are described (`A=4096x4096:bf16`), on a device. None of them runs here. Raises
        ZyntaxError."""
        from compiler.targets.like import call

        self.check()
        launched: list[LaunchedKernel] = []
        options = evolve(self.options, device=device, sanitize=False, explain=None, launched=launched.append, dry=True)
        session = Session(self.source, self.program, self.language, self.sources, options, lambda warning: None, self.others)
        call(session.host, texts, launched.clear)
        return [*dict.fromkeys(launched)]

    # ---- running ----

    @cached_property
    def kept_launches(self) -> "KeptLaunches | None":
        """What other processes are told of its launches; None where they aren't."""
        if not self.keeps:
            return None
        from compiler.fusion.kept_runs import launches_of

        return launches_of(self)

    @cached_property
    def host(self) -> "HostProgram":
        """The program in tier 0, checked, its devices present."""
        from compiler.backends.host.program import compile_program
        from compiler.fusion.host_runtime import ProgramRuntime
        from compiler.typed_ast.program_parameters import check_parameters

        typed = self.check()
        check_parameters(typed, self.options.parameters)
        runtime = ProgramRuntime(self, self.kept_launches)
        if not self.is_library:
            self.language.runs_in(self)
        library, native, meaning = self.language.library, self.options.native, self.language.meaning
        program = compile_program(
            typed, library, runtime, self.source, self.files, native, meaning, of_library=self.is_library,
            alone=not self.is_library and self.continues is None, continues=self.continues,
            keeps=self.kept_launches is not None,
        )  # fmt: skip
        runtime.blocks = _first_of_each(program.compute_sites)
        if program.compute_sites or self._device is not None:
            from compiler.devices.placement import require_devices

            require_devices(program.compute_sites, self._device)
        return program

    @property
    def has_blocks(self) -> bool:
        """Whether the program has compute blocks of its own. Raises ZyntaxError."""
        return any(isinstance(node, nodes.Compute) for node in walk(self.check()))

    def native_explained(self) -> str:
        """Which functions of the program are native, and why the others aren't, which loops go on natively, and which blocks are split
        over devices: lines of text. Raises ZyntaxError."""
        from compiler.explained import explained

        return explained(self, *self._with_native_forms(self.check()))

    def function_explained(self, name: str) -> str:
        """What is known of a native function before it runs, and the code that it becomes. Raises ZyntaxError."""
        from compiler.backends.host.critical_paths import function_explained

        return function_explained(*self._with_native_forms(self.check()), self.source, self.sources, name, self.options.level)

    def native_stage(self, stage: str, target: str | None = None) -> str:
        """The program's native functions at `native-hir`, `native-llvm` or `native-asm`, for a CPU by its name; None: this one. Raises
        ZyntaxError."""
        from compiler.backends.host.native_stages import native_stage
        from compiler.targets.cpu import code_named

        return native_stage(*self._with_native_forms(self.check()), stage, code_named(target))

    def exported(self, names: Sequence[str], target: str | None = None, threads: bool = True) -> "ExportedProgram":
        """Functions of the program by name, for C, on a CPU by its name; None: this one. `threads`: whether loops of compute blocks may be
        shared out among threads. Raises ZyntaxError."""
        from compiler.backends.host.export import exported
        from compiler.launch.exported_kernel import KernelExports
        from compiler.machines.cpu import host_machine
        from compiler.targets.cpu import code_named, machine_named

        with before_it_runs():
            typed = self.check()
            machine = host_machine() if target is None else machine_named(target)
            kernels = KernelExports(self.blocks, functions_of(typed), self.sources, machine, threads)
            return exported(*self._with_native_forms(typed), self.sources, names, code_named(target), kernels.kernel_of)

    def _with_native_forms(self, typed: nodes.Program) -> tuple[Checker, nodes.Program]:
        """A typed tree as native functions are made of it, and what knows its declarations."""
        library, meaning = self.language.library, self.language.meaning
        program = without_generics(without_unused_open_copies(typed))
        program = specialised(program, partial(checker_of, library=library, meaning=meaning))
        return checker_of(program, library, meaning=meaning), program

    @property
    def devices(self) -> list[str]:
        """The devices that must be here for the program to run."""
        from compiler.devices.placement import required_devices

        sites = self.host.compute_sites
        return required_devices(sites, self._device) if sites or self._device is not None else []

    def run(self) -> None:
        """Runs the program to its end. Raises ZyntaxError, with all that the sanitizer found."""
        host = self.host
        self._now("running")
        if not self.options.sanitize:
            host.run()
            if self.kept_launches is not None:
                from compiler.fusion.kept_runs import keep

                for session in (self, *self.modules):
                    if session.kept_launches is not None:
                        keep(session, session.kept_launches)
            return
        self._findings = []
        try:
            host.run()
        except ZyntaxError as error:
            raise ZyntaxError(*self._findings, *error.diagnostics) from None
        else:
            if self._findings:
                raise ZyntaxError(*self._findings)
        finally:
            self._findings = None

    def _report(self, findings: tuple[Diagnostic, ...]) -> None:
        """What the sanitizer found in one run of a block: kept for the program's end, or raised when only a function was called."""
        if self._findings is not None:
            self._findings += [finding for finding in findings if finding not in self._findings]
        elif findings:
            raise ZyntaxError(*findings)

    @property
    def _device(self) -> str | None:
        """Where the user wants all blocks to run. Raises ZyntaxError when the sanitizer can't be there."""
        if not self.options.sanitize:
            return self.options.device
        device = self.options.device
        if device is None:
            return "emulator"
        if device.partition(":")[0] != "emulator":
            raise ZyntaxError(
                Diagnostic(
                    "0501",
                    f"`--sanitize` watches threads on the emulator, not on `{device}`",
                    hint="leave `--device` out, or say `--device emulator`",
                )
            )
        return device

    def _now(self, activity: str) -> None:
        self._activity = activity
        self.options.doing(activity)

    @contextmanager
    def _compiling(self, span: Span | None) -> Iterator[None]:
        before = self._activity
        source = self.sources.get(span.path) if span is not None else None
        position = f" at line {source.line_and_column(span.start)[0]}" if source is not None and span is not None else ""
        self._now(f"compiling the kernel{position}")
        try:
            yield
        finally:
            self._now(before)

    def module(self, path: tuple[str, ...], span: Span) -> "HostProgram | None":
        """The program that `import zynml.vector` means; None when there is none, which leaves the library's own functions."""
        file = self.language.library_module(path)
        return None if file is None else self.opened(file).host

    @property
    def modules(self) -> "list[Session]":
        """The files of the library that it has taken in."""
        return [*self._sessions.values()]

    def opened(self, file: Path) -> "Session":
        """A file of the library."""
        resolved = file.resolve()
        if resolved not in self._sessions:
            self._sessions[resolved] = self._of_library_file(*self.language.read_module(file, self.sources))
        return self._sessions[resolved]

    def _of_library_file(self, source: Source, program: nodes.Program) -> "Session":
        options = evolve(self.options, parameters={}, strict=False)
        other = Session(source, program, self.language.of_library, self.sources, options, _unheard)
        other.is_library = True
        other.keeps = self.keeps
        other._modules, other._sessions = self._modules, self._sessions
        other.unawaited = self.unawaited
        return other

    @property
    def only_device(self) -> str | None:
        """Where the user wants all blocks to run; None where each is placed by itself."""
        return self._device

    def library_program(self, source: Source, program: nodes.Program) -> "HostProgram":
        """A text of the library, compiled once a run. Raises ZyntaxError."""
        key = Path(source.path)
        if key not in self._modules:
            self.sources.add(source)
            self._modules[key] = self._of_library_file(source, program).host
            self._modules[key].start()
        return self._modules[key]

    def imported(self) -> "Iterator[Session]":
        """The files of the library that the program imports, each once and not run. Raises ZyntaxError."""
        found = [self.language.library_module(node.module) for node in walk(self.linked.program) if isinstance(node, nodes.Import)]
        for file in dict.fromkeys(found):
            if file is not None:
                yield self.opened(file)

    def emit(self, stage: str, target: str | None = None, like: Sequence[str] = ()) -> str | bytes:
        """The program at a stage, for this CPU or for a GPU target; where a call is described (`A=4096x4096:bf16`), the kernels that it
        runs. Raises ZyntaxError for programs that don't get there."""
        from compiler.emit import emit

        return emit(self, stage, target, like)
