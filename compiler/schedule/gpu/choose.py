"""The launches of a kernel on a GPU: its field on blocks of threads where that has a table, else one thread an element; a nest that
wasn't lifted on blocks that share its inner loops, else one thread an iteration of what analysis proves independent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import inf, prod

from compiler.analysis.dependence import analyse
from compiler.analysis.normal_forms import with_better_orders
from compiler.hir.core import Contract, Scan
from compiler.hir.module import HirFunction
from compiler.hir.shared_memory import laid_out, shared_uses
from compiler.machines.units.unit import Issue
from compiler.passes.counting_up import counting_up
from compiler.passes.diagonals import diagonals
from compiler.passes.narrow_counts import narrow_counts
from compiler.passes.quotients import quotients_outside
from compiler.passes.repeated_reads import reads_once
from compiler.passes.short_turns import without_short_turns
from compiler.passes.split_roles import puts_ahead, split_roles
from compiler.passes.terms import with_roots_of_terms
from compiler.passes.without_branches import without_branches
from compiler.schedule import running
from compiler.schedule.gpu.attention.attention_tiles import AttentionTiles, rotated_products
from compiler.schedule.gpu.attention.chain import HANDING, ChainBlock, product_chain
from compiler.schedule.gpu.attention.launch import AttentionLaunch
from compiler.schedule.gpu.attention.on_warpgroups import WarpgroupBlock, attention_on_warpgroups
from compiler.schedule.gpu.attention.on_warpgroups import read_roles as attention_of_roles
from compiler.schedule.gpu.attention.on_warps import RESIDENT, WarpsBlock, attention_on_warps
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.cuts.checked import checked_before, without_checks
from compiler.schedule.gpu.cuts.cuts import cuts, products_of
from compiler.schedule.gpu.cuts.cutting import one_after_the_other
from compiler.schedule.gpu.cuts.workspaces import copied_before, copied_behind
from compiler.schedule.gpu.derived.nest import most_terms, thread_nest
from compiler.schedule.gpu.derived.search import derived_launches, lanes_of, near_tables
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.facts import NOTHING, Facts, specialised
from compiler.schedule.gpu.library.scans import marches, scan_launches, scan_plan
from compiler.schedule.gpu.loop_wishes import ROLES, is_serial, unheeded_of, unheeded_of_nest
from compiler.schedule.gpu.maps.maps import map_launches
from compiler.schedule.gpu.maps.one_row import in_one_row
from compiler.schedule.gpu.price.block_digits import BlockDigits
from compiler.schedule.gpu.price.block_work import NotPriced
from compiler.schedule.gpu.price.launch_price import LaunchPrice, price_of, sizes_of
from compiler.schedule.gpu.products.best_product import product_of, products_together, with_computed
from compiler.schedule.gpu.products.boxed_launch import BoxedProductLaunch
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, boxed_product
from compiler.schedule.gpu.products.candidates import candidates, left_open
from compiler.schedule.gpu.products.computed_operands import computed_operands
from compiler.schedule.gpu.products.copied_operands import CopiedProduct, copied_product, copied_sums
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.products.product_roles import product_of_roles
from compiler.schedule.gpu.products.product_sums import sum_of_loads, with_signed_sums
from compiler.schedule.gpu.products.product_tiles import ProductTiles
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.gpu.products.warp_launch import WarpProductLaunch
from compiler.schedule.gpu.products.warp_product import product_of_role, warp_tiles
from compiler.schedule.gpu.reuse.few_columns import few_column_launches
from compiler.schedule.gpu.reuse.few_rows import few_rows, product_of_tiles
from compiler.schedule.gpu.reuse.few_rows_blocks import FewRowsBlocks
from compiler.schedule.gpu.reuse.register_tiles import register_launches
from compiler.schedule.gpu.rewrites.digit_dims import with_dims_of_digits
from compiler.schedule.gpu.rewrites.digits_of_axes import with_digits_of_axes
from compiler.schedule.gpu.rewrites.flat_sums import with_flat_sum
from compiler.schedule.gpu.rewrites.interleaved import interleaved
from compiler.schedule.gpu.rewrites.logistic import with_logistics
from compiler.schedule.gpu.rewrites.narrow import loosen
from compiler.schedule.gpu.rewrites.residue_parts import residue_parts, residues_together
from compiler.schedule.gpu.rewrites.short_rows import with_short_rows_joined
from compiler.schedule.gpu.rewrites.side_by_side import joined_axes
from compiler.schedule.gpu.rewrites.single_elements import without_single_elements, without_single_taps
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.gpu.tiles.priced_blocks import block_launches, tables_to_try
from compiler.schedule.gpu.tiles.rows_together import rows_together
from compiler.schedule.launches import Launch, Launches, Product, Unit
from compiler.schedule.loop_wishes import in_words, wishes_of
from compiler.schedule.nest import marked
from compiler.schedule.place import place
from compiler.schedule.region import NotPlaceable
from compiler.schedule.threads import launches_of, thread_table
from compiler.schedule.tile_sizes import tile_of, untiled
from runtime.records import evolve, frozen


@frozen
class LaunchChoice:
    """The facts of a launch that settle how a product is cut, and about how many nanoseconds it takes then, where that is known."""

    facts: Facts
    nanoseconds: float | None = None

    @property
    def cut(self) -> Tiling | ThreadTable | BlockDigits | None:
        """What was chosen."""
        return self.facts.tiling or self.facts.table or self.facts.digits


def choices(field: HirFunction | None, facts: Facts, sizes: Mapping[str, int]) -> tuple[LaunchChoice, ...]:
    """The facts of a launch with these sizes, and how a product is cut that it would be a choice for all sizes alike: for these sizes
    themselves. There are few ways to cut, so kernels stay few. First what is estimated to end first, then what may be as fast as that;
    for all else there is but one. Raises `Impossible` for annotations that no schedule can keep."""
    alone = (LaunchChoice(facts),)
    plain = field is None or (facts.machine.unit(Issue.WARPGROUP) is None and not most_terms(field))
    if field is None or plain or (prepared := _prepared(field, facts)) is None:
        return alone
    known: HirFunction | None = prepared.field
    if residue_parts(prepared.field, prepared.facts) is not None:
        known = residues_together(prepared.field)
    elif near := near_tables(prepared.field, prepared.facts):
        return tuple(LaunchChoice(evolve(facts, table=table), nanoseconds) for table, nanoseconds in near)
    elif tables := _tables_offered(field, facts):
        return tuple(LaunchChoice(evolve(facts, digits=digits), nanoseconds) for digits, nanoseconds in tables)
    exact = dict(sizes)
    exact |= {unit.name: sizes[unit.size] // unit.unit for unit in prepared.units}
    for size in prepared.products:
        exact[size.name] = size.value(exact)
    about = evolve(prepared.facts, magnitudes=tuple(sorted(exact.items())), exact=frozenset(exact))
    product = None if known is None else _product_of(known, about)
    ways = () if product is None else candidates(product.ways)
    return tuple(LaunchChoice(evolve(facts, tiling=way.tiling), way.nanoseconds) for way in ways) or alone


def _product_of(field: HirFunction, facts: Facts) -> BoxedProduct | None:
    """The product for warpgroups that a field becomes, or its last part."""
    product = product_of(field, facts)
    if product is not None or not products_of(field):
        return product
    parts = _cheapest(field, facts)
    return _product_of(parts[-1], facts) if parts else None


def launches_for(nest: HirFunction, field: HirFunction | None, facts: Facts = NOTHING) -> Launches:
    """The launches of a nest (form A), which `field` is the field of if it has one, where these facts hold. Raises `NotPlaceable`,
    `Impossible` for annotations that no schedule can keep."""
    if field is not None and (launches := _of_field(field, facts)) is not None:
        return launches
    nest = diagonals(without_short_turns(without_branches(reads_once(counting_up(nest)))))
    nest_facts = analyse(nest)
    try:
        launches = nest_launches(nest, nest_facts, facts)
    except NotPlaceable:
        function, _, _ = marked(nest, nest_facts)
        launches = launches_of(function)
    unheeded = tuple(unheeded_of_nest(nest, [launch.function for launch in launches.launches]))
    return evolve(launches, words=(*launches.words, *in_words(nest, wishes_of(nest), unheeded)), unheeded=unheeded)


def _shared_in_words(field: HirFunction, launches: Launches) -> Iterator[str]:
    """What a cap of shared memory comes to."""
    if field.kernel_info is not None and (cap := field.kernel_info.shared_memory_bytes):
        most = max((laid_out(shared_uses(launch.function)) for launch in launches.launches), default=0)
        yield f"`@shared({cap})` is followed: a block has {most} bytes"


def _of_field(field: HirFunction, facts: Facts) -> Launches | None:
    """By the first way that takes the field; None where its checks can't be made apart. Raises `Impossible`."""
    prepared = _prepared(field, facts)
    if prepared is None:
        return None
    for launches in _ways_to(prepared.field, prepared.facts, (_threads,) if is_serial(prepared.field) else WAYS):
        try:
            launches = launches if prepared.checks is None else checked_before(prepared.checks, launches, prepared.facts)
        except NotPlaceable:
            continue
        tiled = {axis for name, axis in launches.heeded if name == "tile"}
        unheeded = (
            *unheeded_of(prepared.field, [launch.function for launch in launches.launches], launches.heeded),
            *untiled(prepared.field, tiled, "this schedule has no tiles along it"),
        )
        words = (*launches.words, *in_words(prepared.field, prepared.field.loops, unheeded), *_shared_in_words(prepared.field, launches))
        stages = tuple(rows_together(stage) if isinstance(stage, Launch) else stage for stage in launches.stages)
        products = (*prepared.products, *launches.products)
        return evolve(launches, stages=stages, words=words, units=prepared.units, products=products, unheeded=unheeded)
    return None


