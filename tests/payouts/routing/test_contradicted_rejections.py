"""A payout is not refunded if a signed webhook reports that a rail has the transfer.

In these tests the rail accepts the transfer, but rejects the request. The webhook arrives at
different moments.
"""

import pytest

from manilla.cases.cases import CaseKind
from manilla.kit.database.connections import Database
from manilla.payouts import decisions, left_rails
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import Payout
from manilla.providers import claims
from manilla.providers.rails import Rails
from manilla.transfers import reports
from tests.payouts.payout_merchant import PayoutMerchant
from tests.payouts.routing import stalling
from tests.payouts.routing.routed import AUTO, BAD_ACCOUNT, REFUSED, RoutedPayouts
from tests.payouts.routing.stalling import StalledJob
from tests.payouts.test_states import messages, send_webhook
from tests.support.client import Site

FIRST, SECOND, THIRD = "providera", "providerb", "providerc"
DEBITED, FULL = 900_000, 1_000_000
# Each row has a method, the rail's response, and the worker's step at which the webhook arrives.
WINDOWS = [
    (AUTO, REFUSED, stalling.BEFORE_SEND),
    (AUTO, REFUSED, stalling.AFTER_SEND),
    # The webhook arrives while the next rail resolves the account name.
    (AUTO, REFUSED, stalling.AFTER_ROUTE),
    (AUTO, BAD_ACCOUNT, stalling.BEFORE_SETTLE),
    ("a", REFUSED, stalling.BEFORE_SEND),
    ("a", REFUSED, stalling.AFTER_SEND),
    ("a", REFUSED, stalling.BEFORE_SETTLE),
]


class Rejected:
    """A payout that a rail rejects, although the rail has accepted the transfer."""

    def __init__(self, routed: RoutedPayouts, site: Site) -> None:
        self.routed = routed
        self.payer = routed.payer
        self.site = site
        self.runner = stalling.runner(routed.services)

    async def stall(self, trx_id: str, step: str) -> StalledJob:
        worker = StalledJob(self.runner, await self.routed.claim(trx_id), step)
        assert await worker.reached()
        return worker

    async def pays(self, rail: str, trx_id: str) -> None:
        """Makes the rail deliver the transfer, and sends the rail's signed webhook."""
        await self.routed.send_directly(rail, trx_id)
        await self.payer.settle(rail, trx_id, "success")
        assert (await send_webhook(self.site, rail, trx_id, "success")).status == 200

    async def is_paid_by(self, trx_id: str, rail: str) -> None:
        """Checks that this rail has completed the payout, and that there was no refund."""
        await self.payer.check_until(trx_id, "completed")
        assert await self.routed.provider(trx_id) == f"provider{rail}"
        assert await messages(self.payer, trx_id) == ["Payout Completed"]
        assert await self.payer.balance() == DEBITED
        for other in "abc":
            paid = await self.payer.account(f"clearing:provider{other}")
            assert (paid > 0) is (other == rail)

    async def is_open_at(self, trx_id: str, rail: str) -> Payout:
        payout = await self.payer.payout(trx_id)
        assert (payout.status, payout.provider) == ("pending", f"provider{rail}")
        assert await self.payer.balance() == DEBITED
        return payout


@pytest.fixture
async def rejected(routed: RoutedPayouts, site: Site) -> Rejected:
    for rail in "abc":
        await routed.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    return Rejected(routed, site)


@pytest.mark.parametrize(("method", "answer", "step"), WINDOWS)
async def test_a_rejection_that_a_webhook_contradicts_refunds_nothing(
    rejected: Rejected, method: str, answer: dict[str, object], step: str
) -> None:
    routed = rejected.routed
    trx_id = await (routed.pay_out() if method == AUTO else rejected.payer.pay_out(method))
    if step != stalling.BEFORE_SEND:
        await routed.plan("a", answer)
    worker = await rejected.stall(trx_id, step)
    await rejected.pays("a", trx_id)
    if step == stalling.BEFORE_SEND:
        await routed.plan("a", answer)
    await worker.resume()
    await rejected.is_open_at(trx_id, "a")
    assert set(await routed.transfers(trx_id)) == {"a"}
    await rejected.is_paid_by(trx_id, "a")


