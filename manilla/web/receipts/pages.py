"""Receipt pages, PDF receipts, and the public page that verifies a receipt.

The dashboard shows receipts to merchants, and checkout shows them to customers.
"""

from datetime import datetime

import msgspec

from manilla.kit.errors import Unavailable
from manilla.kit.isolation.calls import IsolatedCalls
from manilla.kit.money import Money
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.ledger import timeline, trx_ids
from manilla.merchants import branding
from manilla.methods.method import MethodKind
from manilla.payments import store as payments
from manilla.payments.payment import Charge, Payment
from manilla.payments.ways import LABELS
from manilla.payouts import store as payouts
from manilla.payouts.payout import Payout
from manilla.providers.port import Channel
from manilla.refunds.refund import RefundStatus, refunded_minor
from manilla.refunds.store import refunds_of
from manilla.services import Services
from manilla.web import qr_code
from manilla.web.layout import Layout
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.receipts import contents
from manilla.web.receipts.contents import PaymentFacts
from manilla.web.receipts.receipt import Receipt
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

VERIFY = "/verify"

_draw = IsolatedCalls(
    "manilla.web.receipts.pdf:draw",
    bytes,
    refusal=Unavailable,
    too_long=Unavailable.message,
    waiting_max=8,
)


async def show_payment(request: PageRequest) -> PageResponse:
    return _show(request, await _payment_receipt(request), "payments")


async def send_payment(request: PageRequest) -> PageResponse:
    return await send_pdf(request.services, await _payment_receipt(request))


async def show_payout(request: PageRequest) -> PageResponse:
    return _show(request, await _payout_receipt(request), "payouts")


async def send_payout(request: PageRequest) -> PageResponse:
    return await send_pdf(request.services, await _payout_receipt(request))


async def _payment_receipt(request: PageRequest) -> Receipt:
    found = await payments.payment(request.db, request.merchant_id, request.parameter("trx_id"))
    if found is None or found.environment != request.environment:
        raise PageNotFound
    return await of_payment(request.services, found)


async def _payout_receipt(request: PageRequest) -> Receipt:
    found = await payouts.payout(request.db, request.merchant_id, request.parameter("payout"))
    if found is None or found.environment != request.environment:
        raise PageNotFound
    return await _of_payout(request.services, found)


def _show(request: PageRequest, receipt: Receipt, kind: str) -> PageResponse:
    return request.page(
        "receipt.html",
        receipt=receipt,
        back=request.at(f"~/{kind}/{receipt.trx_id}"),
        picture=qr_code.data_uri(receipt.verification_url),
    )


async def send_pdf(services: Services, receipt: Receipt) -> PageResponse:
    site_name = services.platform.now.site_name
    content = await _draw.run(receipt, site_name)
    name = f"receipt-{receipt.trx_id}.pdf"
    return PageResponse(
        content,
        media_type="application/pdf",
        headers={"Content-Disposition": f'inline; filename="{name}"', **NO_STORE},
    )


async def of_payment(
    services: Services,
    payment: Payment,
    language: CustomerLanguage = ENGLISH,
    *,
    names_customer: bool = True,
) -> Receipt:
    caller = await services.directory.of(payment.environment, payment.merchant_id)
    url = _verification_url(services, payment.trx_id)
    facts = await _facts(services, payment)
    receipt = contents.of_payment(
        payment, caller.name, url, facts, language, names_customer=names_customer
    )
    brand = await branding.find(services.db, payment.merchant_id)
    version = brand.logo_version
    return msgspec.structs.replace(
        receipt,
        support=brand.support,
        logo=await branding.read_logo(services.db, payment.merchant_id, version)
        if version
        else None,
    )


async def _facts(services: Services, payment: Payment) -> PaymentFacts:
    refunds = await refunds_of(services.db, payment.merchant_id, payment.trx_id)
    done = [each for each in refunds if each.status is RefundStatus.COMPLETED]
    charge = payment.credited_charge and await payments.charge(
        services.db, payment.merchant_id, payment.credited_charge
    )
    return PaymentFacts(
        since=await _status_since(services, payment),
        refunded=Money(payment.currency, refunded_minor(refunds, RefundStatus.COMPLETED)),
        returned=Money(payment.currency, sum(each.customer_credit_minor for each in done)),
        way=_way(services, charge) if charge else None,
    )


def _way(services: Services, charge: Charge) -> str:
    """Returns how the customer paid: the channel, or else the name of the method."""
    if charge.channel is not None:
        return LABELS[charge.channel]
    if charge.is_bank_transfer:
        return LABELS[Channel.BANK_TRANSFER]
    names = services.methods.names(MethodKind.DEPOSIT)
    return names.get(charge.method_code, charge.method_code)


async def _of_payout(services: Services, payout: Payout) -> Receipt:
    caller = await services.directory.of(payout.environment, payout.merchant_id)
    bank = services.banks.name_of(payout)
    since = await _status_since(services, payout)
    url = _verification_url(services, payout.trx_id)
    return contents.of_payout(payout, caller.name, url, since=since, bank=bank)


def _verification_url(services: Services, trx_id: str) -> str:
    return f"{services.base_url}{VERIFY}/{trx_id}/{contents.sign(services.keyring, trx_id)}"


async def _status_since(services: Services, row: Payment | Payout) -> datetime:
    """Returns the time of the transaction's last status change.

    The row's own update time is not used, because a refund also updates a payment's row.
    """
    steps = await timeline.steps(services.db, row.merchant_id, row.trx_id)
    arrived = [
        step.at
        for step in steps
        if step.to_status == row.status and step.from_status != step.to_status
    ]
    return arrived[-1] if arrived else row.created_at


def verification(layout: Layout) -> UrlHandler:
    """Returns the handler of the public page that verifies a receipt.

    Anyone with the URL can open the page. The URL contains a signature, so it cannot be guessed.
    """

    async def verify(request: WebRequest) -> PageResponse:
        trx_id, signature = (str(request.parameters[name]) for name in ("trx_id", "signature"))
        found = await _find_signed(layout.services, trx_id, signature)
        template = "verify.html" if found else "verify_unknown.html"
        text = layout.render(template, receipt=found, flash=None)
        return PageResponse.html(text, 200 if found else 404, headers=NO_STORE)

    return UrlHandler("GET", VERIFY + "/{trx_id:str}/{signature:str}", verify)


async def _find_signed(services: Services, trx_id: str, signature: str) -> Receipt | None:
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is None or not contents.is_signed(services.keyring, trx_id, signature):
        return None
    if (payment := await payments.payment(services.db, merchant_id, trx_id)) is not None:
        return await of_payment(services, payment)
    payout = await payouts.payout(services.db, merchant_id, trx_id)
    return None if payout is None else await _of_payout(services, payout)