@frozen(eq=False)
class _Prepared:
    """A field with sizes as units of what divides them, its checks apart, axes that stand side by side as one, and the facts of that."""

    field: HirFunction
    facts: Facts
    units: tuple[Unit, ...]
    products: tuple[Product, ...]
    checks: HirFunction | None


def _prepared(field: HirFunction, facts: Facts) -> _Prepared | None:
    """None where the field's checks can't be made apart."""
    if field.kernel_info is not None and (cap := field.kernel_info.shared_memory_bytes):
        facts = evolve(facts, machine=facts.machine.sharing(cap))
    field = narrow_counts(field, partial(most_elements, facts=facts))
    known, units, about = specialised(with_flat_sum(with_signed_sums(quotients_outside(with_better_orders(field, facts.about)))), facts)
    try:
        derived = _is_derived(known, about)
        if not derived and (digits := with_digits_of_axes(known)) is not known and _is_derived(digits, about):
            known, derived = digits, True
        if derived and _is_derived(joined := with_short_rows_joined(known), about):
            known = joined
        known, checks = without_checks(without_single_taps(known if derived else with_dims_of_digits(known)), about)
    except NotPlaceable:
        return None
    row = None if most_terms(known) else in_one_row(known, about)
    joined, products, further = row or joined_axes(known, about)
    if not (known.loops or tile_of(known)) and _is_better(joined, further, known, about):
        known, about = joined, further
    else:
        products = ()
    loosen(known)
    return _Prepared(with_roots_of_terms(with_logistics(known)), about, units, products, checks)


