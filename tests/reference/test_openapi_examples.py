"""The examples in the OpenAPI document have the same keys as real responses.

The real responses match their schemas.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema_rs
import pytest

from manilla.kit.database.connections import Database
from manilla.payments.checkout import SandboxOutcome
from manilla.payouts import decisions
from manilla.reference import examples
from manilla.refunds.refund import SEND
from manilla.services import Services
from tests.payments.orders import new_reference
from tests.payments.steps import change, initiate_legacy, trx_id_of
from tests.support.client import Merchant, Reply, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

JSON = "application/json"


class Product:
    """A sandbox merchant, and the OpenAPI document with which its responses are compared."""

    def __init__(self, simulator: ProviderSimulator, merchant: Merchant, document: Any) -> None:
        self.simulator = simulator
        self.merchant = merchant
        self.document = document

    def holds(self, name: str, example: str, reply: Reply) -> Any:
        """Checks that the response matches its schema and has the same keys as the example."""
        operation = self._operation(name)
        content = operation["responses"][str(reply.status)]["content"][JSON]
        schema = {**content["schema"], "components": self.document["components"]}
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(reply.json)
        assert keys(reply.json) == keys(content["examples"][example]["value"]), (name, example)
        return reply.json

    def refuses(self, name: str, code: str, reply: Reply) -> None:
        assert reply.code == code, reply.body
        self.holds(name, code, reply)

    async def notified(self, event: str, trx_id: str) -> None:
        """Checks that the newest notification about a transaction matches its schema."""
        body = await self.simulator.services.db.value(
            "SELECT body FROM notification WHERE trx_id = $1 ORDER BY id DESC LIMIT 1", trx_id
        )
        notified = json.loads(body)
        item = self.document["webhooks"][event]["post"]["requestBody"]["content"][JSON]
        schema = {**item["schema"], "components": self.document["components"]}
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(notified)
        assert keys(notified) == keys(item["examples"][notified["status"]]["value"])

    def _operation(self, name: str) -> Any:
        for methods in self.document["paths"].values():
            for operation in methods.values():
                if operation["operationId"] == name:
                    return operation
        raise AssertionError(name)

    async def initiate_payment(self, example: str = "payment", scenario: str | None = None) -> str:
        body = {**examples.REQUESTS["initiatePayment"][example], "ref_trx": new_reference()}
        reply = await self.post("/api/v1/initiate-payment", body, X_Sandbox_Scenario=scenario)
        self.holds("initiatePayment", "session", reply)
        return trx_id_of(reply)

    async def initiate_refund(self, payment: str) -> str:
        changed = {"trx_id": payment, "ref_trx": new_reference()}
        body = {**examples.REQUESTS["initiateRefund"]["part"], **changed}
        reply = await self.post("/api/v1/initiate-refund", body)
        trx_id: str = self.holds("initiateRefund", "refund", reply)["trx_id"]
        return trx_id

    async def initiate_payout(self, example: str = "bankTransfer", account: str = "") -> str:
        body = {**examples.REQUESTS["initiatePayout"][example], "ref_trx": new_reference()}
        if account:
            body["beneficiary"] = {"bank_code": "058", "account_number": account}
        reply = await self.post("/api/v1/initiate-payout", body)
        trx_id: str = self.holds("initiatePayout", "payout", reply)["trx_id"]
        return trx_id

    async def post(self, target: str, body: Any, **headers: str | None) -> Reply:
        raw = json.dumps(body, default=float).encode()
        return await self.merchant.call("POST", target, raw, **headers)

    async def verify(self, kind: str, trx_id: str) -> Reply:
        return await self.merchant.get(f"/api/v1/verify-{kind}/{trx_id}")


def keys(value: Any) -> Any:
    """Returns the nested keys of a value, without its scalars. Equal list elements count once."""
    if isinstance(value, dict):
        return frozenset((key, keys(part)) for key, part in value.items())
    if isinstance(value, list):
        return frozenset(keys(part) for part in value) - {None}
    return None


@pytest.fixture
async def product(services: Services, site: Site, merchant: Merchant) -> AsyncIterator[Product]:
    document = (await site.send("GET", "/api/openapi.json")).json
    async with running_simulator(services) as simulator:
        yield Product(simulator, merchant, document)


async def test_list_responses_match_their_examples(product: Product) -> None:
    get = product.merchant.get
    product.holds("siteInfo", "site", await get("/api/v1/site-info"))
    methods = await get("/api/v1/payout-methods?currency=NGN")
    product.holds("payoutMethods", "methods", methods)
    # The examples contain the ids of a new installation.
    assert [m["id"] for m in methods.json["methods"] if m["method_code"] == "platform"] == [9]
    product.holds("payoutBankList", "providerB", await get("/api/v1/payout/bank-list"))
    other = await get("/api/v1/payout/bank-list?method_code=providera_ngn_transfer")
    product.holds("payoutBankList", "providerA", other)
    product.holds("getBalance", "balance", await get("/api/v1/balance"))
    statement = await get("/api/v1/balance-transactions")
    product.holds("listBalanceTransactions", "page", statement)


async def test_payment_responses_and_notifications_match_their_examples(
    product: Product, services: Services
) -> None:
    paid = await product.initiate_payment()
    product.holds("verifyPayment", "pending", await product.verify("payment", paid))
    await product.simulator.run_job_now("payment.sandbox", paid)
    product.holds("verifyPayment", "success", await product.verify("payment", paid))
    await product.notified("payment", paid)
    refund = await product.initiate_refund(paid)
    product.holds("verifyRefund", "pending", await product.verify("refund", refund))
    await product.simulator.run_job_now(SEND, refund)
    product.holds("verifyRefund", "success", await product.verify("refund", refund))
    product.holds("listRefunds", "page", await product.merchant.get("/api/v1/refunds"))
    await product.notified("refund", paid)

    declined = await product.initiate_payment("minimal", scenario="failed")
    await product.simulator.run_job_now("payment.sandbox", declined)
    product.holds("verifyPayment", "failed", await product.verify("payment", declined))
    await product.notified("payment", declined)

    canceled = await product.initiate_payment()
    await services.checkout.pretend(canceled, SandboxOutcome.CANCEL)
    await product.notified("payment", canceled)

    await product.initiate_payment()
    product.holds("listPayments", "page", await product.merchant.get("/api/v1/payments"))


async def test_legacy_responses_and_notifications_match_their_examples(product: Product) -> None:
    body = examples.REQUESTS["initiatePaymentLegacy"]["payment"]
    for scenario in ("success", "failed"):
        raw = json.dumps({**body, "ref_trx": new_reference()}, default=float).encode()
        reply = await initiate_legacy(product.merchant, raw, X_Sandbox_Scenario=scenario)
        product.holds("initiatePaymentLegacy", "session", reply)
        trx_id = trx_id_of(reply)
        await product.simulator.run_job_now("payment.sandbox", trx_id)
        await product.notified("legacyPayment", trx_id)


async def test_payout_responses_and_notifications_match_their_examples(
    product: Product, db: Database
) -> None:
    delivered = await product.initiate_payout()
    product.holds("verifyPayout", "pending", await product.verify("payout", delivered))
    await product.simulator.run_job_now("payout.sandbox", delivered)
    product.holds("verifyPayout", "success", await product.verify("payout", delivered))
    await product.notified("payout", delivered)

    failed = await product.initiate_payout(account="0000000001")
    await product.simulator.run_job_now("payout.sandbox", failed)
    product.holds("verifyPayout", "failed", await product.verify("payout", failed))
    await product.notified("payout", failed)

    rejected = await product.initiate_payout("manual")
    await decisions.reject(db, product.simulator.services.rails, rejected, "The bank is closed.")
    await product.notified("payout", rejected)

    await product.initiate_payout()
    product.holds("listPayouts", "page", await product.merchant.get("/api/v1/payouts"))


async def test_error_responses_match_their_examples(product: Product) -> None:
    pay, pay_out = "/api/v1/initiate-payment", "/api/v1/initiate-payout"
    payment = {**examples.REQUESTS["initiatePayment"]["minimal"], "ref_trx": new_reference()}
    payout = {**examples.REQUESTS["initiatePayout"]["bankTransfer"], "ref_trx": new_reference()}

    async def refuses(target: str, name: str, code: str, body: Any) -> None:
        product.refuses(name, code, await product.post(target, body))

    async def refuses_account(number: str, code: str) -> None:
        to = {"bank_code": "058", "account_number": number}
        await refuses(pay_out, "initiatePayout", code, {**payout, "beneficiary": to})

    without = {key: value for key, value in payment.items() if key != "ref_trx"}
    await refuses(pay, "initiatePayment", "VALIDATION_FAILED", without)
    await refuses(pay, "initiatePayment", "INVALID_AMOUNT", {**payment, "payment_amount": 0.5})
    await refuses(pay, "initiatePayment", "INVALID_CURRENCY", {**payment, "currency_code": "GBP"})
    assert (await product.post(pay, payment)).status == 200
    again = {**payment, "payment_amount": 7}
    await refuses(pay, "initiatePayment", "DUPLICATE_REFERENCE", again)
    await refuses(pay_out, "initiatePayout", "INVALID_AMOUNT", {**payout, "payout_amount": 0.001})
    await refuses(pay_out, "initiatePayout", "payout_failed", {**payout, "payout_amount": 1})
    much = {**payout, "payout_amount": 4_999_999}
    await refuses(pay_out, "initiatePayout", "insufficient_balance", much)
    await refuses_account("0000000002", "invalid_beneficiary")
    await refuses_account("0000000004", "provider_insufficient_balance")
    unknown = await product.verify("payment", examples.TRX_ID)
    product.refuses("verifyPayment", "TRANSACTION_NOT_FOUND", unknown)
    for changed, code in (
        ({"X_Signature": "0" * 64}, "INVALID_CREDENTIALS"),
        ({"X_Environment": "moon"}, "INVALID_ENVIRONMENT"),
    ):
        reply = await product.merchant.get("/api/v1/site-info", **changed)
        product.refuses("siteInfo", code, reply)
    query = await product.merchant.get("/api/v1/payout-methods")
    product.refuses("payoutMethods", "VALIDATION_FAILED", query)


async def test_disabled_features_return_the_errors_of_their_examples(
    product: Product, services: Services
) -> None:
    await change(services, product.merchant, payouts_enabled=False)
    body = {**examples.REQUESTS["initiatePayout"]["manual"], "ref_trx": new_reference()}
    reply = await product.post("/api/v1/initiate-payout", body)
    product.refuses("initiatePayout", "merchant_payout_disabled", reply)
