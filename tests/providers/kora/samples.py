"""Requests and responses in Kora's format, with our own values."""

from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import RefundOrder
from tests.providers import samples
from tests.simulator import examples

TRX_ID = "TXN" + "0" * 30
assert trx_ids.merchant_of(TRX_ID) == 0
REFERENCE = f"{TRX_ID}-1"
KORA_REFERENCE = "KPY-PAY-u3WuJ7aBcDeF"

CHARGE = msgspec.structs.replace(samples.CHARGE, reference=REFERENCE)
TRANSFER = msgspec.structs.replace(samples.TRANSFER, reference=TRX_ID)
REFUND = RefundOrder(TRX_ID, REFERENCE, Money("NGN", 101550), "Returned")


def sample(name: str, origin: str = "documented") -> Any:
    """Returns the data in an example of Kora's responses."""
    return examples.example("kora", name, origin, TRX_ID=TRX_ID, CHARGE_REFERENCE=REFERENCE)["data"]


DOCUMENTED: dict[str, dict[str, Any]] = {
    name: sample(name)
    for name in (
        "checkout",
        "virtual_account",
        "charge",
        "resolved",
        "sent",
        "new_refund",
        "refund",
    )
}
DERIVED: dict[str, dict[str, Any]] = {"transfer": sample("transfer", "derived")}


def ok(data: Any) -> dict[str, Any]:
    return {"status": True, "message": "success", "data": data}


def error(message: str, data: Any = None) -> dict[str, Any]:
    return {"status": False, "message": message, "data": data}
