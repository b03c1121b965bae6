"""The explanation of a payout's attempts, in the code, on the command line and on the pages."""

import pytest

from manilla.lookup.story import payout_story
from manilla.payouts import attempts, explanation
from manilla.payouts.explanation import AttemptState, chosen_because, explain_attempts
from manilla.routing.choice import RailSnapshot
from manilla.web import timeline
from tests.payouts.routing.routed import REFUSED, RoutedPayouts
from tests.payouts.routing.test_choice import chosen, rail


@pytest.mark.parametrize(
    ("rails", "because"),
    [
        ([rail("a")], explanation.ONLY),
        ([rail("a"), rail("b", 2, is_down=True)], explanation.ONLY),
        ([rail("a", 1, is_down=True), rail("b", 2), rail("c", 3)], explanation.FIRST),
        ([rail("a", 1), rail("b", 2, is_failing=True)], explanation.FIRST),
        ([rail("a", 1, is_failing=True), rail("b", 2)], explanation.OTHERS_FAIL),
        ([rail(each, 1, is_failing=True) for each in "ab"], explanation.FIRST),
    ],
)
def test_the_reason_of_a_choice_is_said(rails: list[RailSnapshot], because: str) -> None:
    assert chosen_because(chosen(*rails)) == because


async def test_each_attempt_says_why_it_was_made_and_why_it_ended(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    key = routed.services.db, routed.payer.merchant.new.id, trx_id
    first, second = await explain_attempts(*key)
    assert (first.provider, first.chosen_because) == ("providera", explanation.FIRST)
    assert first.state == AttemptState.REJECTED
    assert "Not enabled" in (first.dead_because or "")
    assert (second.provider, second.state) == ("providerb", AttemptState.CURRENT)
    assert second.skipped["providera"] == "already tried for this payout"
    story = await payout_story(*key)
    assert story is not None
    assert story.attempts == [first, second]
    for_merchant = str(timeline.of_payout(story))
    assert "The bank transfer was rejected. We sent it by another route." in for_merchant
    for hidden in ("Not enabled", "providera", "providerb", "Not chosen"):
        assert hidden not in for_merchant
    assert "providera: rejected the transfer: Not enabled" in str(
        timeline.of_payout(story, is_internal=True)
    ).replace("Providera", "providera")


async def test_a_payout_with_a_fixed_rail_has_no_attempts(routed: RoutedPayouts) -> None:
    trx_id = await routed.payer.pay_out("a")
    merchant_id = routed.payer.merchant.new.id
    assert await explain_attempts(routed.services.db, merchant_id, trx_id) == []


async def test_an_attempt_on_a_rail_that_we_did_not_choose_is_explained(
    routed: RoutedPayouts,
) -> None:
    trx_id = await routed.pay_out()
    key = routed.services.db, routed.payer.merchant.new.id, trx_id
    await attempts.adopt(*key, "providerc")
    first, second = await explain_attempts(*key)
    assert (first.provider, first.state) == ("providera", AttemptState.ELSEWHERE)
    assert (second.provider, second.state) == ("providerc", AttemptState.CURRENT)
    assert (second.chosen_because, second.skipped) == (explanation.FOUND, {})
