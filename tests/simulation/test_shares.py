"""The model of shares finds wrong, missing and forgotten ones."""

from dataclasses import replace

import pytest

from tests.simulation import shares
from tests.simulation.divided import RELEASE, ShareRecord, Split
from tests.simulation.facts import Kind, Observation, Operation

SHARE = ShareRecord(2, "T9", 1, "T1", amount=300, withheld=0, returned=0, short=0)


def _paid(hold: str | int = "none") -> Operation:
    split = Split({2: "30"}, "owner", hold, shares={2: 300})
    return Operation(1, Kind.PAYMENT, "order", amount=1000, trx_id="T1", split=split)


def _refund(payment: Operation, amount: int = 500) -> Operation:
    return Operation(1, Kind.REFUND, "back", amount=amount, trx_id="T2", payment=payment)


def _seen(*records: ShareRecord, **statuses: str) -> Observation:
    return Observation(shares=list(records), statuses={"T1": "success", **statuses})


def _problems(seen: Observation, *operations: Operation) -> str:
    return " ".join(shares.check(operations or (_paid(),), seen))


def test_the_share_of_a_paid_payment_is_as_expected() -> None:
    assert not _problems(_seen(SHARE))
    assert not _problems(Observation(statuses={"T1": "pending"}))


def test_a_missing_wrong_or_unexpected_share_is_found() -> None:
    assert "expected {2: 300}" in _problems(_seen())
    assert "expected {2: 300}" in _problems(_seen(replace(SHARE, amount=299)))
    assert "nobody expects" in _problems(Observation(shares=[SHARE], statuses={"T1": "pending"}))


def test_a_refund_takes_a_share_back_in_proportion_unless_it_failed() -> None:
    taken, both = replace(SHARE, returned=150), (_paid(), _refund(_paid()))
    assert not _problems(_seen(taken, T2="success"), *both)
    assert "expected 150" in _problems(_seen(SHARE, T2="pending"), *both)
    assert "expected 0" in _problems(_seen(taken, T2="failed"), *both)


@pytest.mark.parametrize(
    ("is_released", "withheld", "is_found"),
    [(False, 300, False), (False, 0, True), (True, 300, True), (True, 0, False), (None, 0, False)],
)
def test_a_held_share_is_released_once_its_owner_asks(
    is_released: bool | None, withheld: int, is_found: bool
) -> None:
    payment = _paid(RELEASE)
    assert payment.split is not None
    payment.split.is_released = is_released
    problems = _problems(_seen(replace(SHARE, withheld=withheld)), payment)
    assert ("holds" in problems) is is_found


def test_the_owner_gives_what_the_receiver_has_and_claims_what_it_is_short_of() -> None:
    seen = _seen(replace(SHARE, returned=150, short=40), replace(SHARE, withheld=300))
    assert shares.available(seen) == {1: -150 - 40 - 300, 2: 150}
    assert shares.withheld(seen) == {1: 40, 2: 300}


def test_a_share_without_an_event_is_found() -> None:
    listed = {(2, "T9"): {"e1": "Share Released"}, (1, "T9"): {}}
    assert not list(shares.check_messages([SHARE], listed, {(2, "T9"): {"e1": "Share Released"}}))
    assert len(list(shares.check_messages([SHARE], {}, {}))) == 1