def _is_derived(field: HirFunction, facts: Facts) -> bool:
    """Whether what a thread computes follows from the field and a table."""
    return (nest := thread_nest(field)) is not None and lanes_of(nest, facts) is not None


def specialised_field(field: HirFunction, facts: Facts) -> HirFunction | None:
    """The field as it is scheduled; None where its checks can't be made apart."""
    return None if (prepared := _prepared(field, facts)) is None else prepared.field


def _is_better(joined: HirFunction, further: Facts, field: HirFunction, facts: Facts) -> bool:
    """Whether a field's axes should be made one: a sum of products takes several as they are, if warpgroups take it."""
    if not any(isinstance(op, Contract) for op in field.body.body):
        return True
    alone = sum_of_loads(field) is not None and product_of(field, facts) is None
    return boxed_product(field, facts) is None and (alone or boxed_product(joined, further) is not None)


def _ways_to(field: HirFunction, facts: Facts, attempts: Sequence["Way"]) -> Iterator[Launches]:
    """What the field becomes in these ways, those that take it."""
    for attempt in attempts:
        try:
            launches = attempt(field, facts)
        except NotPlaceable:
            continue
        if launches is not None and launches.fits(facts.machine.block_shared):
            yield launches


@lru_cache(maxsize=128)
def _tables_offered(field: HirFunction, facts: Facts) -> list[tuple[BlockDigits, float]]:
    """Block tables that a device may try. They are priced once for all sizes with these facts, of which there are few."""
    prepared = _prepared(field, facts)
    tables = [] if prepared is None else tables_to_try(prepared.field, prepared.facts)
    if prepared is None or not tables:
        return []
    first = next((way for way in WAYS if next(_ways_to(prepared.field, prepared.facts, (way,)), None) is not None), None)
    return tables if first is block_launches else []


