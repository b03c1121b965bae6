"""Accepts chargebacks at Kora.

Kora documents one call, and of its fields only those of an acceptance completely. Every other
answer is given in Kora's dashboard.
"""

from datetime import datetime
from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kinds.kora.answers import NAIRA
from manilla.providers.port import Answer, DisputeState, RefusalCode, Refused, Unknown
from manilla.providers.port import ReportedDisputeStatus as Status
from manilla.providers.reading import Malformed
from manilla.providers.wire import Wire

PATH = "/api/v1/chargebacks"  # without the prefix of Kora's other calls, as documented
STATUSES = {"accepted": Status.ACCEPTED}

NO_LIST = Refused(RefusalCode.NOT_SUPPORTED, "Kora's API has no list of chargebacks.")
NO_FILES = Refused(RefusalCode.NOT_SUPPORTED, "Send the evidence in Kora's dashboard.")
MANUAL = Refused(
    RefusalCode.NOT_SUPPORTED,
    "Contest this chargeback, or accept a part of it, in Kora's dashboard.",
)
NO_STATE = Unknown(
    "Kora's API has no status query for chargebacks", never_sent=True, needs_lookup=True
)
NO_REFERENCE = Unknown(
    "this is not a reference of a chargeback", never_sent=True, needs_lookup=True
)


class KoraChargebacks:
    can_list = False
    files_max = 0
    needs_file = False

    def __init__(self, pay_in: Wire) -> None:
        self._pay_in = pay_in

    def evidence_fields(self, category: str) -> tuple[port.EvidenceField, ...]:
        del category
        return ()

    async def listed(
        self, since: datetime, until: datetime, start: str | None = None
    ) -> Answer[port.DisputePage]:
        return NO_LIST

    async def state(self, provider_reference: str) -> Answer[DisputeState]:
        return NO_STATE

    async def upload(self, provider_reference: str, file: port.EvidenceFile) -> Answer[str]:
        return NO_FILES

    async def answer(self, answer: port.DisputeAnswer) -> Answer[DisputeState]:
        """Accepts the whole chargeback.

        Kora requires fields with unknown names for other answers. Only one answer can be given, so
        none is sent incompletely.
        """
        if not answer.is_accepted or answer.amount != answer.disputed:
            return MANUAL
        reference = answer.provider_reference
        if not (reference.isascii() and reference.replace("-", "").replace("_", "").isalnum()):
            return NO_REFERENCE
        found = await self._pay_in.call(
            "PATCH",
            f"{PATH}/{reference}",
            lambda reply: replies.require_success(
                reply, lambda data: _state_of(data, reference, answer.amount)
            ),
            body={"status": "accepted"},
        )
        # Only a person can find out what happened, because Kora has no status query.
        is_unclear = isinstance(found, Unknown) and not found.never_sent
        return msgspec.structs.replace(found, needs_lookup=True) if is_unclear else found


def _state_of(data: Any, reference: str, amount: Money) -> DisputeState:
    """Parses the response, whose fields Kora does not document.

    Only a response that names the chargeback as accepted is conclusive.
    """
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(STATUSES, data, "status")
    if data.get("currency") not in (None, NAIRA):
        raise Malformed("currency is not naira")
    if reading.optional_money(data, "amount", NAIRA) not in (None, amount):
        raise Malformed("another amount was accepted")
    return DisputeState(provider_reference=reference, status=status, amount=amount)
