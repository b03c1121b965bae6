"""The three contracts, as samples written by hand: what we send, and what we make of the answer.

Neither the adapters nor the simulator had a hand in these, so both being wrong alike would show.
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
    ChargeOrder,
    ChargeState,
    ChargeStatus,
    Done,
    EventKind,
    Forged,
    HostedCheckout,
    RefundOrder,
    RefundState,
    RefundStatus,
    RefusalCode,
    Refused,
    ResolvedAccount,
    Sent,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    Unreadable,
    VirtualAccount,
    WebhookEvent,
)
from tests.providers.scripted import Scripted, answering

CHARGE = ChargeOrder(
    reference="TXN0-1",
    amount=Money("NGN", 101550),
    description="Shoes",
    customer_name="Ada Obi",
    customer_email="ada@example.com",
    redirect_url="https://pay.example.com/return",
    notification_url="https://pay.example.com/webhooks/providera",
)
TRANSFER = TransferOrder(
    reference="TXN1",
    amount=Money("NGN", 500050),
    bank_code="044",
    account_number="0690000031",
    account_name="ADA OBI",
    narration="Salary",
    customer_email="ada@example.com",
    notification_url="https://pay.example.com/webhooks/providerc",
    name_enquiry_reference="NE-1",
)
REFUND = RefundOrder("TXN9", "TXN0-1", Money("NGN", 101550), "Returned")


def ok(data: Any) -> dict[str, Any]:
    return {"status": True, "message": "ok", "data": data}


def success(data: Any) -> dict[str, Any]:
    return {"status": "success", "message": "ok", "data": data}


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
                ChargeState(ChargeStatus.PAID, Money("NGN", 100000), Money("NGN", 1500)),
            ),
            ({"status": "processing", "amount": 1015.5}, ChargeState(ChargeStatus.PENDING)),
            ({"status": "expired", "amount": 1015.5}, ChargeState(ChargeStatus.EXPIRED)),
            (
                {"status": "failed", "amount": 1015.5, "reason": "insufficient_funds"},
                ChargeState(ChargeStatus.FAILED, reason="insufficient_funds"),
            ),
        ],
    )
    async def test_charge_state(
        self, a: Adapter, server: Scripted, data: Any, state: ChargeState
    ) -> None:
        server.answers(200, ok({"reference": "TXN0-1", "currency": "NGN", **data}))
        assert await a.charge_state("TXN0-1") == Done(state)
        assert server.recorded[0].target == "/merchant/api/v1/charges/TXN0-1"

    async def test_banks_resolve_and_balance(self, a: Adapter, server: Scripted) -> None:
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

    async def test_not_found_is_an_answer(self, a: Adapter, server: Scripted) -> None:
        server.answers(404, {"status": False, "message": "Transaction not found", "data": None})
        assert await a.transfer_state("TXN1") == Done(TransferState(TransferStatus.NOT_FOUND))
        assert await a.charge_state("TXN1-1") == Done(ChargeState(ChargeStatus.NOT_FOUND))

    async def test_refund(self, a: Adapter, server: Scripted) -> None:
        server.answers(200, ok({"reference": "TXN9", "status": "processing"}))
        assert await a.refund(REFUND) == Done(RefundState(RefundStatus.PENDING))
        assert server.recorded[0].target == "/merchant/api/v1/refunds/initiate"
        assert server.recorded[0].json == {
            "reference": "TXN9",
            "payment_reference": "TXN0-1",
            "amount": 1015.5,
            "reason": "Returned",
        }
        server.answers(200, ok({"reference": "TXN9", "status": "success", "amount": "1015.50"}))
        assert await a.refund_state("TXN9") == Done(RefundState(RefundStatus.PAID))
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

    async def test_a_duplicate_is_no_refusal(self, a: Adapter, server: Scripted) -> None:
        duplicate = {"status": False, "message": "Duplicate Transaction Reference", "data": None}
        for status in (409, 400):
            server.answers(status, duplicate)
            assert isinstance(await a.send(TRANSFER), Unknown)

    @pytest.mark.parametrize(
        ("event", "kind"),
        [
            ("charge.success", EventKind.CHARGE),
            ("charge.failed", EventKind.CHARGE),
            ("transfer.success", EventKind.TRANSFER),
            ("transfer.failed", EventKind.TRANSFER),
            ("transfer.reversed", EventKind.TRANSFER),
            ("refund.success", EventKind.REFUND),
            ("refund.failed", EventKind.REFUND),
        ],
    )
    def test_webhooks(self, a: Adapter, event: str, kind: EventKind) -> None:
        raw = json.dumps({"event": event, "data": {"reference": "TXN1", "amount": 1}}).encode()
        signature = hmac.new(b"a-hook", raw, hashlib.sha256).hexdigest().encode()
        signed = {b"x-providera-signature": [signature]}
        assert a.read_webhook(signed, raw) == WebhookEvent(kind, "TXN1")
        assert a.read_webhook(signed, raw + b" ") == Forged()
        assert a.read_webhook({}, raw) == Forged()
        assert a.read_webhook({b"x-providera-signature": [signature] * 2}, raw) == Forged()


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
        paid = ChargeState(ChargeStatus.PAID, Money("NGN", 101550), Money("NGN", 1500))
        assert await b.charge_state("TXN0-1") == Done(paid)
        assert server.recorded[0].target == "/pms/transactions/TXN0-1/confirm/"
        for word, status in (("PENDING", ChargeStatus.PENDING), ("FAILED", ChargeStatus.FAILED)):
            server.answers(200, ok({**data, "status": word}))
            answer = await b.charge_state("TXN0-1")
            assert isinstance(answer, Done)
            assert (answer.value.status, answer.value.paid) == (status, None)

    async def test_banks_resolve_and_balance(self, b: Adapter, server: Scripted) -> None:
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
        answer = await b.send(TRANSFER)
        assert isinstance(answer, Done)
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
        expected = TransferState(status, None, None, "r", "s")
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

    async def test_a_duplicate_is_no_refusal(self, b: Adapter, server: Scripted) -> None:
        server.answers(
            400, {"status": False, "message": "Transfer reference already exists", "data": None}
        )
        assert isinstance(await b.send(TRANSFER), Unknown)

    async def test_there_is_no_refund(self, b: Adapter, server: Scripted) -> None:
        answer = await b.refund(REFUND)
        assert isinstance(answer, Refused)
        assert answer.code is RefusalCode.NOT_SUPPORTED
        assert not server.recorded

    def test_webhooks(self, b: Adapter) -> None:
        """No webhook secret is set here, so the secret key is what signs."""
        document = {"transaction": {"reference": "TXN0-1"}, "order": {}, "code": "00"}
        raw = json.dumps(document).encode()
        signature = hmac.new(b"b-secret", raw, hashlib.sha512).hexdigest().encode()
        cgi, plain = b"http_providerb_signature", b"providerb-signature"
        event = WebhookEvent(EventKind.CHARGE, "TXN0-1")
        assert b.read_webhook({cgi: [signature]}, raw) == event
        assert b.read_webhook({plain: [signature]}, raw) == event
        assert b.read_webhook({cgi: [signature], plain: [signature]}, raw) == Forged()
        assert b.read_webhook({plain: [signature]}, raw[:-1]) == Forged()
        short = hmac.new(b"b-secret", raw, hashlib.sha256).hexdigest().encode()
        assert b.read_webhook({plain: [short]}, raw) == Forged()


class TestProviderC:
    async def test_checkout(self, c: Adapter, server: Scripted) -> None:
        server.answers(200, success({"link": "https://c.example/pay/1"}))
        assert await c.create_checkout(CHARGE) == Done(HostedCheckout("https://c.example/pay/1"))
        [sent] = server.recorded
        assert (sent.method, sent.target) == ("POST", "/v3/payments")
        assert sent.headers["authorization"] == "Bearer c-secret"
        body = sent.json
        assert body.pop("customizations")["description"] == "Shoes"
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
                ChargeStatus.PAID, Money("NGN", 101550), Money("NGN", 1450), "Approved", "77"
            )
        )
        assert server.recorded[0].target == "/v3/transactions/verify_by_reference?tx_ref=TXN0-1"

    async def test_refund_goes_by_the_providers_own_number(
        self, c: Adapter, server: Scripted
    ) -> None:
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
        assert await c.refund(REFUND) == Done(RefundState(RefundStatus.PAID))
        assert server.recorded[-1].target == "/v3/transactions/77/refund"
        assert server.recorded[-1].json == {"amount": 1015.5, "reference": "TXN9"}

    async def test_banks_resolve_and_balance(self, c: Adapter, server: Scripted) -> None:
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

    async def test_a_duplicate_is_no_refusal(self, c: Adapter, server: Scripted) -> None:
        server.answers(400, {"status": "error", "message": "Duplicate reference", "data": None})
        assert isinstance(await c.send(TRANSFER), Unknown)

    def test_webhooks(self, c: Adapter) -> None:
        for document, expected in (
            (
                {"event": "charge.completed", "data": {"tx_ref": "TXN0-1", "status": "failed"}},
                WebhookEvent(EventKind.CHARGE, "TXN0-1"),
            ),
            (
                {"event": "transfer.completed", "data": {"reference": "TXN1"}},
                WebhookEvent(EventKind.TRANSFER, "TXN1"),
            ),
        ):
            raw = json.dumps(document).encode()
            signature = hmac.new(b"c-hook", raw, hashlib.sha256).hexdigest().encode()
            assert c.read_webhook({b"x-providerc-signature": [signature]}, raw) == expected
            assert c.read_webhook({b"x-providerc-signature": [b"0" * 64]}, raw) == Forged()

    def test_a_signed_message_outside_the_contract_is_unreadable(self, c: Adapter) -> None:
        for raw in (b"{}", b"not json", b'{"event": "charge.completed", "data": {}}', b"[1]"):
            signature = hmac.new(b"c-hook", raw, hashlib.sha256).hexdigest().encode()
            webhook = c.read_webhook({b"x-providerc-signature": [signature]}, raw)
            assert isinstance(webhook, Unreadable)


def test_amounts_in_these_samples_are_exact() -> None:
    assert CHARGE.amount.amount == Decimal("1015.50")