def _attention(field: HirFunction, facts: Facts) -> Launches | None:
    attention = attention_on_warpgroups(field, facts)
    if attention is None:
        return None
    tiles = AttentionTiles(field, attention).run()
    rotated = rotated_products(tiles)
    roles = split_roles(rotated)
    placing = AttentionLaunch(*attention_of_roles(roles, facts), WarpgroupBlock)
    return _of_forms(placing, {"tile": tiles, "rotate": rotated, "split-roles": roles})


def _attention_on_warps(field: HirFunction, facts: Facts) -> Launches | None:
    attention = attention_on_warps(field, facts)
    placing = None if attention is None else AttentionLaunch(field, attention, WarpsBlock, RESIDENT)
    return None if placing is None else evolve(launches_of_blocks(placing.run()), words=placing.table.reasons)


def _chain(field: HirFunction, facts: Facts) -> Launches | None:
    chain = product_chain(field, facts)
    return None if chain is None else launches_of_blocks(AttentionLaunch(field, chain, ChainBlock, HANDING).run())


def _product(field: HirFunction, facts: Facts) -> Launches | None:
    product = boxed_product(field, facts)
    return None if product is None else _cut(field, product)


def _together(field: HirFunction, facts: Facts) -> Launches | None:
    """All sums of a tile in one launch, unless launches of their own were chosen or are estimated to end first."""
    if facts.tiling is not None and facts.tiling.products == 1:
        return None
    product = products_together(field, facts)
    if product is None and (copied := copied_sums(field, facts)) is not None:
        return _of_copies(field, copied, facts)
    return None if product is None or (product.ways and product.ways[0].tiling.products == 1) else _cut(field, product)


def _copied(field: HirFunction, facts: Facts) -> Launches | None:
    copied = copied_product(field, facts) if boxed_product(field, facts) is None else None
    return None if copied is None else _of_copies(field, copied, facts)


def _of_copies(field: HirFunction, copied: CopiedProduct, facts: Facts) -> Launches:
    launches = _cut(copied.field, copied.product)
    if copied.behind is not None:
        launches = copied_behind(copied.field, copied.behind, facts, launches)
    return copied_before(field, copied.copies, facts, launches)


def _computed(field: HirFunction, facts: Facts) -> Launches | None:
    """With operands computed first, on whatever tensor cores there are."""
    copied = with_computed(field, facts)
    if copied is not None:
        return _of_copies(field, copied, facts)
    computed = computed_operands(field, facts)
    if computed is None:
        return None
    fragments = _fragments(computed.field, facts)
    return None if fragments is None else copied_before(field, computed.made, facts, fragments)


