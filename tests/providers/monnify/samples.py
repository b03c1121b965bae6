"""Examples of Monnify's responses and webhooks. See tests/simulator/fixtures/README.md."""

from typing import Any

from tests.simulator.examples import example

OWN = "MNFY|17|20261115090811|000340"


def ok(body: Any) -> dict[str, Any]:
    return {
        "requestSuccessful": True,
        "responseMessage": "success",
        "responseCode": "0",
        "responseBody": body,
    }


def refusal(message: str, code: str = "99") -> dict[str, Any]:
    return {"requestSuccessful": False, "responseMessage": message, "responseCode": code}


DOCUMENTED: dict[str, Any] = {
    name: example("monnify", name)["responseBody"]
    for name in (
        *("login", "initialized", "account", "charge", "unpaid charge", "banks", "resolved"),
        *("balance", "sent", "transfer", "refund"),
    )
}
DERIVED: dict[str, Any] = {
    "paid refund": {**DOCUMENTED["refund"], "completedOn": "15/11/2026 4:24:05 PM"},
    "transfer with session": {**DOCUMENTED["transfer"], "sessionId": "090405261115093249726272971"},
}

DOCUMENTED_EVENTS: dict[str, Any] = {
    event["eventType"]: event["eventData"]
    for event in (
        example("monnify", f"webhook_{name}")
        for name in ("transaction", "rejected", "disbursement", "refund")
    )
}
DOCUMENTED_EVENTS["FAILED_DISBURSEMENT"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_DISBURSEMENT"],
    "status": "FAILED",
}
DOCUMENTED_EVENTS["REVERSED_DISBURSEMENT"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_DISBURSEMENT"],
    "status": "REVERSED",
}
DOCUMENTED_EVENTS["FAILED_REFUND"] = {
    **DOCUMENTED_EVENTS["SUCCESSFUL_REFUND"],
    "refundStatus": "FAILED",
}
