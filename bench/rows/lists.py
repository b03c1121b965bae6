"""A signed `GET` of a page of payments or payouts, compared with creating one transaction.

`--growth` shows whether the page takes more CPU time in a long history.
"""

from contextlib import AbstractAsyncContextManager

from bench.frame import PRODUCT, Row
from bench.rows.verify import Paths, read
from bench.stage import Stage

LARGE_PAGE = 100


def payments(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _pages(stage, "list-payments", "payment")


def payouts(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _pages(stage, "list-payouts", "payout")


def _pages(stage: Stage, name: str, table: str) -> AbstractAsyncContextManager[Row]:
    path = f"/api/v1/{table}s"
    pages = {PRODUCT: _always(path), f"page of {LARGE_PAGE}": _always(f"{path}?limit={LARGE_PAGE}")}
    return read(stage, name, table, pages)


def _always(path: str) -> Paths:
    return lambda _trx_ids: [path]
