"""The receipt of a successful payment: as a page, as a PDF and by email."""

from manilla.checkout.page import CheckoutPage
from manilla.checkout.rendering import show_page, show_receipt_page
from manilla.checkout.request import CheckoutRequest
from manilla.kit.errors import Refusal, translatable
from manilla.kit.texts import is_email
from manilla.payments.checkout import CheckoutView
from manilla.payments.payment import PaymentStatus
from manilla.web.receipts import pages
from manilla.web.receipts.receipt import Receipt
from manilla.web.serving.response import PageResponse

EMAIL_LENGTH_MAX = 100
NO_EMAIL = translatable("Enter an email address.")


async def show(request: CheckoutRequest) -> PageResponse:
    view = await request.view()
    receipt = await _receipt(request, view)
    return request.redirect() if receipt is None else show_receipt_page(request, view, receipt)


async def send_pdf(request: CheckoutRequest) -> PageResponse:
    receipt = await _receipt(request, await request.view())
    return (
        request.redirect() if receipt is None else await pages.send_pdf(request.services, receipt)
    )


async def send_email(request: CheckoutRequest) -> PageResponse:
    email = await request.field("email")
    view = await request.view()
    if view.payment.status is not PaymentStatus.SUCCESS or not request.services.has_mail:
        return request.redirect()
    try:
        if len(email) > EMAIL_LENGTH_MAX or not is_email(email):
            return show_page(request, CheckoutPage.SUCCESS, view, 400, alert=NO_EMAIL)
        await request.services.checkout.mail_receipt(request.trx_id, email, request.language)
    except Refusal as refusal:
        return show_page(request, CheckoutPage.SUCCESS, view, refusal.status, alert=refusal.text)
    return request.redirect(mailed="1")


async def _receipt(request: CheckoutRequest, view: CheckoutView) -> Receipt | None:
    """Returns the receipt, or None if the payment is not successful.

    The receipt does not contain the customer's name, because other people may have the link.
    """
    if view.payment.status is not PaymentStatus.SUCCESS:
        return None
    return await pages.of_payment(
        request.services, view.payment, request.language, names_customer=False
    )
