"""Tests our requests to provider C and the parsing of its responses with handwritten samples.

The samples are independent of the adapter and the simulator, so the tests detect an error that is
in both.
"""

import hashlib
import hmac
import json
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Bank,
    ChargeState,
    Claim,
    Done,
    Forged,
    HostedCheckout,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    TransferState,
    TransferStatus,
    Unknown,
    Unreadable,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.samples import CHARGE, REFUND, TRANSFER, success
from tests.providers.scripted import Scripted, answering


class TestProviderC:
    async def test_checkout(self, c: Adapter, server: Scripted) -> None:
        server.answers(200, success({"link": "https://c.example/pay/1"}))
        assert await c.create_checkout(CHARGE) == Done(HostedCheckout("https://c.example/pay/1"))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/payments")
        assert sent.headers["authorization"] == "Bearer c-secret"
        body = sent.json
        assert body.pop("customizations") == {"title": "Obi Shoes", "description": "Shoes"}
        assert body == {
            "tx_ref": "TXN0-1",
            "amount": 1015.5,
            "currency": "NGN",
            "redirect_url": "https://pay.example.com/return",
            "customer": {"email": "ada@example.com", "name": "Ada Obi"},
        }

    async def test_charge_state(self, c: Adapter, server: Scripted) -> None:
        data = {
            "id": 77,
            "tx_ref": "TXN0-1",
            "status": "successful",
            "amount": 1015.5,
            "charged_amount": 1030,
            "app_fee": 14.5,
            "currency": "NGN",
            "processor_response": "Approved",
        }
        server.answers(200, success(data))
        assert await c.charge_state("TXN0-1") == Done(
            ChargeState(
                ReportedChargeStatus.PAID,
                Money("NGN", 101550),
                Money("NGN", 1450),
                "Approved",
                "77",
            )
        )
        assert server.recorded[0].target == "/v3/transactions/verify_by_reference?tx_ref=TXN0-1"

    async def test_refund_uses_the_providers_own_id(self, c: Adapter, server: Scripted) -> None:
        charge = {
            "id": 77,
            "tx_ref": "TXN0-1",
            "status": "successful",
            "amount": 1015.5,
            "currency": "NGN",
        }
        refund = {"id": 5, "status": "completed", "amount_refunded": 1015.5, **charge}
        server.answers(200, success({**refund, "status": "successful"}))

        async def behave(writer: Any) -> None:
            is_refund = server.recorded[-1].method == "POST"
            document = success({"id": 5, "status": "completed"} if is_refund else charge)
            raw = json.dumps(document).encode()
            await answering(200, raw)(writer)

        server.behaviour = behave
        assert await c.refund(REFUND) == Done(RefundState(ReportedRefundStatus.PAID))
        assert server.recorded[-1].target == "/v3/transactions/77/refund"
        assert server.recorded[-1].json == {"amount": 1015.5, "reference": "TXN9"}

    async def test_bank_list_name_resolution_and_balance(
        self, c: Adapter, server: Scripted
    ) -> None:
        server.answers(200, success([{"id": 1, "code": "044", "name": "Access Bank"}]))
        assert await c.banks() == Done([Bank("044", "Access Bank")])
        server.answers(200, success({"account_number": "0690000031", "account_name": "ADA OBI"}))
        assert await c.resolve("044", "0690000031") == Done(ResolvedAccount("ADA OBI"))
        server.answers(
            200, success({"currency": "NGN", "available_balance": 12.5, "ledger_balance": 13})
        )
        assert await c.balance("NGN") == Done(Money("NGN", 1250))
        assert [(r.method, r.target) for r in server.recorded] == [
            ("GET", "/v3/banks/NG"),
            ("POST", "/v3/accounts/resolve"),
            ("GET", "/v3/balances/NGN"),
        ]
        assert server.recorded[1].json == {"account_number": "0690000031", "account_bank": "044"}

    async def test_send(self, c: Adapter, server: Scripted) -> None:
        server.answers(
            200,
            success(
                {
                    "id": 190626,
                    "reference": "TXN1",
                    "status": "NEW",
                    "fee": 10.75,
                    "bank_name": "ACCESS BANK",
                    "complete_message": "",
                }
            ),
        )
        assert await c.send(TRANSFER) == Done(Sent("190626", Money("NGN", 1075)))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/transfers")
        assert sent.json == {
            "reference": "TXN1",
            "account_bank": "044",
            "account_number": "0690000031",
            "amount": 5000.5,
            "currency": "NGN",
            "narration": "Salary",
            "debit_currency": "NGN",
            "callback_url": "https://pay.example.com/webhooks/providerc",
        }

    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("NEW", TransferStatus.PENDING),
            ("PENDING", TransferStatus.PENDING),
            ("SUCCESSFUL", TransferStatus.DELIVERED),
            ("FAILED", TransferStatus.FAILED),
            ("REVERSED", TransferStatus.REVERSED),
        ],
    )
    async def test_transfer_state(
        self, c: Adapter, server: Scripted, word: str, status: TransferStatus
    ) -> None:
        transfer = {
            "id": 1,
            "reference": "TXN1",
            "status": word,
            "amount": 5000.5,
            "fee": 10.75,
            "complete_message": "m",
        }
        server.answers(200, success([transfer]))
        expected = TransferState(status, Money("NGN", 500050), Money("NGN", 1075), "m", "1")
        assert await c.transfer_state("TXN1") == Done(expected)
        assert server.recorded[0].target == "/v3/transfers?reference=TXN1"
        server.answers(200, success([]))
        assert await c.transfer_state("TXN1") == Done(TransferState(TransferStatus.NOT_FOUND))
        server.answers(200, success([transfer, transfer]))
        assert isinstance(await c.transfer_state("TXN1"), Unknown)

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            (
                "Insufficient wallet balance to complete this transfer",
                RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
            ),
            ("Account resolve failed", RefusalCode.INVALID_BENEFICIARY),
            ("Minimum transfer amount is 500", RefusalCode.PAYOUT_FAILED),
        ],
    )
    async def test_refusals(
        self, c: Adapter, server: Scripted, message: str, code: RefusalCode
    ) -> None:
        server.answers(400, {"status": "error", "message": message, "data": None})
        assert await c.send(TRANSFER) == Refused(code, message)

    async def test_a_duplicate_reference_is_not_a_refusal(
        self, c: Adapter, server: Scripted
    ) -> None:
        server.answers(400, {"status": "error", "message": "Duplicate reference", "data": None})
        assert isinstance(await c.send(TRANSFER), Unknown)

    def test_webhooks(self, c: Adapter) -> None:
        for document, expected in (
            (
                {"event": "charge.completed", "data": {"tx_ref": "TXN0-1", "status": "failed"}},
                WebhookEvent(WebhookSubject.CHARGE, "TXN0-1", None, ReportedChargeStatus.FAILED),
            ),
            (
                {
                    "event": "charge.completed",
                    "data": {"tx_ref": "T", "status": "successful", "amount": 5, "currency": "NGN"},
                },
                WebhookEvent(
                    WebhookSubject.CHARGE, "T", Claim(Decimal(5), "NGN"), ReportedChargeStatus.PAID
                ),
            ),
            (
                {"event": "transfer.completed", "data": {"reference": "TXN1"}},
                WebhookEvent(WebhookSubject.TRANSFER, "TXN1"),
            ),
            (
                {
                    "event": "transfer.completed",
                    "data": {"reference": "TXN1", "status": "FAILED"},
                },
                WebhookEvent(WebhookSubject.TRANSFER, "TXN1", claims_status=TransferStatus.FAILED),
            ),
        ):
            raw = json.dumps(document).encode()
            signature = hmac.new(b"c-hook", raw, hashlib.sha256).hexdigest().encode()
            assert c.read_webhook({b"x-providerc-signature": [signature]}, raw) == expected
            assert c.read_webhook({b"x-providerc-signature": [b"0" * 64]}, raw) == Forged()

    def test_a_signed_webhook_outside_the_contract_is_unreadable(self, c: Adapter) -> None:
        listed = b'{"event": "transfer.completed", "data": [1]}'
        for raw in (
            b"{}",
            b"not json",
            b'{"event": "charge.completed", "data": {}}',
            b"[1]",
            listed,
        ):
            signature = hmac.new(b"c-hook", raw, hashlib.sha256).hexdigest().encode()
            webhook = c.read_webhook({b"x-providerc-signature": [signature]}, raw)
            assert isinstance(webhook, Unreadable)
