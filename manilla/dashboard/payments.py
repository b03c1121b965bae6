"""Payments: the list, the page of one payment, and refunds."""

from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.lookup.payment import PaymentStory, payment_story
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.people.roles import Permission
from manilla.refunds import initiate
from manilla.refunds.books import RefundNotCovered, RefundRefused
from manilla.refunds.refund import REASON_LENGTH_MAX
from manilla.services import Services
from manilla.web import exports, lists, story
from manilla.web.layout import NotHere
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

AT_AMOUNT = ((RefundRefused, "amount"), (RefundNotCovered, "amount"))

COLUMNS = payments.FIELDS.select(
    "trx_id ref_trx status error_code currency amount commission_fee commission_bearer"
    " customer_paid refunded customer_name customer_email description created_at updated_at"
)


class PaymentPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        path = "/{environment:str}/payments"
        one = path + "/{trx_id:str}"
        return [
            page(path, self.show_all, Permission.VIEW),
            page(one, self.show, Permission.VIEW),
            page(one + "/refund", self.show_refund, Permission.MOVE_MONEY),
            form(one + "/refund", self.refund, Permission.MOVE_MONEY, step_up=True),
        ]

    async def show_all(self, request: PageRequest) -> Answer:
        tenant, wanted = _tenant(request), _filter(request)
        if exports.is_wanted(request):
            pages = payments.all_payments(self._desk.db, tenant, wanted)
            return exports.send(request, "payments", COLUMNS, pages)
        found = await payments.payments(self._desk.db, tenant, wanted, after=lists.after(request))
        caller = await self._desk.directory.of(request.environment, request.merchant_id)
        return request.page(
            "payments.html",
            rows=found.rows,
            listing=lists.ListView(request, found.next),
            currencies=[(code, code) for code in sorted(caller.currencies)],
        )

    async def show(self, request: PageRequest) -> Answer:
        told = await self._story(request)
        if (news := request.watched(_version(told))) is not None:
            return news
        return request.page("payment.html", **_about(told), happenings=story.of_payment(told))

    async def show_refund(self, request: PageRequest) -> Answer:
        return request.page("refund.html", **_about(await self._story(request)))

    async def refund(self, request: PageRequest) -> Answer:
        told = await self._story(request)
        payment = told.payment
        try:
            whole = not request.form.text("amount")
            amount = None if whole else request.form.money("amount", payment.currency)
            refund = await initiate.start(
                self._desk.db,
                payment.trx_id,
                None if amount is None else f"{amount.amount:f}",
                request.form.needed("reason", at_most=REASON_LENGTH_MAX),
                refunded_before=request.form.whole("refunded_before"),
            )
        except initiate.RefundedMeanwhile as refusal:
            return request.redirect(f"~/payments/{payment.trx_id}", failed=refusal.text)
        except Refusal as refusal:
            return request.refused("refund.html", refusal, at=AT_AMOUNT, **_about(told))
        done = f"Refund of {money(refund.amount)} started."
        return request.redirect(f"~/payments/{payment.trx_id}", done=done)

    async def _story(self, request: PageRequest) -> PaymentStory:
        found = await payment_story(
            self._desk.db,
            request.merchant_id,
            request.parameter("trx_id"),
            environment=request.environment,
        )
        if found is None:
            raise NotHere
        return found


def _about(told: PaymentStory) -> dict[str, Any]:
    payment = told.payment
    return {
        "payment": payment,
        "held": told.held,
        "version": _version(told),
        "quote": payment.quote,
        "refunds": told.refunds,
        "refundable": payment.refundable,
        "is_refundable": payment.refundable.minor > 0,
    }


def _version(told: PaymentStory) -> str:
    """Changes with every event of the payment, including those that keep its status."""
    return f"{told.payment.status}-{len(told.steps)}"


def _tenant(request: PageRequest) -> Tenant:
    return Tenant(request.merchant_id, request.environment)


def _filter(request: PageRequest) -> PaymentFilter:
    query = request.query
    wanted = listing.read_filter(
        PaymentFilter,
        {
            "status": query.text("status"),
            "currency": query.text("currency"),
            "search": query.text("q"),
        },
    )
    return msgspec.structs.replace(
        wanted, since=lists.day(query, "since"), until=lists.day(query, "until", is_end=True)
    )
