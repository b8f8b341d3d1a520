"""The launches of a kernel on a GPU: its field on blocks of threads where that has a table, else one thread an element; a nest that
wasn't lifted on blocks that share its inner loops, else one thread an iteration of what analysis proves independent."""

from compiler.analysis.dependence import analyse
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.distribute import field_launches
from compiler.schedule.gpu.tables import block_table
from compiler.schedule.launches import Launches
from compiler.schedule.nest import marked
from compiler.schedule.place import NotPlaceable, place
from compiler.schedule.threads import launches_of, thread_table


def launches_for(nest: HirFunction, field: HirFunction | None) -> Launches:
    """The launches of a nest (form A), which `field` is the field of if it has one. Raises `NotPlaceable`."""
    table = block_table(field) if field is not None else None
    if field is not None and table is not None:
        try:
            return field_launches(field, table)
        except NotPlaceable:
            pass
    if field is not None:
        try:
            return launches_of(place(field, thread_table(field)))
        except NotPlaceable:
            pass
    facts = analyse(nest)
    try:
        return nest_launches(nest, facts)
    except NotPlaceable:
        function, _ = marked(nest, facts)
        return launches_of(function)
