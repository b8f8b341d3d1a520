"""What becomes of a program's chains, as far as types tell it: its kernels as they run, and what was joined and what stayed apart in
words."""

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

from compiler.fusion.plan import ChainPlan, Link, plan_chain
from compiler.fusion.program_kernels import ProgramFile, kernels, position_of
from compiler.launch.kernels import BuiltKernel
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.free_names import captured_names
from compiler.typed_ast.handed_on import HandedOn, handed_on
from runtime.records import define, field

Named = tuple[nodes.Compute, BuiltKernel]


@define(eq=False)
class ShownChain:
    """A chain of a program: its blocks, makers first, and what becomes of them."""

    blocks: list[nodes.Compute]
    plan: ChainPlan


@define(eq=False)
class Shown:
    """The blocks of a program and its modules, their chains, and values that others than one block read."""

    program: ProgramFile
    named: list[Named]
    chains: list[ShownChain]
    observed: list[HandedOn]

    @staticmethod
    def of(program: ProgramFile) -> "Shown":
        """Raises ZyntaxError for programs with faults."""
        named = list(kernels(program))
        built = {compute.span: kernel for compute, kernel in named}
        trees = [file.inlined() for file in (program, *program.imported())]
        handed = [value for number, tree in enumerate(trees) for value in handed_on(tree, alone=number == 0)]
        return Shown(program, named, _chains(program, handed, built), [value for value in handed if not value.readers])

    def kernels(self) -> Iterator[Named]:
        """Every kernel as it runs, where its last block stands."""
        joined = {}
        gone: set[Span] = set()
        of_calls: list[Named] = []
        for chain in self.chains:
            for group in chain.plan.groups:
                last = chain.blocks[group.last]
                gone.update(block.span for number in group.members[:-1] if (block := chain.blocks[number]).inlined_at is None)
                if last.inlined_at is None:
                    joined[last.span] = group.kernel
                elif len(group.members) > 1:
                    of_calls.append((last, group.kernel))
        taken = {kernel.lowered.function.name for _, kernel in self.named}
        for compute, kernel in self.named:
            if compute.span not in gone:
                yield compute, joined.get(compute.span, kernel).named(kernel.lowered.function.name)
        for compute, kernel in of_calls:
            yield compute, kernel.named(self._name_of_call(compute, taken))

    def _name_of_call(self, copy: nodes.Compute, taken: set[str]) -> str:
        """A name that no other kernel has for one that ends with a copy of a block: that of the line where the function is called."""
        assert copy.inlined_at is not None
        source = self.program.sources.get(copy.inlined_at.path) or self.program.source
        line, column = source.line_and_column(copy.inlined_at.start)
        name = f"call_line{line}"
        name = name if name not in taken else f"{name}_column{column}"
        taken.add(name)
        return name

    def words(self) -> Iterator[str]:
        """A paragraph a chain."""
        for chain in self.chains:
            yield f"{position_of(self.program, chain.blocks[-1])}: a chain of {len(chain.blocks)} blocks"
            for group in chain.plan.groups:
                lines = [self._line(chain.blocks[number]) for number in group.members]
                others = [self._line(chain.blocks[number]) for number in group.results[:-1]]
                stored = f", which stores what {_listed(others)} makes, too" if others else ""
                yield f"  {_listed(lines)}: {'one kernel' if len(lines) > 1 else 'a kernel'}{stored}"
            for edge in chain.plan.kept:
                maker, reader = (self._line(chain.blocks[number]) for number in (edge.maker, edge.reader))
                yield f"  what line {maker} makes goes to line {reader} through memory: {edge.reason}"
        for value in self.observed:
            yield f"{position_of(self.program, value.block)}: `{value.name}` is kept: {value.reason}"

    def _line(self, compute: nodes.Compute) -> int:
        source = self.program.sources.get(compute.span.path) or self.program.source
        return source.line_and_column(compute.span.start)[0]


def _listed(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _place(block: nodes.Compute) -> tuple[str, int]:
    span = block.inlined_at or block.span
    return str(span.path), span.start


def _chains(program: ProgramFile, handed: Sequence[HandedOn], built: dict[Span, BuiltKernel]) -> list[ShownChain]:
    makers: dict[int, dict[str, HandedOn]] = {}
    for value in handed:
        for reader, name in value.readers:
            makers.setdefault(id(reader), {})[name] = value
    waiting = {id(value.block) for value in handed if value.readers}
    readers = {id(reader): reader for value in handed for reader, _ in value.readers}
    chains: list[ShownChain] = []
    ready: set[int] = set()
    for reader in sorted(readers.values(), key=_place):
        if id(reader) not in waiting:
            chain = _Chain(program, makers, built, ready)
            chain.add(reader, 1)
            ready |= {id(block) for block in chain.blocks}
            if len(chain.blocks) > 1:
                chains.append(ShownChain(chain.blocks, plan_chain(chain.links, program.blocks.options)))
    return chains


@define(eq=False)
class _Chain:
    """A chain gathered from its last block. `ready`: blocks that chains before it have run."""

    program: ProgramFile
    makers: Mapping[int, Mapping[str, HandedOn]]
    built: Mapping[Span, BuiltKernel]
    ready: Set[int]
    blocks: list[nodes.Compute] = field(factory=list)
    links: list[Link] = field(factory=list)
    numbers: dict[int, int] = field(factory=dict)

    def add(self, block: nodes.Compute, readers: int) -> int:
        """The block's number; `readers` as a link counts them."""
        handed: dict[str, int] = {}
        for name, maker in self.makers.get(id(block), {}).items():
            if id(maker.block) in self.numbers:
                handed[name] = self.numbers[id(maker.block)]
            elif id(maker.block) not in self.ready:
                handed[name] = self.add(maker.block, 0 if maker.seen else len(maker.readers))
        kernel = self.built[block.span]
        entries = {entry.name: entry for entry in block.inputs}
        outside: dict[str, Hashable] = {}
        for name in dict.fromkeys((*entries, *captured_names(block))):
            value = entries[name].value if name in entries else None
            known = value is None or isinstance(value, nodes.Name)
            outside[name] = ("name", value.name if isinstance(value, nodes.Name) else name) if known else ("value", id(block), name)
        self.numbers[id(block)] = len(self.blocks)
        self.blocks.append(block)
        outside = {name: origin for name, origin in outside.items() if name not in handed}
        self.links.append(Link(kernel, outside, handed, self._device(block), readers))
        return len(self.blocks) - 1

    def _device(self, block: nodes.Compute) -> Hashable:
        kernel = block.kernel
        return (kernel.device, kernel.fallback) if kernel is not None else None
