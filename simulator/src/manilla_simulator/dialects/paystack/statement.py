"""Paystack's balance and its balance ledger. The ledger serves as the account statement."""

from datetime import UTC, datetime

from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.dialects.paystack.common import INTEGRATION, domain, page_of
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Movement
from manilla_simulator.wire import Answer, Ask, Denial, Refused

MODELS = {
    "charge": "Transaction",
    "transfer": "Transfer",
    "refund": "Refund",
    "dispute": "Dispute",
    "": "Topup",
}


def balance(provider: Provider, _ask: Ask) -> Answer:
    listed = [{"currency": CURRENCY, "balance": provider.wallet.available.minor}]
    return Answer(listed, "Balances retrieved")


def ledger(provider: Provider, ask: Ask) -> Answer:
    matching = [each for each in reversed(provider.statement) if is_within(ask, each.at)]
    page, meta = page_of(ask, matching, provider.faults.statement_overlap)
    listed = [
        {
            "integration": INTEGRATION,
            "domain": domain(provider),
            "balance": movement.balance.minor,
            "currency": CURRENCY,
            "difference": movement.difference.minor,
            "reason": _reason(provider, movement),
            "model_responsible": MODELS[movement.kind],
            "model_row": movement.item_number,
            "id": movement.number,
            "createdAt": iso_milliseconds(movement.at),
            "updatedAt": iso_milliseconds(movement.at),
        }
        for movement in page
    ]
    return Answer(listed, "Balance ledger retrieved", more={"meta": meta})


def _reason(provider: Provider, movement: Movement) -> str:
    """Returns the statement line's reason. A transfer's reason comes from the transfer request."""
    transfer = provider.transfers.get(movement.reference) if movement.kind == "transfer" else None
    return transfer.narration if transfer else MODELS[movement.kind]


def is_within(ask: Ask, moment: datetime) -> bool:
    """Returns whether the time is between the query's `from` and `to`. A date means midnight."""
    start, end = _time(ask, "from"), _time(ask, "to")
    return (start is None or start <= moment) and (end is None or moment <= end)


def _time(ask: Ask, name: str) -> datetime | None:
    text = ask.query.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(Denial(400, f"Invalid '{name}' date", "invalid_params", name)) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
