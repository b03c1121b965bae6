"""Sample requests to the providers, and the envelopes of the providers' responses."""

from datetime import UTC, datetime
from typing import Any

from manilla.kit.money import Money
from manilla.providers.port import (
    ChargeOrder,
    DisputeAnswer,
    EvidenceFile,
    RefundOrder,
    TransferOrder,
)

CHARGE = ChargeOrder(
    reference="TXN0-1",
    amount=Money("NGN", 101550),
    description="Shoes",
    customer_name="Ada Obi",
    customer_email="ada@example.com",
    redirect_url="https://pay.example.com/return",
    notification_url="https://pay.example.com/webhooks/providera",
    merchant_name="Obi Shoes",
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
PERIOD = (datetime(2026, 11, 14, 23, tzinfo=UTC), datetime(2026, 11, 15, 23, tzinfo=UTC))
REFUND = RefundOrder("TXN9", "TXN0-1", Money("NGN", 101550), "Returned")
ACCEPTANCE = DisputeAnswer(
    provider_reference="1",
    is_accepted=True,
    amount=Money("NGN", 101550),
    disputed=Money("NGN", 101550),
)
EVIDENCE = EvidenceFile("receipt.pdf", "application/pdf", b"%PDF-1.7")


def ok(data: Any) -> dict[str, Any]:
    return {"status": True, "message": "ok", "data": data}


def success(data: Any) -> dict[str, Any]:
    return {"status": "success", "message": "ok", "data": data}
