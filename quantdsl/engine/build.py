"""The engine as one module: book, market, engine and loop. It is the same for every program, and compiled once for a machine."""

from compiler.hir.module import HirModule
from compiler.hir.native_build import ModuleBuilder
from quantdsl.elaborate.engine_sources import define_source
from quantdsl.engine.book import define_book
from quantdsl.engine.clock import define_clock
from quantdsl.engine.delivery import define_delivery
from quantdsl.engine.exchange import define_exchange
from quantdsl.engine.handlers import declare_handlers, define_handlers
from quantdsl.engine.inside import MARKET, declare
from quantdsl.engine.interface import OF_PROGRAM
from quantdsl.engine.loop import define_loop
from quantdsl.engine.queries import define_queries


def engine_module() -> HirModule:
    """Imports handlers and `risk.asked`, exports what `interface.py` says."""
    program = ModuleBuilder("engine")
    declare_handlers(program)
    asked = OF_PROGRAM["risk.asked"]
    program.imported("risk.asked", asked.whole(), asked.results)
    for file in ("reports", "account", "orders"):
        define_source(program, file)
    declare(program, MARKET)
    define_book(program)
    define_exchange(program)
    define_queries(program)
    define_handlers(program)
    define_clock(program)
    define_delivery(program)
    define_loop(program)
    return program.module
