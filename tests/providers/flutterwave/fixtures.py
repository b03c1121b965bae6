"""Examples of Flutterwave's responses. See tests/simulator/fixtures/README.md."""

from typing import Any

from tests.simulator.examples import example


def success(data: Any, message: str = "ok", **more: Any) -> dict[str, Any]:
    return {"status": "success", "message": message, "data": data, **more}


def error(message: str, data: Any = None) -> dict[str, Any]:
    return {"status": "error", "message": message, "data": data}


DOCUMENTED: dict[str, Any] = {
    name: example("flutterwave", name)
    for name in (
        *("one_time_account", "charge", "refund", "banks", "account", "balance"),
        *("transfer", "transfers", "chargebacks", "chargeback", "uploaded_image"),
    )
}
AUTHORIZATION = DOCUMENTED["one_time_account"]["meta"]["authorization"]
CHARGE, REFUND = DOCUMENTED["charge"]["data"], DOCUMENTED["refund"]["data"]
TRANSFER = DOCUMENTED["transfer"]["data"]
DERIVED: dict[str, Any] = {
    "payment_link": example("flutterwave", "payment_link", "derived"),
    # In Flutterwave's sandbox, the mock account's expiry time equals its creation time.
    "mock_account": {**AUTHORIZATION, "account_expiration": 1689847855598},
    "no_transfers": success([], "Transfers fetched", meta={"page_info": {"total": 0}}),
    "balances": success(
        [
            {"currency": "USD", "available_balance": 1, "ledger_balance": 1},
            {"currency": "NGN", "available_balance": "12.509", "ledger_balance": 13},
        ]
    ),
    "unknown_charge": error("No transaction was found for this id"),
}
