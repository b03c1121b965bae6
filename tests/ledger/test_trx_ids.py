import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.ledger import trx_ids


@given(st.integers(0, trx_ids.MERCHANT_ID_MAX))
def test_a_transaction_id_contains_its_merchant(merchant_id: int) -> None:
    trx_id = trx_ids.new(merchant_id)
    assert re.fullmatch(r"TXN[0-9A-Z]{30}", trx_id)
    assert trx_ids.merchant_of(trx_id) == merchant_id


def test_transaction_ids_are_ordered_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first = trx_ids.new(9)
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 2_000_000)
    assert first < trx_ids.new(1)


def test_transaction_ids_are_unique() -> None:
    assert len({trx_ids.new(1) for _ in range(10_000)}) == 10_000


@given(st.text("TXN01AZaz-_ ñ字😀"))
def test_any_text_is_either_a_valid_id_or_none(text: str) -> None:
    assert trx_ids.merchant_of(text) is None
