"""The engine's memory is what others read and write: records of data and of outputs, and the containers inside."""

import pytest

from compiler.hir.layout import numpy_dtype
from quantdsl.engine import interface, layout
from quantdsl.engine.build import engine_module
from quantdsl.native.slab import Slab
from runtime.replay.events import EVENT
from runtime.replay.outputs.records import LAYOUTS


def test_events_lie_as_readers_write_them() -> None:
    assert numpy_dtype(layout.EVENT).fields == EVENT.fields and numpy_dtype(layout.EVENT).itemsize == EVENT.itemsize


@pytest.mark.parametrize("table", list(LAYOUTS))
def test_records_lie_as_outputs_take_them(table: str) -> None:
    own = numpy_dtype(layout.COLLECTED[table])
    assert own.fields == LAYOUTS[table].fields and own.itemsize == LAYOUTS[table].itemsize


def test_containers_lie_as_those_who_use_them_think() -> None:
    fields = dict(layout.ENGINE_STATE.fields)
    assert fields["slots"] == Slab(layout.ORDER, layout.OPEN).type
    for capacity in (layout.REQUESTS, layout.REPORTS, layout.LOTS):
        assert capacity & capacity - 1 == 0
    assert layout.REQUESTS == layout.REPORTS


def test_the_engine_exports_what_the_interface_says() -> None:
    functions = engine_module().functions
    for name, signature in (interface.OF_ENGINE | interface.OF_RUNNER).items():
        made = functions[name]
        assert [p.type for p in made.parameters] == list(signature.whole().values()), name
        assert made.results == signature.results, name
