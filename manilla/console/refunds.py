"""Refunds: those to pay manually, and the list of all."""

from typing import Any

from manilla.audit import audit
from manilla.audit.audit import Filters
from manilla.console import queues
from manilla.console.desk import ConsoleDesk
from manilla.console.providers import NAMES
from manilla.kit import ids, listing
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.merchants import merchants, roster
from manilla.payments import listing as payments
from manilla.payments import refund_queries, refunds
from manilla.payments.listing import RefundFilter
from manilla.payments.payment import Payment
from manilla.payments.refund_books import RefundRefused
from manilla.payments.refund_queries import Refund, RefundStatus
from manilla.payments.story import payment_story
from manilla.people.roles import Permission
from manilla.web import exports, lists, story
from manilla.web.exports import Column
from manilla.web.routes import Answer, Route, form, page
from manilla.web.shell import NotHere
from manilla.web.visit import Visit

TEMPLATE, NEW = "queue_refund.html", "transaction_refund.html"
QUEUE_ROWS = 200

COLUMNS: tuple[Column[Refund], ...] = (
    Column("trx_id", lambda row: row.trx_id),
    Column("payment_trx_id", lambda row: row.payment_trx_id),
    Column("merchant_id", lambda row: row.merchant_id),
    Column("environment", lambda row: str(row.environment)),
    Column("status", lambda row: str(row.status)),
    Column("currency", lambda row: row.currency),
    Column("amount", lambda row: row.amount.amount),
    Column("reason", lambda row: row.reason),
    Column("provider", lambda row: row.provider),
    Column("by_operator", lambda row: "yes" if row.by_operator else "no"),
    Column("detail", lambda row: row.detail),
    Column("created_at", lambda row: row.created_at),
)


class RefundPages:
    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one, needs = "/refunds/{refund:str}", Permission.PAYOUT_DESK
        return [
            page("/refunds", self.show_all, Permission.CONSOLE_VIEW),
            page(one, self.show, Permission.CONSOLE_VIEW),
            form(one + "/confirm", self.confirm, needs, step_up=True),
            form(one + "/reject", self.reject, needs, step_up=True),
            page("/transactions/{trx_id:str}/refund", self.show_new, needs),
            form("/transactions/{trx_id:str}/refund", self.start, needs, step_up=True),
        ]

    async def show_new(self, visit: Visit) -> Answer:
        return visit.page(NEW, **await self._about_payment(visit))

    async def start(self, visit: Visit) -> Answer:
        """Starts a refund on the merchant's behalf, whatever the merchant's status."""
        about = await self._about_payment(visit)
        payment: Payment = about["payment"]
        try:
            given = visit.form.text("amount")
            amount = visit.form.money("amount", payment.currency) if given else None
            refund = await refunds.start(
                self._desk.db,
                payment.trx_id,
                None if amount is None else f"{amount.amount:f}",
                visit.form.needed("reason", at_most=refunds.REASON_LENGTH_MAX),
                refunded_before=visit.form.whole("refunded_before"),
                on_behalf=True,
                with_commission=visit.form.is_ticked("with_commission"),
            )
        except Refusal as refusal:
            return visit.refused(NEW, refusal, **about)
        done = f"Refund of {money(refund.amount)} started."
        return visit.redirect(f"/refunds/{refund.trx_id}", done=done)

    async def _about_payment(self, visit: Visit) -> dict[str, Any]:
        db, trx_id = self._desk.db, visit.parameter("trx_id")
        merchant_id = ids.merchant_of(trx_id)
        told = None if merchant_id is None else await payment_story(db, merchant_id, trx_id)
        if told is None:
            raise NotHere
        payment = told.payment
        return {
            "payment": payment,
            "merchant": await merchants.get(db, payment.merchant_id),
            "refundable": payment.refundable,
            "commission": payment.quote.customer_pays - payment.amount,
        }

    async def show_all(self, visit: Visit) -> Answer:
        db, scope = self._desk.db, queues.money_scope(visit)
        wanted = listing.read_filter(
            RefundFilter, {"status": visit.query.text("status"), "search": visit.query.text("q")}
        )
        if exports.is_wanted(visit):
            pages = payments.all_refunds(db, scope, wanted)
            return exports.send(visit, "refunds", COLUMNS, pages)
        found = await payments.refunds(db, scope, wanted, after=lists.after(visit))
        view = lists.ListView(visit, found.next, views=queues.VIEWS)
        is_plain = not (view.is_filtered or view.is_later)
        waiting = await refund_queries.waiting(db, scope, QUEUE_ROWS) if is_plain else []
        return visit.page(
            "queue_refunds.html",
            rows=found.rows,
            waiting=waiting,
            is_plain=is_plain,
            names=await roster.names(db, (row.merchant_id for row in [*waiting, *found.rows])),
            listing=view,
            statuses=[(status.value, status.value.title()) for status in RefundStatus],
        )

    async def show(self, visit: Visit) -> Answer:
        return visit.page(TEMPLATE, **await self._details(visit))

    async def confirm(self, visit: Visit) -> Answer:
        return await self._decide(
            visit, "note", "Confirmed. The merchant is notified.", is_paid=True
        )

    async def reject(self, visit: Visit) -> Answer:
        done = "Rejected. The money was returned to the merchant's wallet."
        return await self._decide(visit, "reason", done, is_paid=False)

    async def _decide(self, visit: Visit, field: str, done: str, *, is_paid: bool) -> Answer:
        trx_id = visit.parameter("refund")
        try:
            await refunds.decide(
                self._desk.db, trx_id, is_paid=is_paid, detail=visit.form.text(field)
            )
        except Refusal as refusal:
            return await self._refused(visit, refusal)
        return visit.redirect(f"/refunds/{trx_id}", done=done)

    async def _refused(self, visit: Visit, refusal: Refusal) -> Answer:
        """If somebody else has already decided the refund, the error includes that decision."""
        details = await self._details(visit)
        if details["decision"] is not None and isinstance(refusal, RefundRefused):
            refusal = RefundRefused(f"{refusal.text} {details['decision']}")
        return visit.refused(TEMPLATE, refusal, **details)

    async def _details(self, visit: Visit) -> dict[str, Any]:
        db, refund = self._desk.db, await self._refund(visit)
        told = await payment_story(db, refund.merchant_id, refund.payment_trx_id)
        assert told is not None
        about = Filters(merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}")
        return {
            "refund": refund,
            "payment": told.payment,
            "merchant": await merchants.get(db, refund.merchant_id),
            "happenings": story.of_payment(told, all_accounts=True),
            "decision": await refunds.decision(db, refund),
            "hold": await refunds.hold_of(db, refund),
            "providers": NAMES,
            "lines": await audit.listed(db, about),
        }

    async def _refund(self, visit: Visit) -> Refund:
        trx_id = visit.parameter("refund")
        merchant_id = ids.merchant_of(trx_id)
        found = None
        if merchant_id is not None:
            found = await refund_queries.refund(self._desk.db, merchant_id, trx_id)
        if found is None:
            raise NotHere
        return found
