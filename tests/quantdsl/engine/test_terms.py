"""Clauses of markets and risk blocks as exact numbers."""

from fractions import Fraction

import pytest

from compiler.diagnostics import ZyntaxError
from compiler.source import Source
from compiler.typed_ast import nodes
from quantdsl import nodes as quant
from quantdsl.check.program import check_program
from quantdsl.engine.risk import Collar, Loss, RiskRules
from quantdsl.engine.terms import market_settings, risk_rules, session_of
from quantdsl.parse import parse_source

HEAD = 'currency USD { scale 8 }\ninstrument ES : USD { tick 0.25 lot 0.5 multiplier 50 session "13:30".."20:00:30" UTC }\n'
POINT = 25 * 50 * 10**8 // 200
HOURS = ((13 * 60 + 30) * 60 * 10**9, (20 * 3600 + 30) * 10**9)


def rules(clauses: str, values: dict[str, int | float] | None = None) -> RiskRules:
    program = parse_source(Source("t.qdsl", f"{HEAD}risk Desk for ES {{ {clauses} }}"))
    world = check_program(program).world
    risk = next(s for s in program.statements if isinstance(s, quant.Risk))

    def valued(node: nodes.Expression) -> int | float:
        assert isinstance(node, nodes.Name) and values is not None
        return values[node.name]

    return risk_rules(risk, world.instruments["ES"], valued)


def settings(clauses: str) -> dict[str, int | float | bool]:
    program = parse_source(Source("t.qdsl", f"currency USD {{ scale 8 }}\ninstrument ES : USD {{ tick 0.25 lot 1 {clauses} }}"))
    made = next(s for s in program.statements if isinstance(s, quant.Instrument))
    return market_settings(made, check_program(program).world.instruments["ES"])


def test_every_clause() -> None:
    assert rules(
        "max_order_qty 10lots max_notional 2_500_000 USD price_collar 50bps of mid max_position 20.5 max_open_orders 8 notional 500_000.25 USD "
        "rate all 50 per 1s max_loss 5_000 USD per session -> reducing max_drawdown 7_000 USD stale_data 500ms duplicate_id reject among 77 "
        "self_trade cancel_both"
    ) == RiskRules(
        POINT,
        None,
        max_order_qty=10,
        max_notional=2_500_000 * 10**8,
        price_collar=Collar(bps=Fraction(50)),
        max_position=41,
        max_open_orders=8,
        max_open_notional=50_000_025 * 10**6,
        rate=(50, 10**9),
        rate_all=True,
        max_loss=Loss(5_000 * 10**8, session=True, kills=False),
        max_drawdown=Loss(7_000 * 10**8),
        stale_data=5 * 10**8,
        duplicate_id=77,
        self_trade="cancel_both",
    )


@pytest.mark.parametrize(
    ("clause", "collar"),
    [
        ("50bps", Collar(bps=Fraction(50))),
        ("0.5pct of last", Collar(bps=Fraction(50), of="last")),
        ("12.5bps of 4_000.25", Collar(bps=Fraction(25, 2), of=16_001)),
        ("3ticks of mid", Collar(ticks=3)),
        ("NEAR of last", Collar(bps=Fraction(1, 10), of="last")),
        ("FEW", Collar(ticks=7)),
    ],
)
def test_collars(clause: str, collar: Collar) -> None:
    assert rules(f"price_collar {clause}", {"NEAR": 0.00001, "FEW": 7}).price_collar == collar


def test_what_constants_give_is_taken_as_it_is_stored() -> None:
    found = rules("max_position LIMIT max_loss MOST rate N per W", {"LIMIT": 9, "MOST": 10**10, "N": 3, "W": 10**6})
    assert (found.max_position, found.max_loss, found.rate) == (9, Loss(10**10), (3, 10**6))


def test_ids_are_remembered_only_where_orders_have_them() -> None:
    assert rules("duplicate_id reject").duplicate_id == 4096
    program = parse_source(Source("t.qdsl", HEAD + "risk Desk for ES { duplicate_id reject }"))
    risk = next(s for s in program.statements if isinstance(s, quant.Risk))
    instrument = check_program(program).world.instruments["ES"]
    assert risk_rules(risk, instrument, lambda node: 0, HOURS, client_ids=False) == RiskRules(POINT, HOURS)
    assert risk_rules(None, instrument, lambda node: 0, HOURS) == RiskRules(POINT, HOURS)


def test_sessions() -> None:
    program = parse_source(Source("t.qdsl", HEAD))
    assert session_of(next(s for s in program.statements if isinstance(s, quant.Instrument))) == HOURS
    assert settings('session "22:00".."24:00" UTC')["session_end"] == 0


def test_fees() -> None:
    names = [f"{who}.{part}" for who in ("maker", "taker") for part in ("numerator", "denominator", "per_lot")]
    found = settings("fee maker -0.5bps taker 0.02pct")
    assert [found[name] for name in names] == [-1, 20_000, 0, 1, 5_000, 0]
    found = settings("fee maker -0.25 per lot taker 1.5 USD per lot")
    assert [found[name] for name in names] == [0, 1, -25_000_000, 0, 1, 150_000_000]
    found = settings("")
    assert [found[name] for name in names] == [0, 1, 0, 0, 1, 0] and found["tick_value"] == 25_000_000


@pytest.mark.parametrize(
    ("clauses", "code", "message"),
    [
        ('session "13:30".."13:30" UTC', "0705", "a session that ends as it begins has no time in it"),
        ('session "13:70".."20:00" UTC', "0203", '"13:70" is no time of day'),
        ('session "13:30".."24:01" UTC', "0203", '"24:01" is no time of day'),
        ('session "13:30" UTC', "0203", "a session goes from one time of day to another"),
        ("fee maker 1 taker 2bps", "0203", "the fee of a maker is in `bps` or `pct` of a fill's value, or money `per lot`"),
        ("fee maker 1bps taker 2bps per lot", "0203", "the fee of a taker per lot is an amount of `USD`"),
        ("fee maker 1bps taker 0.000000001 per lot", "0702", "the fee of a taker is no whole number of money units"),
    ],
)
def test_markets_that_make_no_sense(clauses: str, code: str, message: str) -> None:
    with pytest.raises(ZyntaxError) as error:
        settings(clauses)
    assert (error.value.diagnostics[0].code, error.value.diagnostics[0].message) == (code, message)


@pytest.mark.parametrize(
    ("clauses", "values", "code", "message"),
    [
        ("max_position LIMIT", {"LIMIT": 0}, "0705", "the limit of `max_position` is not above zero"),
        ("rate 5 per W", {"W": -1}, "0705", "the window of `rate` is not above zero"),
        ("rate 5_000_000 per 1s", {}, "0109", "a `rate` of 5000000 is valid, but not supported yet"),
        ("duplicate_id reject among 5_000_000", {}, "0109", "`duplicate_id` among 5000000 is valid, but not supported yet"),
    ],
)
def test_rules_that_cannot_be(clauses: str, values: dict[str, int | float], code: str, message: str) -> None:
    with pytest.raises(ZyntaxError) as error:
        rules(clauses, values)
    assert (error.value.diagnostics[0].code, error.value.diagnostics[0].message) == (code, message)
