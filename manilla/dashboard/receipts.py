"""Receipts: a page and a PDF for each payment and payout, and a public verification page."""

import asyncio
from datetime import datetime
from typing import Any

import segno
from litestar import MediaType, Request, Response
from litestar import get as litestar_get
from litestar.handlers import HTTPRouteHandler

from manilla.dashboard import receipt
from manilla.dashboard.receipt import Receipt
from manilla.kit.environment import Environment
from manilla.ledger import timeline, trx_ids
from manilla.payments import queries as payments
from manilla.payments.payment import Payment
from manilla.payouts import queries as payouts
from manilla.payouts.payout import Payout
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web.layout import Layout, NotHere
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.routes import Answer, Handler, Route, page, part

VERIFY = "/verify"
# Name of the path parameter, by type of transaction.
PARAMETERS = {"payments": "trx_id", "payouts": "payout"}


class ReceiptPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk
        self._previews = desk.previews

    def routes(self) -> list[Route]:
        routes = []
        for kind, parameter in PARAMETERS.items():
            path = f"/{{environment:str}}/{kind}/{{{parameter}:str}}/receipt"
            routes.append(page(path, self._shown(kind), Permission.VIEW))
            routes.append(part(path + ".pdf", self._sent(kind), Permission.VIEW))
        return routes

    def _shown(self, kind: str) -> Handler:
        async def show(request: PageRequest) -> Answer:
            made = await self._receipt(request, kind)
            return request.page(
                "receipt.html",
                receipt=made,
                back=request.at(f"~/{kind}/{made.trx_id}"),
                picture=segno.make(made.address, error="m").svg_data_uri(scale=4, border=2),
            )

        return show

    def _sent(self, kind: str) -> Handler:
        async def send(request: PageRequest) -> Answer:
            made = await self._receipt(request, kind)
            site_name = self._desk.platform.now.site_name
            content = await asyncio.to_thread(_render_pdf, made, site_name)
            name = f"receipt-{made.trx_id}.pdf"
            return Response(
                content,
                media_type="application/pdf",
                headers={"Content-Disposition": f'inline; filename="{name}"', **NO_STORE},
            )

        return send

    async def _receipt(self, request: PageRequest, kind: str) -> Receipt:
        trx_id = request.parameter(PARAMETERS[kind])
        found = await self.find(request.merchant_id, trx_id, kind, request.environment)
        if found is None:
            raise NotHere
        return found

    async def find(
        self, merchant_id: int, trx_id: str, kind: str, environment: Environment | None = None
    ) -> Receipt | None:
        """Returns None if the merchant has no such transaction in the environment, if given."""
        address = (
            f"{self._desk.base_url}{VERIFY}/{trx_id}/{receipt.sign(self._desk.keyring, trx_id)}"
        )
        if kind == "payments":
            payment = await payments.payment(self._desk.db, merchant_id, trx_id)
            if payment is None or environment not in (None, payment.environment):
                return None
            caller = await self._desk.directory.of(payment.environment, merchant_id)
            since = await self._status_since(payment)
            return receipt.of_payment(payment, caller.name, address, since=since)
        payout = await payouts.payout(self._desk.db, merchant_id, trx_id)
        if payout is None or environment not in (None, payout.environment):
            return None
        caller = await self._desk.directory.of(payout.environment, merchant_id)
        bank = await self._previews.bank_name(payout)
        since = await self._status_since(payout)
        return receipt.of_payout(payout, caller.name, address, since=since, bank=bank)

    async def _status_since(self, row: Payment | Payout) -> datetime:
        """When the row got its current status.

        A refund changes the row but not the time of payment.
        """
        steps = await timeline.steps(self._desk.db, row.merchant_id, row.trx_id)
        arrived = [
            step.at
            for step in steps
            if step.to_status == row.status and step.from_status != step.to_status
        ]
        return arrived[-1] if arrived else row.created_at


def verification(desk: Services, layout: Layout) -> HTTPRouteHandler:
    """Public: anyone with the link to a receipt can open it. The URL cannot be guessed."""
    receipts = ReceiptPages(desk)

    @litestar_get(VERIFY + "/{trx_id:str}/{signature:str}", media_type=MediaType.HTML)
    async def verify(request: Request[Any, Any, Any]) -> Response[str]:
        trx_id, signature = (str(request.path_params[name]) for name in ("trx_id", "signature"))
        merchant_id = trx_ids.merchant_of(trx_id)
        found = None
        if merchant_id is not None and receipt.is_signed(desk.keyring, trx_id, signature):
            found = await receipts.find(merchant_id, trx_id, "payments")
            found = found or await receipts.find(merchant_id, trx_id, "payouts")
        template = "verify.html" if found else "verify_unknown.html"
        text = layout.render(template, receipt=found, flash=None)
        return Response(
            text, status_code=200 if found else 404, media_type=MediaType.HTML, headers=NO_STORE
        )

    return verify


def _render_pdf(made: Receipt, site_name: str) -> bytes:
    # Imported for the first PDF only, because it takes a third of the program's startup time.
    from manilla.dashboard import receipt_pdf

    return receipt_pdf.draw(made, site_name)
