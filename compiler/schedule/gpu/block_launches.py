"""Loops over blocks as launches: each loop of place "block" at the top of a function is one, and one thread does what stands between."""

from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.module import HirFunction, LaunchBounds
from compiler.schedule.gpu.tiles.distribute import distribute
from compiler.schedule.launches import Launch, Launches
from compiler.schedule.stages import Around, Group, Start, stages_of
from compiler.schedule.table import Table
from runtime.records import evolve


def field_launches(field: HirFunction, table: Table) -> Launches:
    """The launches of a field on blocks of threads: one for each loop over blocks, and one thread for what stands between. Raises
    `NotPlaceable`."""
    return launches_of_blocks(distribute(field, table))


def launches_of_blocks(function: HirFunction) -> Launches:
    around = stages_of(function, lambda op: isinstance(op, For) and op.place == "block")
    zeros = frozenset(position for position, op in enumerate(around.shared) if op.zeros)
    stages = tuple(_launch(around, group, number) for number, group in enumerate(around.groups))
    return Launches(stages, tuple(around.memories), zeros=zeros)


def _launch(around: Around, group: Group, number: int) -> Launch:
    loop = group.loop
    threads = loop.mark("threads") if loop is not None else 1
    assert isinstance(threads, int)
    start = Start(around, str(number), (threads, 1, 1))
    b = start.out.body
    start.take(group, b)
    if loop is None:
        start.copy.all(group.body, b)
    else:
        start.values[loop.variable] = b.index(Affine.of(start.number.name), loop.variable.name)
        start.copy.all(loop.body.body, b)
    start.give(group, b)
    launch = start.finish((Affine((), 1) if loop is None else loop.high,), 1)
    info, resident = launch.function.kernel_info, loop.mark("resident") if loop is not None else None
    if info is not None and isinstance(resident, int):
        launch.function.kernel_info = info = evolve(info, launch_bounds=LaunchBounds(threads, resident))
    cluster = loop.mark("cluster") if loop is not None else None
    if info is not None and isinstance(cluster, int):
        launch.function.kernel_info = evolve(info, cluster=(cluster, 1, 1))
    return launch