def _in_parts(
    field: HirFunction,
    facts: Facts,
    parts: Sequence[HirFunction],
    words: str = "parts",
    joined: Callable[[Sequence[Launches]], list[Launches]] = list,
) -> Launches | None:
    """The parts of a field, launched one after the other, or as `joined` says; None where one can't be. How a product is cut was chosen for
    the last."""
    known: list[Launches] = []
    for part in reversed(parts):
        about = evolve(facts, tiling=None) if known else facts
        launches = next(_ways_to(part, about, WAYS), None)
        if launches is None:
            return None
        if (row := in_one_row(part, about)) is not None:
            flat, products, further = row
            ways = (evolve(way, products=products) for way in _ways_to(flat, further, (map_launches,)))
            launches = min(launches, *ways, key=lambda way: _price(way, about).nanoseconds)
        known.insert(0, launches)
    return one_after_the_other(field, joined(known), words)


def _cheapest(field: HirFunction, facts: Facts) -> tuple[HirFunction, ...]:
    """The parts of a field that are cheaper than the field whole, which FMAs compute then; none where no parts are."""
    known = list(cuts(field, facts)) if prod(map(facts.about, field.axes.values())) > FEW else []
    if not known:
        return ()
    about = evolve(facts, tiling=None, quick=True)
    launch, products = facts.rates.launch, products_of(field).values()
    terms = sum(prod(facts.about(field.axes[axis]) for axis in (*one.m, *one.n, *one.k, *one.batch)) for one in products)
    whole = LaunchPrice(launch + terms / (FMAS * facts.processors * facts.rates.clock), 0.0) if products else _whole(field, about)
    if SURE * whole.nanoseconds <= whole.least + launch - AHEAD:
        return ()
    made = [(_price(launches, facts).nanoseconds, parts) for parts in known if (launches := _in_parts(field, about, parts)) is not None]
    nanoseconds, best = min(made, key=lambda each: each[0], default=(inf, ()))
    if products and nanoseconds >= SURE * whole.nanoseconds:
        whole = _whole(field, about)
    if whole.nanoseconds * NEAR < nanoseconds < SURE * whole.nanoseconds and not facts.quick:
        whole = _whole(field, evolve(about, quick=False))
    return best if nanoseconds < SURE * whole.nanoseconds else ()


def _whole(field: HirFunction, facts: Facts) -> LaunchPrice:
    """Of the field in one launch, if it can be that."""
    launches = next(_ways_to(field, facts, WHOLE), None)
    if launches is None:
        return LaunchPrice(inf, 0.0)
    price = _price(launches, facts)
    idle = len(launches.launches) == 1 and launches.launches[0].blocks(sizes_of(launches, facts)) < 2 * facts.processors
    return evolve(price, nanoseconds=price.nanoseconds * IDLE) if idle else price


def _price(launches: Launches, facts: Facts) -> LaunchPrice:
    """Of launches; what has no price multiplies matrices, which is the best that there is."""
    behind = LaunchPrice((len(launches.stages) - 1) * -AHEAD, 0.0)
    try:
        return price_of(launches, facts) + behind
    except NotPriced:
        return LaunchPrice(facts.rates.launch * len(launches.stages), 0.0) + behind


def _cut_in_parts(field: HirFunction, facts: Facts) -> Launches | None:
    """Several fields one behind the other, where that is cheaper."""
    parts = () if facts.table is not None or facts.digits is not None else _cheapest(field, facts)
    return _in_parts(field, facts, parts, f"cut at its reductions into {len(parts)} parts, one behind the other") if parts else None


def _by_residues(field: HirFunction, facts: Facts) -> Launches | None:
    """A field for each residue, where taps of sums depend on that."""
    parts = residue_parts(field, facts)
    if not parts:
        return None
    together = residues_together(field)
    launches = None if together is None else next(_ways_to(together, facts, (_product, _copied)), None)
    if launches is not None:
        return evolve(launches, words=("residues have as many taps each: they are further axes of one sum", *launches.words))
    words = f"taps depend on residues: {len(parts)} sums with taps of their own, one after the other"
    return _in_parts(field, evolve(facts, tiling=None, table=None), parts, words, interleaved)


