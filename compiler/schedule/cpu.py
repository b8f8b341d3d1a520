"""The CPU's schedule of a kernel: lifted to a field and placed by a table where that can be done, else the nest as written with
its loops marked. What was chosen is kept in words for `--emit schedule`."""

from compiler.analysis.dependence import analyse
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.instruction import InstructionFamily, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.machines.cpu import CpuMachine
from compiler.passes.analysed import AnalysedKernel
from compiler.passes.checked_together import checked_together
from compiler.passes.joined_axes import computed, joined_axes
from compiler.passes.narrow_ints import narrow_ints
from compiler.passes.products_of_ints import products_of_ints
from compiler.passes.reads_inside import reads_inside
from compiler.passes.repeated_reads import repeated_reads
from compiler.passes.rows_in_vectors import rows_in_vectors
from compiler.passes.short_rows import short_rows
from compiler.passes.turns_at_once import turns_at_once
from compiler.passes.wide_terms import wide_terms
from compiler.schedule.computed_again import PlacingAgain
from compiler.schedule.disjoint_rows import where_disjoint
from compiler.schedule.dot_tiles import PlacingDots
from compiler.schedule.down_columns import PlacingColumns, columns_of
from compiler.schedule.field import table_for
from compiler.schedule.lines import Lines, in_step
from compiler.schedule.lines_along import lines_along
from compiler.schedule.loop_wishes import in_words, wishes_of
from compiler.schedule.materialise import materialise
from compiler.schedule.nest import marked
from compiler.schedule.packed import in_blocks, packing_for
from compiler.schedule.padded_windows import PlacingWindows, padded_windows
from compiler.schedule.panels import PlacingPacked
from compiler.schedule.place import place
from compiler.schedule.region import NotPlaceable
from compiler.schedule.running import refusal, scans_of
from compiler.schedule.steps_at_once import steps_at_once
from compiler.schedule.table import Unheeded
from compiler.schedule.tile_sizes import tile_of
from compiler.schedule.turned_operands import PlacingTurned, turned_operands
from compiler.schedule.windows_in_place import PlacingInPlace
from runtime.records import evolve, field, frozen
from runtime.tuples import as_tuple


@frozen
class Scheduled:
    """A function that the CPU backend can emit, and the choices in words."""

    function: HirFunction
    words: tuple[str, ...] = field(default=(), converter=as_tuple)
    unheeded: tuple[Unheeded, ...] = ()
    """What of the program's annotations it doesn't follow."""


def schedule_for_cpu(kernel: AnalysedKernel, machine: CpuMachine) -> Scheduled:
    """Derives the schedule of a kernel from its field (form F) or, where it has none or that can't be placed, from its nest (form A)."""
    reason, marching = kernel.reason, None
    if kernel.field is not None:
        try:
            _require_placeable(kernel.field)
            if scans_of(kernel.field) and (marching := in_step(kernel.nest, kernel.facts))[1]:
                raise NotPlaceable("its lines march in step")
            lines = columns_of(kernel.nest, kernel.field, kernel.facts)
            joined, products = (kernel.field, {}) if lines else joined_axes(kernel.field)
            scheduled = _placed(kernel, joined, lines, machine)
            return evolve(scheduled, function=computed(scheduled.function, products))
        except NotPlaceable as refusal:
            reason = str(refusal)
    nest, lines_in_words = marching or in_step(kernel.nest, kernel.facts)
    if not lines_in_words:
        nest, lines_in_words = lines_along(kernel.nest, kernel.facts, machine)
    facts = kernel.facts
    if not lines_in_words:
        nest, facts, lines_in_words = steps_at_once(nest, facts)
        if (twice := where_disjoint(nest, facts)) is not nest:
            nest, facts = twice, analyse(twice)
    function, words, unheeded = marked(nest, facts)
    if kernel.nest.kernel_info is not None and kernel.nest.kernel_info.tile:
        unheeded = (*unheeded, Unheeded("tile", "", f"the nest keeps its loops, because {reason}"))
    words = (f"the nest as written, because {reason}", *lines_in_words, *words, *in_words(kernel.nest, wishes_of(kernel.nest), unheeded))
    function = checked_together(turns_at_once(repeated_reads(function)))
    return Scheduled(rows_in_vectors(short_rows(function, machine), machine), words, unheeded)


def _placed(kernel: AnalysedKernel, field: HirFunction, lines: tuple[Lines, ...], machine: CpuMachine) -> Scheduled:
    """The field placed by a table. Raises NotPlaceable."""
    plain = products_of_ints(narrow_ints(wide_terms(reads_inside(field))))
    field = materialise(plain)
    table = table_for(field, machine, tiled=False)
    packing = packing_for(field, table, machine)
    if packing is None and tile_of(field):
        table = table_for(field, machine)
    elif packing is not None:
        packing, unheeded = in_blocks(field, packing)
        table = evolve(table, unheeded=(*table.unheeded, *unheeded))
    words = (*str(table).split("\n"), *in_words(field, field.loops, table.unheeded))
    if packing is not None:
        placing = (PlacingDots if packing.dots else PlacingPacked) if packing.padded is None else PlacingInPlace
        return Scheduled(placing(field, table, packing).run(), (*words, *str(packing).split("\n")), table.unheeded)
    if windows := padded_windows(field, table):
        return Scheduled(PlacingWindows(field, table, windows).run(), (*words, str(windows)), table.unheeded)
    if not tile_of(field) and (turned := turned_operands(plain, field, table, machine)):
        return Scheduled(PlacingTurned(field, table, turned).run(), (*words, str(turned)), table.unheeded)
    if not tile_of(field) and lines:
        words = (*words, *(f"{each} where they are many" for each in lines))
        return Scheduled(PlacingColumns(field, table, kernel.nest, lines).run(), words, table.unheeded)
    again = materialise(plain, functions=False)
    if len(again.body.body) < len(field.body.body) and again.axes == field.axes:
        words = (*words, "  functions of elements are computed again where more are kept than caches hold")
        return Scheduled(PlacingAgain(field, again, table).run(), words, table.unheeded)
    return Scheduled(place(field, table), words, table.unheeded)


def _require_placeable(field: HirFunction) -> None:
    assert field.form is Form.FIELD
    stored = {op.mem for op in field.body.body if isinstance(op, Store)}
    for op in field.body.body:
        if isinstance(op, Load) and op.mem in stored and op.mem.source is None and not _updates_in_place(field, op.mem):
            raise NotPlaceable(f"`{op.mem.name}` is read and written")
        if op.family is InstructionFamily.LIBRARY:
            raise NotPlaceable(f"`{op.name}` has no nest")
    if reason := refusal(field):
        raise NotPlaceable(reason)


def _updates_in_place(field: HirFunction, mem: Value) -> bool:
    """Whether each element of the memory is read once, where it is written, in a field that is one pass over one set of axes: a tile
    is then read as a whole before any of it is overwritten."""
    loads = [op for op in field.body.body if isinstance(op, Load) and op.mem is mem]
    stores = [op for op in field.body.body if isinstance(op, Store)]
    own = [store for store in stores if store.mem is mem]
    if len(loads) != 1 or len(own) != 1 or loads[0].index != own[0].index or own[0].where is not None:
        return False
    if any(isinstance(op, Reduce | Contract | Scan) for op in field.body.body):
        return False
    scope = field.scope()
    axes = [{name for name, _ in scope.axes_of(*store.index)} for store in stores]
    return all(used == axes[0] == set(field.axes) for used in axes)
