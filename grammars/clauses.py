"""The clauses of QuantDSL's `currency`, `instrument` and `risk` blocks, each as its form: tables only.

In a form `<slot>` is an expression, `<slot:a|b>` one of the words a and b, other words and `->` stand for themselves, and what is in
`[ ]` may be left out."""

import re

from runtime.records import frozen


@frozen
class Clause:
    """`form` says what stands behind the clause's word, `example` shows it whole."""

    form: str
    example: str
    required: bool = False


CLAUSES: dict[str, dict[str, Clause]] = {
    "currency": {
        "scale": Clause("<digits>", "scale 8", required=True),
    },
    "instrument": {
        "tick": Clause("<size>", "tick 0.25", required=True),
        "lot": Clause("<size>", "lot 1", required=True),
        "multiplier": Clause("<factor>", "multiplier 50"),
        "session": Clause("<hours> <zone:UTC>", 'session "13:30".."20:00" UTC'),
        "fee": Clause("maker <maker> [per <maker_unit:lot>] taker <taker> [per <taker_unit:lot>]", "fee maker -0.5bps taker 2bps"),
    },
    "risk": {
        "max_order_qty": Clause("<limit>", "max_order_qty 10lots"),
        "max_notional": Clause("<limit>", "max_notional 2_500_000 USD"),
        "price_collar": Clause("<limit> [of <reference>]", "price_collar 50bps of mid"),
        "max_position": Clause("<limit>", "max_position 20lots"),
        "max_open_orders": Clause("<limit> [notional <notional>]", "max_open_orders 8"),
        "rate": Clause("[all] <limit> per <window>", "rate 50 per 1s"),
        "max_loss": Clause("<limit> [per <span:session|run>] [-> <action:kill|reducing>]", "max_loss 5_000 USD per session -> kill"),
        "max_drawdown": Clause("<limit> [per <span:session|run>] [-> <action:kill|reducing>]", "max_drawdown 5_000 USD -> reducing"),
        "stale_data": Clause("<limit>", "stale_data 500ms"),
        "duplicate_id": Clause("<action:reject> [among <count>]", "duplicate_id reject"),
        "self_trade": Clause("<action:reject|cancel_resting|cancel_both>", "self_trade reject"),
    },
}

_SLOT = re.compile(r"<[^<>]*>")

LINKS = frozenset(
    word for clauses in CLAUSES.values() for clause in clauses.values() for word in re.findall(r"[a-z_]+", _SLOT.sub("", clause.form))
)
"""The words that stand for themselves inside clauses."""
