"""Reads Paystack's balance ledger as a statement."""

from datetime import datetime
from typing import Any

from manilla.providers import reading, replies
from manilla.providers.kinds.paystack.answers import page_count, utc_text
from manilla.providers.port import Answer, LineKind, StatementLine, StatementPage
from manilla.providers.replies import Reply
from manilla.providers.wire import Wire

MODELS = {
    "transaction": LineKind.CHARGE,
    "transfer": LineKind.TRANSFER,
    "refund": LineKind.REFUND,
    "dispute": LineKind.DISPUTE,  # not documented
    "fee": LineKind.FEE,
    "settlement": LineKind.SETTLEMENT,
}

# We store Paystack's ids only for these types. An id of another type could match by chance.
HAVE_IDS = (LineKind.CHARGE, LineKind.TRANSFER, LineKind.REFUND)


async def page(
    pay_out: Wire, since: datetime, until: datetime, currency: str, start: str | None
) -> Answer[StatementPage]:
    number = int(start or 1)

    def read(reply: Reply) -> Answer[StatementPage]:
        is_last = page_count(reply.document.get("meta")) == number
        return replies.require_success(
            reply, lambda data: _page(data, currency, number, is_last=is_last)
        )

    query = {"from": utc_text(since), "to": utc_text(until), "page": str(number)}
    return await pay_out.call("GET", "/balance/ledger", read, query=query)


def _page(data: Any, currency: str, number: int, *, is_last: bool) -> StatementPage:
    listed = reading.items(data)
    lines = [_line(each, currency) for each in listed if _currency(each) == currency]
    return StatementPage(lines, None if is_last or not listed else str(number + 1))


def _currency(data: Any) -> str:
    return reading.currency(data, "currency")


def _line(data: Any, currency: str) -> StatementLine:
    model = reading.optional_text(data, "model_responsible").lower()
    kind = MODELS.get(model, LineKind.OTHER)
    has_balance = data.get("balance") is not None
    return StatementLine(
        line_id=reading.text_or_number(data, "id"),
        booked_at=reading.required_moment(data, "createdAt"),
        amount=reading.signed_kobo(data, "difference", currency),
        kind=kind,
        # The merchant writes the narration, so it is not searched for a reference.
        provider_reference=reading.optional_id(data, "model_row") if kind in HAVE_IDS else None,
        description=reading.optional_text(data, "reason"),
        balance_after=reading.signed_kobo(data, "balance", currency) if has_balance else None,
    )
