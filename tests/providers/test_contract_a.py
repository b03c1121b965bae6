"""Tests our requests to provider A and the parsing of its responses with handwritten samples.

The samples are independent of the adapter and the simulator, so the tests detect an error that is
in both.
"""

import hashlib
import hmac
import json
from datetime import UTC, datetime
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
    VirtualAccount,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.samples import CHARGE, REFUND, TRANSFER, ok
from tests.providers.scripted import Scripted


class TestProviderA:
    async def test_checkout(self, a: Adapter, server: Scripted) -> None:
        server.answers(200, ok({"reference": "TXN0-1", "checkout_url": "https://a.example/c/1"}))
        assert await a.create_checkout(CHARGE) == Done(HostedCheckout("https://a.example/c/1"))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/merchant/api/v1/charges/initialize")
        assert sent.headers["authorization"] == "Bearer a-secret"
        assert sent.headers["content-type"] == "application/json"
        assert b'"amount":1015.50' in sent.body
        assert sent.json == {
            "reference": "TXN0-1",
            "amount": 1015.5,
            "currency": "NGN",
            "narration": "Shoes",
            "notification_url": "https://pay.example.com/webhooks/providera",
            "redirect_url": "https://pay.example.com/return",
            "customer": {"name": "Ada Obi", "email": "ada@example.com"},
        }

    async def test_virtual_account(self, a: Adapter, server: Scripted) -> None:
        account = {
            "account_name": "MANILLA/ADA",
            "account_number": "9900000001",
            "bank_name": "Wema Bank",
            "bank_code": "035",
            "expiry_date_in_utc": "2026-11-15T12:00:00Z",
        }
        server.answers(
            200,
            ok(
                {
                    "reference": "TXN0-1",
                    "status": "processing",
                    "amount_expected": "1015.50",
                    "bank_account": account,
                }
            ),
        )
        answer = await a.create_virtual_account(CHARGE, "22222222222")
        assert answer == Done(
            VirtualAccount(
                "Wema Bank",
                "9900000001",
                "MANILLA/ADA",
                Money("NGN", 101550),
                datetime(2026, 11, 15, 12, tzinfo=UTC),
            )
        )
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/merchant/api/v1/charges/bank-transfer")
        assert sent.json["kyc"] == {"bvn": "22222222222"}
        assert "redirect_url" not in sent.json

    async def test_virtual_account_needs_a_bvn(self, a: Adapter, server: Scripted) -> None:
        assert isinstance(await a.create_virtual_account(CHARGE, None), Refused)
        assert not server.recorded

    @pytest.mark.parametrize(
        ("data", "state"),
        [
            (
                {"status": "success", "amount": 1015.5, "amount_paid": "1000.00", "fee": 15},
                ChargeState(ReportedChargeStatus.PAID, Money("NGN", 100000), Money("NGN", 1500)),
            ),
            ({"status": "processing", "amount": 1015.5}, ChargeState(ReportedChargeStatus.PENDING)),
            ({"status": "expired", "amount": 1015.5}, ChargeState(ReportedChargeStatus.EXPIRED)),
            (
                {"status": "failed", "amount": 1015.5, "reason": "insufficient_funds"},
                ChargeState(ReportedChargeStatus.FAILED, reason="insufficient_funds"),
            ),
        ],
    )
    async def test_charge_state(
        self, a: Adapter, server: Scripted, data: Any, state: ChargeState
    ) -> None:
        server.answers(200, ok({"reference": "TXN0-1", "currency": "NGN", **data}))
        assert await a.charge_state("TXN0-1") == Done(state)
        assert server.recorded[0].target == "/merchant/api/v1/charges/TXN0-1"

    async def test_bank_list_name_resolution_and_balance(
        self, a: Adapter, server: Scripted
    ) -> None:
        server.answers(
            200, ok([{"name": "Access Bank", "slug": "access", "code": "044", "country": "NG"}])
        )
        assert await a.banks() == Done([Bank("044", "Access Bank")])
        server.answers(
            200,
            ok(
                {
                    "bank_name": "Access Bank",
                    "bank_code": "044",
                    "account_number": "0690000031",
                    "account_name": "ADA OBI",
                }
            ),
        )
        assert await a.resolve("044", "0690000031") == Done(ResolvedAccount("ADA OBI"))
        server.answers(200, ok({"NGN": {"available_balance": 12.5, "pending_balance": 0}}))
        assert await a.balance("NGN") == Done(Money("NGN", 1250))
        assert [(r.method, r.target) for r in server.recorded] == [
            ("GET", "/merchant/api/v1/misc/banks?countryCode=NG"),
            ("POST", "/merchant/api/v1/misc/banks/resolve"),
            ("GET", "/merchant/api/v1/balances"),
        ]
        assert server.recorded[1].json == {
            "bank": "044",
            "account": "0690000031",
            "currency": "NGN",
        }

    async def test_send(self, a: Adapter, server: Scripted) -> None:
        server.answers(
            200,
            ok(
                {
                    "reference": "TXN1",
                    "status": "processing",
                    "amount": "5000.50",
                    "fee": "10.00",
                    "currency": "NGN",
                    "trace_id": "trace-1",
                }
            ),
        )
        assert await a.send(TRANSFER) == Done(Sent("trace-1", Money("NGN", 1000)))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/merchant/api/v1/transactions/disburse")
        assert sent.json == {
            "reference": "TXN1",
            "destination": {
                "type": "bank_account",
                "amount": 5000.5,
                "currency": "NGN",
                "narration": "Salary",
                "bank_account": {"bank": "044", "account": "0690000031"},
                "customer": {"name": "ADA OBI", "email": "ada@example.com"},
            },
        }

    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("processing", TransferStatus.PENDING),
            ("success", TransferStatus.DELIVERED),
            ("failed", TransferStatus.FAILED),
            ("reversed", TransferStatus.REVERSED),
        ],
    )
    async def test_transfer_state(
        self, a: Adapter, server: Scripted, word: str, status: TransferStatus
    ) -> None:
        server.answers(
            200,
            ok(
                {
                    "reference": "TXN1",
                    "status": word,
                    "amount": "5000.5",
                    "fee": 10,
                    "currency": "NGN",
                    "message": "m",
                    "trace_id": "t",
                }
            ),
        )
        expected = TransferState(status, Money("NGN", 500050), Money("NGN", 1000), "m", "t")
        assert await a.transfer_state("TXN1") == Done(expected)
        assert server.recorded[0].target == "/merchant/api/v1/transactions/TXN1"

    async def test_not_found_is_a_definite_answer(self, a: Adapter, server: Scripted) -> None:
        server.answers(404, {"status": False, "message": "Transaction not found", "data": None})
        assert await a.transfer_state("TXN1") == Done(TransferState(TransferStatus.NOT_FOUND))
        assert await a.charge_state("TXN1-1") == Done(ChargeState(ReportedChargeStatus.NOT_FOUND))

    async def test_refund(self, a: Adapter, server: Scripted) -> None:
        server.answers(200, ok({"reference": "TXN9", "status": "processing"}))
        assert await a.refund(REFUND) == Done(RefundState(ReportedRefundStatus.PENDING))
        assert server.recorded[0].target == "/merchant/api/v1/refunds/initiate"
        assert server.recorded[0].json == {
            "reference": "TXN9",
            "payment_reference": "TXN0-1",
            "amount": 1015.5,
            "reason": "Returned",
        }
        server.answers(200, ok({"reference": "TXN9", "status": "success", "amount": "1015.50"}))
        paid = RefundState(ReportedRefundStatus.PAID, Money("NGN", 101_550))
        assert await a.refund_state("TXN9") == Done(paid)
        assert server.recorded[1].target == "/merchant/api/v1/refunds/TXN9"

    @pytest.mark.parametrize(
        ("status", "message", "code"),
        [
            (
                402,
                "Insufficient funds in disbursement wallet",
                RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
            ),
            (400, "Unable to resolve bank account.", RefusalCode.INVALID_BENEFICIARY),
            (400, "Invalid bank provided.", RefusalCode.INVALID_BENEFICIARY),
            (403, "Payouts are not enabled for this business", RefusalCode.PAYOUT_FAILED),
            (403, "IP address is not whitelisted", RefusalCode.PAYOUT_FAILED),
            (422, "Something of their own", RefusalCode.GATEWAY_PAYOUT_FAILED),
        ],
    )
    async def test_refusals(
        self, a: Adapter, server: Scripted, status: int, message: str, code: RefusalCode
    ) -> None:
        server.answers(status, {"status": False, "message": message, "data": None})
        assert await a.send(TRANSFER) == Refused(code, message)

    async def test_a_duplicate_reference_is_not_a_refusal(
        self, a: Adapter, server: Scripted
    ) -> None:
        duplicate = {"status": False, "message": "Duplicate Transaction Reference", "data": None}
        for status in (409, 400):
            server.answers(status, duplicate)
            assert isinstance(await a.send(TRANSFER), Unknown)

    @pytest.mark.parametrize(
        ("event", "kind", "said"),
        [
            ("charge.success", WebhookSubject.CHARGE, ReportedChargeStatus.PAID),
            ("charge.failed", WebhookSubject.CHARGE, ReportedChargeStatus.FAILED),
            ("transfer.success", WebhookSubject.TRANSFER, TransferStatus.DELIVERED),
            ("transfer.failed", WebhookSubject.TRANSFER, TransferStatus.FAILED),
            ("transfer.reversed", WebhookSubject.TRANSFER, TransferStatus.REVERSED),
            ("refund.success", WebhookSubject.REFUND, ReportedRefundStatus.PAID),
            ("refund.failed", WebhookSubject.REFUND, ReportedRefundStatus.FAILED),
        ],
    )
    def test_webhooks(self, a: Adapter, event: str, kind: WebhookSubject, said: Any) -> None:
        raw = json.dumps({"event": event, "data": {"reference": "TXN1", "amount": 1}}).encode()
        signature = hmac.new(b"a-hook", raw, hashlib.sha256).hexdigest().encode()
        signed = {b"x-providera-signature": [signature]}
        claim = Claim(Decimal(1))
        assert a.read_webhook(signed, raw) == WebhookEvent(kind, "TXN1", claim, said)
        assert a.read_webhook(signed, raw + b" ") == Forged()
        assert a.read_webhook({}, raw) == Forged()
        assert a.read_webhook({b"x-providera-signature": [signature] * 2}, raw) == Forged()
