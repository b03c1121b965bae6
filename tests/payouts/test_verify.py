"""verify-payout returns only the calling merchant's payouts."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.payouts import decisions
from manilla.services import Services
from tests.payments.orders import VERIFY as VERIFY_PAYMENT
from tests.payments.steps import new_payment
from tests.payouts.payout_merchant import MANUAL, RAILS, VERIFY, PayoutMerchant, exact, method
from tests.support.client import Site, new_merchant
from tests.support.rows import first_short

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def moment(text: str) -> datetime:
    assert TIMESTAMP.fullmatch(text)
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_a_pending_payout_has_exactly_the_documented_fields(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, environment: str, rail: str
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    sent = await caller.order(rail)
    trx_id = (await caller.send(sent)).json["trx_id"]
    reply = await caller.verify(trx_id)
    assert reply.status == 200
    assert reply.json == {
        "status": "pending",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "message": "Payout is still pending.",
    }


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_delivered_payout_has_exactly_the_documented_fields(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, fee_fixed="25.75"):
        sent = await payer.order(rail, payout_amount=1000.5, description="Rent for May")
        trx_id = (await payer.send(sent)).json["trx_id"]
    await payer.check_until(trx_id, "completed")
    reply = await payer.verify(trx_id)
    assert reply.status == 200
    answer = exact(reply)
    created, updated = moment(answer.pop("created_at")), moment(answer.pop("updated_at"))
    assert datetime.now(UTC) - timedelta(minutes=1) < created < updated < datetime.now(UTC)
    assert answer == {
        "status": "success",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "amount": Decimal("1000.50"),
        "fee": Decimal("25.75"),
        "currency": "NGN",
        "net_amount": Decimal("1000.50"),
        "description": "Rent for May",
        "session_id": (await payer.transfers(rail))[0]["session_id"] if rail == "b" else None,
    }


async def test_a_description_that_was_not_sent_is_null(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await decisions.complete(payer.services.db, trx_id, "FT-1")
    assert (await payer.verify(trx_id)).json["description"] is None


async def test_a_failed_payout_has_exactly_the_documented_fields(payer: PayoutMerchant) -> None:
    refused = {"call": "transfer", "fault": "refuse", "message": "Beneficiary is on a list"}
    await payer.simulator.control("a/faults", {"next": [refused]})
    sent = await payer.order()
    trx_id = (await payer.send(sent)).json["trx_id"]
    await payer.until(trx_id, "failed")
    assert (await payer.verify(trx_id)).json == {
        "status": "failed",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "message": "Payout failed or was canceled. Beneficiary is on a list",
        "error_code": "gateway_payout_failed",
    }


async def test_a_canceled_payout_is_returned_as_failed(payer: PayoutMerchant) -> None:
    sent = await payer.order(MANUAL)
    trx_id = (await payer.send(sent)).json["trx_id"]
    await decisions.reject(payer.services.db, payer.services.rails, trx_id, "The bank is closed.")
    assert (await payer.verify(trx_id)).json == {
        "status": "failed",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "message": "Payout failed or was canceled. The bank is closed.",
        "error_code": "payout_failed",
    }


async def test_another_merchants_payout_is_indistinguishable_from_an_unknown_one(
    payer: PayoutMerchant, site: Site, db: Database, keyring: Keyring
) -> None:
    trx_id = await payer.pay_out()
    neighbour = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    sandbox = msgspec.structs.replace(payer.merchant, environment=Environment.SANDBOX)
    payment_id = await new_payment(payer.merchant)
    unknown = await payer.verify(trx_ids.new(payer.merchant.new.id))
    assert unknown.status == 404
    assert set(unknown.json) == {"error", "error_code"}
    assert unknown.code == "TRANSACTION_NOT_FOUND"
    hidden = [
        await neighbour.get(VERIFY + trx_id),
        await sandbox.get(VERIFY + trx_id),
        await payer.verify(payment_id),
        await payer.merchant.get(VERIFY_PAYMENT + trx_id),
        await payer.verify(trx_id.lower()),
        await payer.verify(trx_id + "0"),
        await payer.verify("x"),
        await payer.verify("%00"),
    ]
    assert [(reply.status, reply.body) for reply in hidden] == [(404, unknown.body)] * len(hidden)
    assert (await payer.verify(trx_id)).status == 200


async def test_a_merchant_sees_its_payouts_from_any_ip(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out()
    assert (await payer.from_new_ip().verify(trx_id)).json["trx_id"] == trx_id
