"""The texts that describe a transaction's events to merchants."""

from datetime import UTC, datetime

import pytest

from manilla.ledger.timeline import TimelineEvent
from manilla.payments.choice import Reason
from manilla.payouts.attempts import AttemptEnd
from manilla.web import plain_events

FOR_ADMINISTRATORS = "providera: rejected the transfer: Not enabled. Sent by providerb."


def _detail(event: str, **facts: str) -> str:
    now = datetime.now(UTC)
    step = TimelineEvent(1, now, event, "pending", "pending", FOR_ADMINISTRATORS, facts)
    return plain_events.detail(step)


@pytest.mark.parametrize("ended_as", AttemptEnd)
def test_each_end_of_an_attempt_has_a_sentence_without_the_rail(ended_as: AttemptEnd) -> None:
    said = _detail("moved_to_another_rail", ended_as=ended_as)
    assert "The bank transfer" in said
    assert "provider" not in said


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_to_choose_a_gateway_has_a_sentence(reason: Reason) -> None:
    said = _detail("gateway_chosen", gateway="Card", reason=reason, after="USSD")
    assert said.startswith("Card: ")
    assert ("USSD" in said) is (reason is Reason.NEXT)


def test_a_gateway_without_a_known_reason_has_no_sentence() -> None:
    assert _detail("gateway_chosen", gateway="Card") == ""


def test_a_refund_is_named_and_its_outcome_said_in_our_words() -> None:
    facts = {"refund": "TXN2", "amount": "NGN 5.00", "reason": "Wrong size"}
    assert _detail("refund_started", **facts) == "TXN2, NGN 5.00: Wrong size"
    assert _detail("refund_completed", **facts) == (
        "TXN2, NGN 5.00. The refund was paid to the customer."
    )


@pytest.mark.parametrize(
    "event",
    ["moved_to_another_rail", "gateway_chosen", "charge_declined", "refund_started"]
    + ["refund_completed", "return_failed", "delivered", "unheard_of"],
)
def test_an_event_without_facts_shows_nothing_of_its_details(event: str) -> None:
    """A process that still runs the previous version stores no facts with an event."""
    assert "provider" not in _detail(event)
