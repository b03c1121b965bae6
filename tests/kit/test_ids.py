import re
import time

from hypothesis import given
from hypothesis import strategies as st

from manilla.kit import ids


@given(st.integers(0, ids.MERCHANT_ID_MAX))
def test_a_transaction_id_says_whose_it_is(merchant_id: int) -> None:
    trx_id = ids.new_trx_id(merchant_id)
    assert re.fullmatch(r"TXN[0-9A-Z]{30}", trx_id)
    assert ids.merchant_of(trx_id) == merchant_id


def test_transaction_ids_are_ordered_by_time() -> None:
    first = ids.new_trx_id(9)
    time.sleep(0.002)
    assert first < ids.new_trx_id(1)


def test_transaction_ids_do_not_repeat() -> None:
    assert len({ids.new_trx_id(1) for _ in range(10_000)}) == 10_000


@given(st.text())
def test_any_text_is_either_an_id_or_none(text: str) -> None:
    assert ids.merchant_of(text) is None


def test_keys_are_long_and_plain() -> None:
    assert re.fullmatch(r"test_[0-9a-z]{32}", ids.new_key("test_"))
