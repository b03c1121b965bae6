"""Sends refunds to Paystack and finds them, although they have no field for our reference.

Paystack's own id in the response identifies a refund. The merchant's note contains our reference,
so that a refund can be found in the list even if the response was lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from manilla.ledger import trx_ids
from manilla.providers import reading
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import (
    Answer,
    ChargeState,
    Done,
    KnownAs,
    RefundOrder,
    RefundState,
    Unknown,
)
from manilla.providers.wire import Wire

QueryCharge = Callable[[str], Awaitable[Answer[ChargeState]]]

PER_PAGE = 100
PAGES_MAX = 20
NOTE_LENGTH_MAX = 200
CLOCK_DIFFERENCE = timedelta(days=1)
NOT_LISTED = Unknown("no refund of this charge matches", needs_lookup=True)
AMBIGUOUS = Unknown("several refunds of this charge match", needs_lookup=True)
TOO_MANY = Unknown("too many refunds to search", needs_lookup=True)
NOTHING_TO_ASK_BY = Unknown("Paystack does not know our references of refunds")


class ListedRefund(msgspec.Struct, frozen=True):
    """A refund in Paystack's list that belongs to the requested charge."""

    state: RefundState
    note: str

    def is_noted_as(self, reference: str) -> bool:
        return _noted_reference(self.note) == reference

    @property
    def is_noted_as_ours(self) -> bool:
        return trx_ids.merchant_of(_noted_reference(self.note)) is not None


class RefundPage(msgspec.Struct, frozen=True):
    found: list[ListedRefund]
    is_last: bool


class Refunds:
    """`charge_state` queries a charge, because Paystack's number of it selects its refunds."""

    def __init__(self, pay_in: Wire, charge_state: QueryCharge) -> None:
        self._pay_in = pay_in
        self._charge_state = charge_state

    async def send(self, order: RefundOrder) -> Answer[RefundState]:
        body = {
            "transaction": order.charge_reference,
            "amount": order.amount.minor,
            "currency": order.amount.currency,
            "merchant_note": f"{order.reference}: {order.reason}"[:NOTE_LENGTH_MAX],
        }
        return await self._pay_in.post(
            "/refund",
            body,
            lambda data: answers.refund_state(data, order.charge_reference),
            answers.decide_refund,
        )

    async def state(self, reference: str, known: KnownAs) -> Answer[RefundState]:
        if known.provider_reference is not None:
            return await self._by_id(known.provider_reference, known.charge_reference)
        if known.charge_reference is None:
            return NOTHING_TO_ASK_BY
        return await self._find(reference, known.charge_reference, known)

    async def _by_id(self, refund_id: str, charge_reference: str | None) -> Answer[RefundState]:
        def read(data: Any) -> RefundState:
            state = answers.refund_state(data, charge_reference)
            if state.provider_reference != refund_id:
                raise reading.Malformed("id belongs to another refund")
            return state

        return await self._pay_in.get(f"/refund/{refund_id}", read)

    async def _find(
        self, reference: str, charge_reference: str, known: KnownAs
    ) -> Answer[RefundState]:
        """Searches for a refund whose id we never received.

        If no refund matches, the refund may still exist, because Paystack's list may not show it
        yet.
        """
        charge = await self._charge_state(charge_reference)
        if not isinstance(charge, Done):
            return charge
        charge_id = charge.value.provider_reference
        query = _selection(charge_id, known)
        found: dict[str | None, ListedRefund] = {}
        for number in range(1, PAGES_MAX + 1):
            answer = await self._page(charge_reference, charge_id, query, number)
            if not isinstance(answer, Done):
                return answer
            found |= {each.state.provider_reference: each for each in answer.value.found}
            if answer.value.is_last:
                return _chosen(list(found.values()), reference, known)
        return TOO_MANY

    async def _page(
        self,
        charge_reference: str,
        charge_id: str | None,
        selection: Mapping[str, str],
        number: int,
    ) -> Answer[RefundPage]:
        def read(data: Any) -> RefundPage:
            listed = reading.items(data)
            found = [_listed(each) for each in listed if _is_of(each, charge_reference, charge_id)]
            return RefundPage(found, is_last=len(listed) < PER_PAGE)

        query = {**selection, "perPage": str(PER_PAGE), "page": str(number)}
        return await self._pay_in.get("/refund", read, query=query)


def _selection(charge_id: str | None, known: KnownAs) -> dict[str, str]:
    """Selects the charge's refunds, or the refunds since this refund if the id is not known."""
    if charge_id is not None:
        return {"transaction": charge_id}
    if known.sent_at is None:
        return {}
    return {"from": answers.utc_text(known.sent_at - CLOCK_DIFFERENCE)}


def _noted_reference(note: str) -> str:
    return note.partition(":")[0]


def _is_of(listed: Any, charge_reference: str, charge_id: str | None) -> bool:
    """Returns True if the refund belongs to the charge.

    In Paystack's example of the list, refunds have only the number of their charge.
    """
    if not isinstance(listed, dict):
        return False
    if listed.get("transaction_reference") is None:
        return charge_id is not None and str(listed.get("transaction")) == charge_id
    return reading.optional_text(listed, "transaction_reference") == charge_reference


def _listed(data: Any) -> ListedRefund:
    return ListedRefund(
        answers.refund_state(data, None), reading.optional_text(data, "merchant_note")
    )


def _chosen(found: list[ListedRefund], reference: str, known: KnownAs) -> Answer[RefundState]:
    """Returns the refund with our reference in its note, or the only refund with our amount.

    Without notes, two refunds of the same amount cannot be distinguished.
    """
    noted = [each for each in found if each.is_noted_as(reference)]
    possible = noted or [
        each
        for each in found
        if not each.is_noted_as_ours
        and each.state.amount == known.amount
        and each.state.provider_reference not in known.others
    ]
    if len(possible) == 1:
        return Done(possible[0].state)
    return AMBIGUOUS if possible else NOT_LISTED
