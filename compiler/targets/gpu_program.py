"""A program's kernels for one GPU architecture, all in one module: as HIR, PTX, cubin, and as a report of what each kernel takes and how it
is launched. Needs no GPU."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, reduce
from math import prod
from time import perf_counter

from compiler.backends.nvptx.assemble import Cubin, assemble, toolkit
from compiler.backends.nvptx.compile import PtxModule, compile_kernels
from compiler.backends.nvptx.target import GpuTarget
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Const, Index
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirModule
from compiler.launch.cuda.tuned import words
from compiler.launch.thread_kernels import ThreadKernel, thread_kernel
from compiler.options import is_on
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.launches import Launch, Launches
from compiler.targets.shown import ShownProgram
from runtime.records import define


@define(eq=False)
class GpuProgram:
    """The kernels of a program for a target. Each stage is made when it is first asked for."""

    shown: ShownProgram
    target: GpuTarget

    @cached_property
    def kernels(self) -> list[ThreadKernel]:
        """Every compute block with its launches: those of a call, or those that every call can have."""
        facts = Facts(machine=self.target.machine)
        with self._timed("schedule"):
            return [shown.threads or thread_kernel(shown.built, shown.compute, facts) for shown in self.shown.kernels]

    @cached_property
    def module(self) -> HirModule:
        module = HirModule(self.shown.name)
        for kernel in self.kernels:
            for function in kernel.functions:
                module.add(function)
        return module

    @cached_property
    def ptx(self) -> PtxModule:
        level = self.shown.options.level.value
        module = self.module
        with self._timed("ptx"):
            return compile_kernels(module, self.target, self.shown.sources, int(level) if level.isdigit() else 2)

    @cached_property
    def cubin(self) -> Cubin:
        ptx = self.ptx
        with self._timed("cubin"):
            return assemble(ptx)

    @contextmanager
    def _timed(self, pass_name: str) -> Iterator[None]:
        started = perf_counter()
        yield
        self.shown.times.add(pass_name, perf_counter() - started)

    @property
    def schedule(self) -> str:
        return "\n".join(self._schedules())

    # ---- how kernels are launched ----

    def _schedules(self) -> Iterator[str]:
        for shown, kernel in zip(self.shown.kernels, self.kernels, strict=True):
            yield shown.heading
            if kernel.launches is None:
                yield f"  {_as_written(kernel)}"
                continue
            yield from (f"  {word}" for word in kernel.launches.words)
            yield from (f"  {word}" for word in self._tuned(kernel))
            if shown.sizes is None:
                for launch in kernel.launches.launches:
                    yield f"  @{launch.function.name}: {_shared_out(launch)}, blocks of {_threads(launch.block)}"
            else:
                yield from (f"  {word}" for word in _steps(kernel.launches, shown.sizes))

    def _tuned(self, kernel: ThreadKernel) -> Iterator[str]:
        """What tuning runs found for it."""
        field = kernel.built.field
        return words(field) if field is not None and is_on(self.shown.options.tune) else iter(())

    # ---- what kernels take ----

    def report(self) -> str:
        """A line a kernel: registers a thread (`to`: those that its roles hand to each other), bytes of local memory and of spills (`?`:
        only the toolkit's assembler would tell), bytes of shared memory (`+`: and what the launch adds), threads of a block, and how
        many blocks a multiprocessor holds at once, with the part of its warps that they fill."""
        rows: list[tuple[str, ...]] = [("kernel", "registers", "local", "spills", "shared", "threads", "blocks/SM", "warps/SM")]
        most = self.target.machine
        for entry in self.ptx.entries:
            use = self.cubin.kernels[entry.symbol]
            shared = use.shared + entry.dynamic_bytes
            held = f"{shared}+" if entry.dynamic_shared else str(shared)
            handed = self.ptx.handed(entry.symbol)
            roles = f" to {', '.join(map(str, handed))}" if handed else ""
            known = toolkit() is not None or not handed
            local = (str(use.stack), str(use.spills)) if known else ("?", "?")
            cells = [entry.symbol, f"{use.registers}{roles}", *local, held]
            if entry.block is None:
                rows.append((*cells, "-", "-", "-"))
                continue
            threads = prod(entry.block)
            blocks = most.resident_blocks(threads, use.registers, shared)
            warps = blocks * -(-threads // most.lanes)
            rows.append((*cells, str(threads), str(blocks), f"{warps}/{most.warps}"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [f"{self.target}"]
        for first, *rest in rows:
            lines.append("  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]))
        return "\n".join(lines) + "\n"


def _steps(launches: Launches, sizes: Mapping[str, int]) -> Iterator[str]:
    """A line a launch of a call, in their order."""
    known = launches.counted_sizes(sizes)
    for number, _ in launches.steps(known):
        launch = launches.launches[number]
        blocks = launch.blocks(known)
        if blocks > 0:
            yield f"@{launch.function.name}: {blocks} block{'' if blocks == 1 else 's'} of {_threads(launch.block)}"


def _as_written(kernel: ThreadKernel) -> str:
    info = kernel.built.lowered.function.kernel_info
    assert info is not None and info.workgroup is not None
    grid = " x ".join(map(str, info.grid)) if info.grid is not None else "as many as the sizes take"
    return f"as written: blocks of {_threads(info.workgroup)}, a grid of {grid}"


def _threads(block: tuple[int, int, int]) -> str:
    """`256 threads`, `32 x 8 threads`."""
    extents = list(block)
    while len(extents) > 1 and extents[-1] == 1:
        extents.pop()
    return f"{' x '.join(map(str, extents))} thread{'' if prod(block) == 1 else 's'}"


def _shared_out(launch: Launch) -> str:
    """How the iterations go to threads and blocks."""
    known: dict[str, str] = {}
    for op in launch.before:
        known.update(_in_words(op, known))
    count = reduce(_product, (_substituted(form, known) for form in launch.counts), "1")
    words = f"{count} iteration{'' if count == '1' else 's'}"
    if launch.share == prod(launch.block):
        return f"{words}, one a thread"
    return f"{words}, {'one' if launch.share == 1 else launch.share} a block"


def _in_words(op: Instruction, known: Mapping[str, str]) -> dict[str, str]:
    """A number that the host computes before a launch, written with the sizes that it is made of."""
    match op:
        case Index(of=of):
            return {op.result.name: _substituted(of, known)}
        case Const(value=value):
            return {op.result.name: str(value)}
        case Binary(operator=operator, left=left, right=right):
            a, b = (known.get(value.name, value.name) for value in (left, right))
            return {op.result.name: _applied(operator, a, b)}
        case _:
            return {}


def _applied(operator: str, a: str, b: str) -> str:
    match operator:
        case "mul":
            return _product(a, b)
        case "add" | "sub":
            return f"{a} {'+' if operator == 'add' else '-'} {_bracketed(b)}"
        case "max" if b == "0":
            return a  # extents are never negative here
        case _:
            return f"{operator}({a}, {b})"


def _product(a: str, b: str) -> str:
    if "1" in (a, b):
        return b if a == "1" else a
    return str(int(a) * int(b)) if a.isdigit() and b.isdigit() else f"{_bracketed(a)} * {_bracketed(b)}"


def _substituted(form: Affine, known: Mapping[str, str]) -> str:
    """The form as text, its names by what they stand for."""
    if len(form.names) == 1 and form == Affine.of(form.names[0]):
        return known.get(form.names[0], form.names[0])
    return re.sub(r"[A-Za-z_][\w.]*", lambda match: _bracketed(known.get(match.group(), match.group())), str(form))


def _bracketed(text: str) -> str:
    """In brackets, if it is a sum."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in "+-":
            return f"({text})"
    return text
