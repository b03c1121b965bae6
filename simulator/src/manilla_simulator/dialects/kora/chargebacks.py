"""Kora's chargebacks, which can be accepted. The fields of other answers are not documented."""

from manilla_simulator import disputes as core
from manilla_simulator.dialects.kora.common import account_of
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, DisputeStatus
from manilla_simulator.wire import Answer, Ask, invalid

ACCEPTED = "accepted"
CONTESTED = ("declined", "partial")


def answer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("status", "evidence")
    dispute = core.find_open(provider, ask.parameters["reference"])
    status = fields.text("status")
    if status in CONTESTED:
        fields.text("evidence")
        raise invalid("another field is required", "status")
    if status != ACCEPTED:
        raise invalid("status must be accepted, declined or partial", "status")
    core.change(provider, dispute, DisputeStatus.ACCEPTED)
    data = {
        "reference": dispute.reference,
        "status": ACCEPTED,
        "amount": str(dispute.amount.amount),
        "currency": CURRENCY,
    }
    has_data = account_of(provider).chargeback_answers_have_data
    return Answer(data if has_data else None, "Chargeback updated successfully")