async def test_a_webhook_between_the_move_and_the_next_send_stops_the_send(
    rejected: Rejected, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed = rejected.routed
    await routed.plan("a", REFUSED)
    trx_id = await routed.pay_out()
    worker = await rejected.stall(trx_id, stalling.AFTER_ROUTE)
    await worker.resume()
    assert await routed.rails(trx_id) == [FIRST, SECOND]

    # The webhook arrives after the next worker has queried the rail that rejected the transfer.
    requery = left_rails.requery_reported

    async def then_it_pays(db: Database, rails: Rails, payout: Payout) -> bool:
        may_be_paid = await requery(db, rails, payout)
        monkeypatch.setattr(left_rails, "requery_reported", requery)
        await rejected.pays("a", trx_id)
        return may_be_paid

    monkeypatch.setattr(left_rails, "requery_reported", then_it_pays)
    await rejected.runner._do(await routed.claim(trx_id))
    assert set(await routed.transfers(trx_id)) == {"a"}
    await rejected.is_paid_by(trx_id, "a")


@pytest.mark.parametrize("ending", ["rejected", "rejected, another rail is left", "failed"])
async def test_a_failure_on_the_next_rail_returns_the_payout_to_the_rail_that_has_it(
    rejected: Rejected, ending: str
) -> None:
    routed = rejected.routed
    await routed.plan("a", REFUSED)
    trx_id = await routed.pay_out()
    first = await rejected.stall(trx_id, stalling.AFTER_ROUTE)
    await first.resume()
    if ending == "failed":
        await rejected.runner._do(await routed.claim(trx_id))
        await rejected.payer.settle("b", trx_id, "failed")
        await rejected.pays("a", trx_id)
        await rejected.payer.check_now(trx_id)
    else:
        await routed.plan("b", REFUSED if "another" in ending else BAD_ACCOUNT)
        second = await rejected.stall(trx_id, stalling.AFTER_SEND)
        await rejected.pays("a", trx_id)
        await second.resume()
    assert await rejected.payer.balance() == DEBITED
    assert THIRD not in await routed.rails(trx_id)
    await rejected.is_paid_by(trx_id, "a")


async def test_a_payout_is_not_sent_again_to_the_rail_that_it_returned_to(
    rejected: Rejected,
) -> None:
    """A webhook reports a transfer that the rail denies, and the rail's bank code is unknown."""
    routed = rejected.routed
    await routed.plan("a", REFUSED)
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    assert (await send_webhook(rejected.site, "a", trx_id, "success")).status == 200
    await rejected.payer.settle("b", trx_id, "failed")
    await rejected.payer.check_now(trx_id)
    await rejected.is_open_at(trx_id, "a")
    sends = (await rejected.payer.calls("a")).count("transfer")
    await rejected.payer.check_now(trx_id)
    assert (await rejected.payer.calls("a")).count("transfer") == sends
    await rejected.is_open_at(trx_id, "a")


@pytest.mark.parametrize("order", ["webhook first", "query first"])
async def test_a_failed_status_waits_until_a_contradicting_webhook_is_some_seconds_old(
    rejected: Rejected, order: str
) -> None:
    payer: PayoutMerchant = rejected.payer
    trx_id = await payer.pay_out("a")
    await rejected.runner._do(await rejected.routed.claim(trx_id))
    await payer.settle("a", trx_id, "failed")
    if order == "query first":
        worker = await rejected.stall(trx_id, stalling.BEFORE_SETTLE)
        assert (await send_webhook(rejected.site, "a", trx_id, "success")).status == 200
        await worker.resume()
    else:
        assert (await send_webhook(rejected.site, "a", trx_id, "success")).status == 200
        await payer.check_now(trx_id)
    await rejected.is_open_at(trx_id, "a")
    await payer.services.db.execute(
        "UPDATE webhook SET last_received_at = now() - make_interval(secs => $2)"
        " WHERE reference = $1",
        *(trx_id, claims.CONFIRMATION_SECONDS + 1),
    )
    await payer.check_until(trx_id, "failed")
    assert await payer.cases() == [("contradiction", trx_id)]
    assert await payer.balance() == FULL


async def test_an_administrators_rejection_yields_to_a_webhook_that_arrives_meanwhile(
    rejected: Rejected, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer, db = rejected.payer, rejected.routed.services.db
    lost = {"call": "transfer", "fault": "5xx_before"}
    await rejected.routed.plan("a", lost)
    trx_id = await payer.pay_out("a")
    await rejected.runner._do(await rejected.routed.claim(trx_id))
    await db.execute(
        "UPDATE payout SET began_at = now() - interval '25 hours', last_sent_at = NULL"
        " WHERE trx_id = $1",
        trx_id,
    )
    await reports.report(db, await payer.payout(trx_id), CaseKind.NO_ANSWER, "It is stuck.")
    ending = decisions._ending

    async def then_it_pays(*arguments: object) -> object:
        event = await ending(*arguments)  # type: ignore[arg-type]
        await rejected.pays("a", trx_id)
        return event

    monkeypatch.setattr(decisions, "_ending", then_it_pays)
    with pytest.raises(NotToDecide):
        await decisions.reject(db, rejected.routed.services.rails, trx_id, "It is stuck.")
    await rejected.is_open_at(trx_id, "a")
    await rejected.is_paid_by(trx_id, "a")
