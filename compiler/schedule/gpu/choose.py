"""The launches of a kernel on a GPU: its field on blocks of threads where that has a table, else one thread an element; a nest that
wasn't lifted on blocks that share its inner loops, else one thread an iteration of what analysis proves independent."""

from collections.abc import Mapping

from attrs import evolve

from compiler.analysis.dependence import analyse
from compiler.hir.module import HirFunction
from compiler.passes.quotients import quotients_outside
from compiler.schedule.gpu.attention_roles import AttentionDistributing
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.copied_operands import copied_product
from compiler.schedule.gpu.distribute import field_launches, launches_of_blocks
from compiler.schedule.gpu.facts import NOTHING, Facts, specialised
from compiler.schedule.gpu.fragment_operands import fragment_product
from compiler.schedule.gpu.fragment_pipeline import FragmentDistributing
from compiler.schedule.gpu.logistic import with_logistics
from compiler.schedule.gpu.maps import map_launches
from compiler.schedule.gpu.narrow import loosen
from compiler.schedule.gpu.scans import scan_launches, scan_plan
from compiler.schedule.gpu.tables import block_table
from compiler.schedule.gpu.warpgroup_attention import warpgroup_attention
from compiler.schedule.gpu.warpgroup_operands import warpgroup_product
from compiler.schedule.gpu.warpgroup_products import WarpgroupDistributing
from compiler.schedule.gpu.windows import WindowDistributing, window_product
from compiler.schedule.gpu.workspaces import copied_before
from compiler.schedule.launches import Launches
from compiler.schedule.nest import marked
from compiler.schedule.place import NotPlaceable, place
from compiler.schedule.threads import launches_of, thread_table


def settled(field: HirFunction | None, facts: Facts, sizes: Mapping[str, int]) -> Facts:
    """The facts of a launch with these sizes, and how a product is cut that it would be a choice for all sizes alike: for these sizes
    themselves. There are few ways to cut, so kernels stay few. Raises `Impossible` for annotations that no schedule can keep."""
    if field is None or facts.architecture != "sm_90a":
        return facts
    known, units, about = specialised(field, facts)
    exact = {**sizes, **{unit.name: sizes[unit.size] // unit.unit for unit in units}}
    about = evolve(about, magnitudes=tuple(sorted(exact.items())), exact=frozenset(exact))
    product = warpgroup_product(known, about)
    if product is None and (copied := copied_product(known, about)) is not None:
        product = copied.product
    return facts if product is None else evolve(facts, tiling=product.tiling)


def launches_for(nest: HirFunction, field: HirFunction | None, facts: Facts = NOTHING) -> Launches:
    """The launches of a nest (form A), which `field` is the field of if it has one, where these facts hold. Raises `NotPlaceable`,
    `Impossible` for annotations that no schedule can keep."""
    if field is not None:
        known, units, about = specialised(quotients_outside(field), facts)
        loosen(known)
        known = with_logistics(known)
        attention = warpgroup_attention(known, about)
        if attention is not None:
            try:
                return evolve(launches_of_blocks(AttentionDistributing(known, attention).run()), units=units)
            except NotPlaceable:
                pass
        product = warpgroup_product(known, about)
        if product is not None:
            try:
                made = launches_of_blocks(WarpgroupDistributing(known, product).run())
                return evolve(made, units=units, words=(*product.tiling.words(),))
            except NotPlaceable:
                pass
        copied = copied_product(known, about) if product is None else None
        if copied is not None:
            try:
                made = launches_of_blocks(WarpgroupDistributing(copied.field, copied.product).run())
                return evolve(copied_before(known, copied.copies, about, made), units=units, words=(*copied.product.tiling.words(),))
            except NotPlaceable:
                pass
        fragments = fragment_product(known, about)
        if fragments is not None:
            try:
                placing = FragmentDistributing(known, fragments)
                return evolve(launches_of_blocks(placing.run()), units=units, words=placing.table.reasons)
            except NotPlaceable:
                pass
        scan = scan_plan(known, about)
        if scan is not None:
            try:
                return evolve(scan_launches(known, scan), units=units)
            except NotPlaceable:
                pass
        try:
            mapped = map_launches(known, about)
        except NotPlaceable:
            mapped = None
        if mapped is not None:
            return evolve(mapped, units=units)
        window = window_product(known)
        if window is not None and (table := block_table(window.field, about)) is not None:
            try:
                return evolve(launches_of_blocks(WindowDistributing(window, table).run()), units=units)
            except NotPlaceable:
                pass
        table = block_table(known, about)
        if table is not None:
            try:
                return evolve(field_launches(known, table), units=units)
            except NotPlaceable:
                pass
        try:
            return evolve(launches_of(place(known, thread_table(known))), units=units)
        except NotPlaceable:
            pass
    found = analyse(nest)
    try:
        return nest_launches(nest, found)
    except NotPlaceable:
        function, _ = marked(nest, found)
        return launches_of(function)
