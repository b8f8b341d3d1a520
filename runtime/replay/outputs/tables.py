"""The tables of a run as Arrow has them: a column a field, with names, times and decimals instead of numbers of all kinds."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from runtime.extras import required
from runtime.replay.bad_rows import BadRow
from runtime.replay.events import MarketSide
from runtime.replay.outputs.records import LAYOUTS, LogRow, OrderOption, OrderState, Records, RunDescription, Tif, mask_text
from runtime.replay.outputs.scales import Scales

NAMES = (*LAYOUTS, "bad_rows")

pa = required("pyarrow")

_TIME = pa.timestamp("ns", tz="UTC")


class Tables(Scales):
    """Turns records of one run into Arrow tables. Each has the same columns whatever is in it. Raises PackageMissing on import."""

    def __init__(self, run: RunDescription) -> None:
        super().__init__(run)
        self.handlers = list(run.handlers)
        self._metadata = {f"currency of {instrument.name}": instrument.currency for instrument in run.instruments}
        self._makers: dict[str, Callable[[Records], dict[str, Any]]] = {
            "orders": self._orders,
            "fills": self._fills,
            "rejects": self._rejects,
            "pnl": self._pnl,
            "latency": self._latency,
        }

    def of_records(self, name: str, records: Records) -> Any:
        """The table of so many records of a layout."""
        return self._table(self._makers[name](records))

    def of_bad_rows(self, rows: Iterable[BadRow]) -> Any:
        listed = list(rows)
        return self._table(
            {
                "file": pa.array([row.file for row in listed], pa.string()),
                "row": pa.array([None if row.binary else row.row for row in listed], pa.uint64()),
                "byte": pa.array([row.row if row.binary else None for row in listed], pa.uint64()),
                "column": pa.array([row.column or None for row in listed], pa.string()),
                "text": pa.array([row.text for row in listed], pa.string()),
                "why": pa.array([row.why.value for row in listed], pa.string()),
                "detail": pa.array([row.detail or None for row in listed], pa.string()),
            }
        )

    def of_log(self, rows: Iterable[LogRow]) -> Any:
        listed = list(rows)
        return self._table(
            {
                "ts": _times([row.ts for row in listed]),
                "row": pa.array([row.row for row in listed], pa.uint64()),
                "line": pa.array([row.line for row in listed], pa.uint32()),
                "text": pa.array([row.text for row in listed], pa.string()),
            }
        )

    def _table(self, columns: dict[str, Any]) -> Any:
        return pa.table(columns).replace_schema_metadata(self._metadata)

    def _orders(self, r: Records) -> dict[str, Any]:
        return {
            "id": pa.array(r["id"]),
            "ts": _times(r["ts"]),
            "done": _times(r["done"], r["state"] >= OrderState.FILLED),
            "instrument": _words(r["instrument"], self.names),
            "side": _words(r["side"], _labels(MarketSide)),
            "qty": self.qty.column(r["qty"], r["instrument"]),
            "limit": self.price.column(r["limit"], r["instrument"], (r["options"] & OrderOption.MARKET) == 0),
            "filled": self.qty.column(r["filled"], r["instrument"]),
            "tif": _words(r["tif"], _labels(Tif)),
            "state": _words(r["state"], _labels(OrderState)),
            "post_only": pa.array((r["options"] & OrderOption.POST_ONLY) != 0),
            "reduce_only": pa.array((r["options"] & OrderOption.REDUCE_ONLY) != 0),
        }

    def _fills(self, r: Records) -> dict[str, Any]:
        return {
            "ts": _times(r["ts"]),
            "order": pa.array(r["order"]),
            "instrument": _words(r["instrument"], self.names),
            "side": _words(r["side"], _labels(MarketSide)),
            "price": self.price.column(r["price"], r["instrument"]),
            "qty": self.qty.column(r["qty"], r["instrument"]),
            "liquidity": _words(r["maker"], ["taker", "maker"]),
            "fee": self.money.column(r["fee"], r["instrument"]),
            "realized": self.money.column(r["realized"], r["instrument"]),
            "position": self.qty.column(r["position"], r["instrument"]),
        }

    def _rejects(self, r: Records) -> dict[str, Any]:
        masks, places = np.unique(r["mask"], return_inverse=True)
        return {
            "ts": _times(r["ts"]),
            "order": pa.array(r["order"]),
            "instrument": _words(r["instrument"], self.names),
            "side": _words(r["side"], _labels(MarketSide)),
            "qty": self.qty.column(r["qty"], r["instrument"]),
            "limit": self.price.column(r["limit"], r["instrument"], (r["options"] & OrderOption.MARKET) == 0),
            "mask": pa.array(r["mask"]),
            "rules": _words(places, [mask_text(int(mask)) for mask in masks]),
        }

    def _pnl(self, r: Records) -> dict[str, Any]:
        return {
            "ts": _times(r["ts"]),
            "instrument": _words(r["instrument"], self.names),
            "position": self.qty.column(r["position"], r["instrument"]),
            "mark": self.mark.column(r["mark2"], r["instrument"], r["marked"] != 0),
            **{name: self.money.column(r[name], r["instrument"]) for name in ("realized", "unrealized", "fees", "net")},
        }

    def _latency(self, r: Records) -> dict[str, Any]:
        return {
            "ts": _times(r["ts"]),
            "row": pa.array(r["row"]),
            "handler": _words(r["handler"], self.handlers),
            "calls": pa.array(r["calls"]),
            "ns": pa.array(r["ns"]),
        }


# Arrow's casts need `pyarrow.compute`, whose import takes longer than writing most runs: columns are made of their buffers instead.


def _times(ns: Any, there: Any = None) -> Any:
    """`there`: which aren't null."""
    plain = pa.array(np.asarray(ns, np.int64), mask=None if there is None else ~there)
    return pa.Array.from_buffers(_TIME, len(plain), plain.buffers())


def _words(places: Any, words: Sequence[str]) -> Any:
    """The word at each place."""
    texts = [word.encode() for word in words]
    sizes = np.array([len(text) for text in texts], np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes[places]) if len(texts) else [])).astype(np.int64)
    if offsets[-1] >= 2**31:
        raise OverflowError("the texts of a column take more than 2 GiB")
    data = b"".join([texts[place] for place in np.asarray(places).tolist()])
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data))


def _labels(of: type[IntEnum]) -> list[str]:
    return [member.name.lower() for member in sorted(of)]
