"""What QuantDSL keeps of a program while its functions are written."""

from collections.abc import Mapping

from compiler.lowering.native.context import FunctionContext
from quantdsl.check.world import Market, World
from quantdsl.elaborate.engine_needs import EngineNeeds
from runtime.records import define


@define(eq=False)
class MarketNeeds:
    """Its markets; `engine`: what the strategy being written has to do with the engine."""

    world: World
    engine: EngineNeeds | None = None


def frame_of(market: Market, in_strategy: bool = False) -> Mapping[str, object]:
    """What is particular to the checker's frame where `I` and `C` stand for this market."""
    return {"market": market, "in_strategy": in_strategy}


def own(c: FunctionContext) -> MarketNeeds:
    found = c.elaboration.own
    assert isinstance(found, MarketNeeds)
    return found