def _cut(field: HirFunction, product: BoxedProduct) -> Launches:
    words = (*product.tiling.words(), *left_open(product.ways))
    tiled = {("tile", axis) for axis in (*product.a.axes, *product.b.axes, product.sum)}
    tiles = ProductTiles(field, product.cut).run()
    roles = split_roles(tiles)
    placing = BoxedProductLaunch(*product_of_roles(roles, product.processors))
    launches = _of_forms(placing, {"tile": tiles, "split-roles": roles}, product.ways[0].nanoseconds if product.ways else None)
    return evolve(launches, words=words, heeded=frozenset({*tiled, ROLES}))


def _fragments(field: HirFunction, facts: Facts) -> Launches | None:
    cut = warp_tiles(field, facts)
    if cut is None:
        return None
    tiles = ProductTiles(field, cut).run()
    role = puts_ahead(tiles)
    placing = WarpProductLaunch(*product_of_role(role, facts.machine))
    tiled = frozenset(("tile", axis) for axis in (*(axis for axes in cut.tiles for axis in axes), cut.walked[-1]))
    return evolve(_of_forms(placing, {"tile": tiles, "split-roles": role}), words=placing.table.reasons, heeded=tiled)


def _of_forms(placing: MatrixBlocks, forms: Mapping[str, HirFunction], nanoseconds: float | None = None) -> Launches:
    """The launch that was made of these forms, by passes of these names."""
    launches = launches_of_blocks(placing.run())
    stages = tuple(evolve(launch, forms=(*forms.items(),), nanoseconds=nanoseconds) for launch in launches.launches)
    return evolve(launches, stages=stages)


def _few_rows(field: HirFunction, facts: Facts) -> Launches | None:
    if (product := few_rows(field, facts)) is None:
        return None
    tiles = ProductTiles(field, product.cut).run()
    return evolve(_of_forms(FewRowsBlocks(*product_of_tiles(tiles, facts.machine)), {"tile": tiles}), words=product.words)


def _scan(field: HirFunction, facts: Facts) -> Launches | None:
    return None if (scan := scan_plan(field, facts)) is None else scan_launches(field, scan)


def _of_vector(field: HirFunction, facts: Facts) -> Launches | None:
    """A product of one row, or of one column, as the reduction that it is."""
    left = without_single_elements(field, facts)
    if left is field or any(isinstance(op, Contract) for op in left.body.body):
        return None
    return next(_ways_to(left, facts, REDUCTIONS), None)


def _threads(field: HirFunction, facts: Facts) -> Launches:
    if any(isinstance(op, Scan) for op in field.body.body) and (is_serial(field) or marches(field, facts)):
        raise NotPlaceable("a running value keeps its order in the loops as written")
    if reason := running.refusal(field):
        raise NotPlaceable(reason)
    return launches_of(place(field, thread_table(field)))


FMAS = 128
"""Of a multiprocessor in a cycle."""
FEW = 1 << 16
"""Points of a field's axes that are computed before a second launch begins."""
SURE, NEAR = 0.92, 0.25
"""Of a whole field's price: what that of its parts has to be below; and from where on other tables of the whole are looked for first."""
IDLE = 1.2
"""Times its price that a launch takes whose blocks leave some multiprocessors without work, or with half as much as others (H200)."""
AHEAD = 1500.0
"""Nanoseconds of a launch that pass beside the launch before it (H200)."""

Way = Callable[[HirFunction, Facts], Launches | None]

REDUCTIONS: tuple[Way, ...] = (register_launches, derived_launches, block_launches)
"""What a product of vectors becomes."""

WHOLE: tuple[Way, ...] = (
    _scan,
    register_launches,
    derived_launches,
    map_launches,
    _of_vector,
    block_launches,
    _threads,
)
"""What a field becomes that matrix units don't take, the narrowest first."""

WAYS: tuple[Way, ...] = (
    _attention,
    _attention_on_warps,
    _chain,
    _by_residues,
    _product,
    few_column_launches,
    _together,
    _few_rows,
    _copied,
    _fragments,
    _computed,
    _cut_in_parts,
    *WHOLE,
)
"""What a field may become, the narrowest first. Each gives None, or raises `NotPlaceable`, for what it doesn't take."""
