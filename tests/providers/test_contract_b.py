"""Tests our requests to provider B and the parsing of its responses with handwritten samples.

The samples are independent of the adapter and the simulator, so the tests detect an error that is
in both.
"""

import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Bank,
    ChargeState,
    Done,
    Forged,
    HostedCheckout,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
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


class TestProviderB:
    async def test_checkout(self, b: Adapter, server: Scripted) -> None:
        server.answers(
            200,
            ok(
                {
                    "checkout_url": "https://b.example/c",
                    "access_code": "x",
                    "transaction_ref": "TXN0-1",
                }
            ),
        )
        assert await b.create_checkout(CHARGE) == Done(HostedCheckout("https://b.example/c"))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/pms/transactions/initialize/")
        assert sent.headers["api-key"] == "b-key"
        assert sent.headers["api-secret"] == "Bearer b-secret"
        assert sent.json == {
            "businessid": "b-business",
            "reference": "TXN0-1",
            "amount": "1015.50",
            "currency": "NGN",
            "email": "ada@example.com",
            "name": "Ada Obi",
            "redirect_url": "https://pay.example.com/return",
        }

    async def test_virtual_account(self, b: Adapter, server: Scripted) -> None:
        bank = {
            "bankName": "Wema Bank",
            "bankCode": "000017",
            "accountNumber": "9900000002",
            "accountName": "ADA OBI",
            "trackingReference": "t",
            "expireDate": "2026-11-15T12:00:00+00:00",
        }
        server.answers(200, ok({"banks": [bank]}))
        assert await b.create_virtual_account(CHARGE, None) == Done(
            VirtualAccount(
                "Wema Bank",
                "9900000002",
                "ADA OBI",
                Money("NGN", 101550),
                datetime(2026, 11, 15, 12, tzinfo=UTC),
            )
        )
        [sent] = server.recorded
        assert sent.target == "/pms/api/external/request/customerReservedAccount/"
        assert sent.json == {
            "businessid": "b-business",
            "reference": "TXN0-1",
            "amount": "1015.50",
            "email": "ada@example.com",
            "name": "Ada Obi",
            "bankcode": ["000017"],
            "account_type": "DYNAMIC",
        }

    async def test_charge_state(self, b: Adapter, server: Scripted) -> None:
        data = {
            "reference": "TXN0-1",
            "status": "SUCCESS",
            "amount": "1015.50",
            "fee": "15.00",
            "currency": "NGN",
            "reason": "",
        }
        server.answers(200, ok(data))
        paid = ChargeState(ReportedChargeStatus.PAID, Money("NGN", 101550), Money("NGN", 1500))
        assert await b.charge_state("TXN0-1") == Done(paid)
        assert server.recorded[0].target == "/pms/transactions/TXN0-1/confirm/"
        for word, status in (
            ("PENDING", ReportedChargeStatus.PENDING),
            ("FAILED", ReportedChargeStatus.FAILED),
        ):
            server.answers(200, ok({**data, "status": word}))
            answer = await b.charge_state("TXN0-1")
            assert isinstance(answer, Done)
            assert (answer.value.status, answer.value.paid) == (status, None)

    async def test_bank_list_name_resolution_and_balance(
        self, b: Adapter, server: Scripted
    ) -> None:
        server.answers(
            200,
            ok(
                [
                    {"bank_code": "000014", "bank_name": "Access Bank", "is_active": True},
                    {"bank_code": "000099", "bank_name": "Gone Bank", "is_active": False},
                ]
            ),
        )
        assert await b.banks() == Done([Bank("000014", "Access Bank")])
        server.answers(200, ok({"account_name": "ADA OBI", "name_enquiry_reference": "NE-1"}))
        assert await b.resolve("000014", "0690000031") == Done(ResolvedAccount("ADA OBI", "NE-1"))
        server.answers(200, ok({"available_balance": "12.50", "ledger_balance": "12.50"}))
        assert await b.balance("NGN") == Done(Money("NGN", 1250))
        assert [(r.method, r.target) for r in server.recorded] == [
            ("GET", "/pms/api/external/request/wallet/banks/"),
            ("POST", "/pms/api/external/request/wallet/validate-account/"),
            ("GET", "/pms/api/external/request/wallet/balance/"),
        ]
        assert server.recorded[1].json == {"account_number": "0690000031", "bank_code": "000014"}

    async def test_send(self, b: Adapter, server: Scripted) -> None:
        server.answers(
            200, ok({"reference": "TXN1", "session_id": "000014…1", "status": "pending"})
        )
        assert await b.send(TRANSFER) == Done(Sent("000014…1", None, "000014…1"))
        [sent] = server.recorded
        assert sent.target == "/pms/api/external/request/wallet/transfer/"
        assert sent.json == {
            "reference": "TXN1",
            "amount": "5000.50",
            "account_number": "0690000031",
            "bank_code": "044",
            "account_name": "ADA OBI",
            "narration": "Salary",
            "name_enquiry_reference": "NE-1",
        }

    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("pending", TransferStatus.PENDING),
            ("success", TransferStatus.DELIVERED),
            ("failed", TransferStatus.FAILED),
            ("reversed", TransferStatus.REVERSED),
        ],
    )
    async def test_transfer_state(
        self, b: Adapter, server: Scripted, word: str, status: TransferStatus
    ) -> None:
        server.answers(
            200, ok({"reference": "TXN1", "session_id": "s", "status": word, "reason": "r"})
        )
        expected = TransferState(status, None, None, "r", "s", "s")
        assert await b.transfer_state("TXN1") == Done(expected)
        [sent] = server.recorded
        assert (sent.method, sent.json) == ("POST", {"reference": "TXN1"})
        assert sent.target == "/pms/api/external/request/wallet/transfer-status/"

    @pytest.mark.parametrize(
        ("status", "message", "code"),
        [
            (400, "Insufficient wallet balance", RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
            (400, "Invalid bank code", RefusalCode.INVALID_BENEFICIARY),
            (400, "Account validation failed", RefusalCode.INVALID_BENEFICIARY),
            (403, "Transfers are not enabled for this business", RefusalCode.PAYOUT_FAILED),
            (403, "IP not whitelisted", RefusalCode.PAYOUT_FAILED),
        ],
    )
    async def test_refusals(
        self, b: Adapter, server: Scripted, status: int, message: str, code: RefusalCode
    ) -> None:
        server.answers(status, {"status": False, "message": message, "data": None})
        assert await b.send(TRANSFER) == Refused(code, message)

    async def test_a_duplicate_reference_is_not_a_refusal(
        self, b: Adapter, server: Scripted
    ) -> None:
        server.answers(
            400, {"status": False, "message": "Transfer reference already exists", "data": None}
        )
        assert isinstance(await b.send(TRANSFER), Unknown)

    async def test_refunds_are_not_supported(self, b: Adapter, server: Scripted) -> None:
        answer = await b.refund(REFUND)
        assert isinstance(answer, Refused)
        assert answer.code is RefusalCode.NOT_SUPPORTED
        assert not server.recorded

    def test_webhooks(self, b: Adapter) -> None:
        """Without a webhook secret, provider B signs webhooks with the secret key."""
        document = {"transaction": {"reference": "TXN0-1"}, "order": {}, "code": "00"}
        raw = json.dumps(document).encode()
        signature = hmac.new(b"b-secret", raw, hashlib.sha512).hexdigest().encode()
        cgi, plain = b"http_providerb_signature", b"providerb-signature"
        event = WebhookEvent(WebhookSubject.CHARGE, "TXN0-1", None, ReportedChargeStatus.PAID)
        assert b.read_webhook({cgi: [signature]}, raw) == event
        assert b.read_webhook({plain: [signature]}, raw) == event
        assert b.read_webhook({cgi: [signature], plain: [signature]}, raw) == Forged()
        assert b.read_webhook({plain: [signature]}, raw[:-1]) == Forged()
        short = hmac.new(b"b-secret", raw, hashlib.sha256).hexdigest().encode()
        assert b.read_webhook({plain: [short]}, raw) == Forged()
