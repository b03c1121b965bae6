"""A receipt's contents, and the signature that proves that the receipt is genuine."""

import hmac
from datetime import datetime

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.display import clean, money
from manilla.kit.errors import translatable
from manilla.kit.money import Money
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.payments.payment import Payment, PaymentStatus
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.prices.price import TaxBearer
from manilla.prices.wording import tax_title
from manilla.web.receipts.receipt import Lines, Receipt

PURPOSE = "receipt"
SIGNATURE_CHARACTERS = 20


class PaymentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a receipt says about a payment, besides the payment's own fields."""

    since: datetime  # when the payment got its status
    refunded: Money  # the total of the completed refunds
    returned: Money  # received money that the payment did not need, and that was paid back
    way: str | None  # how the customer paid, None if unknown


def sign(keyring: Keyring, trx_id: str) -> str:
    return _signature(keyring.derive(PURPOSE), trx_id)


def is_signed(keyring: Keyring, trx_id: str, signature: str) -> bool:
    """Returns whether the receipt was signed with the current or an earlier master key.

    Accepting earlier keys keeps receipts valid after a key change.
    """
    given = signature.encode("utf-8", "replace")
    keys = keyring.derive_all(PURPOSE)
    return any(hmac.compare_digest(_signature(key, trx_id).encode(), given) for key in keys)


def _signature(key: bytes, trx_id: str) -> str:
    return hmac.digest(key, trx_id.encode(), "sha256").hex()[:SIGNATURE_CHARACTERS]


def of_payment(
    payment: Payment,
    merchant_name: str,
    url: str,
    facts: PaymentFacts,
    language: CustomerLanguage = ENGLISH,
    *,
    names_customer: bool,
) -> Receipt:
    _ = language.gettext
    quote, is_paid = payment.quote, payment.status is PaymentStatus.SUCCESS
    customer = (
        (_("Customer"), clean(payment.customer_name or "", 100)),
        (_("Email"), clean(payment.customer_email or "", 100)),
    )
    about = [
        *(customer if names_customer else ()),
        (_("Paid by"), _(facts.way) if is_paid and facts.way else ""),
        (_("Description"), clean(payment.description or "", 150).replace("\n", " ")),
    ]
    state, tone = _payment_state(payment, facts.refunded)
    return Receipt(
        trx_id=payment.trx_id,
        language=language.code,
        title=_("Payment receipt") if is_paid else _("Payment record"),
        merchant_name=clean(merchant_name, 100),
        is_sandbox=payment.is_sandbox,
        amount=language.money(quote.customer_pays),
        state=_(state),
        tone=tone,
        when=_when(facts.since, language),
        groups=_filled(
            _payment_amounts(payment, facts, language), about, _references(payment, language)
        ),
        beneficiary=None,
        verification_url=url,
    )


def _payment_amounts(payment: Payment, facts: PaymentFacts, language: CustomerLanguage) -> Lines:
    _, money = language.gettext, language.money
    quote, is_paid = payment.quote, payment.status is PaymentStatus.SUCCESS
    amounts = [(_("Amount"), money(quote.amount))]
    if quote.customer_pays != quote.amount + quote.customer_tax:
        amounts.append((_("Service charge"), money(quote.commission)))
    amounts += _taxes(payment, TaxBearer.CUSTOMER, language)
    amounts.append((_("Paid") if is_paid else _("Amount due"), money(quote.customer_pays)))
    if payment.received_minor is not None:
        amounts.append((_("Received"), money(payment.received)))
    if facts.returned.minor:
        amounts.append((_("Returned"), money(facts.returned)))
    if facts.refunded.minor:
        amounts.append((_("Refunded"), money(facts.refunded)))
    return amounts


def _taxes(
    paid: Payment | Payout, bearer: TaxBearer, language: CustomerLanguage = ENGLISH
) -> Lines:
    """Returns the taxes on top of the fee, and those that it contains."""
    return [
        (
            tax_title(tax),
            language.money(Money(paid.currency, tax.minor)),
        )
        for tax in paid.transaction_price.taxes
        if tax.borne_by is bearer
    ]


def _filled(*groups: Lines) -> list[Lines]:
    """Returns the groups of lines without empty lines and groups."""
    filled = [[(label, text) for label, text in group if text] for group in groups]
    return [group for group in filled if group]


def _payment_state(payment: Payment, refunded: Money) -> tuple[str, str]:
    match payment.status:
        case PaymentStatus.SUCCESS if refunded == payment.amount:
            return translatable("Paid and refunded"), "yellow"
        case PaymentStatus.SUCCESS if refunded.minor:
            return translatable("Paid and partly refunded"), "yellow"
        case PaymentStatus.SUCCESS:
            return translatable("Paid"), "green"
        case PaymentStatus.PENDING:
            return translatable("Not paid yet"), "yellow"
    return translatable("Not paid"), "red"


PAYOUT_STATES = {
    PayoutStatus.PENDING: ("In progress", "yellow"),
    PayoutStatus.COMPLETED: ("Delivered", "green"),
    PayoutStatus.FAILED: ("Failed: not delivered", "red"),
    PayoutStatus.CANCELED: ("Canceled: not delivered", "red"),
}


def of_payout(
    payout: Payout, merchant_name: str, url: str, *, since: datetime, bank: str
) -> Receipt:
    state, tone = PAYOUT_STATES[payout.status]
    amounts = [
        ("Sent", money(payout.amount)),
        ("Fee", money(payout.fee)),
        *_taxes(payout, TaxBearer.MERCHANT),
        ("Total debited", money(payout.payable)),
    ]
    about = [
        ("To", clean(payout.account_name or "", 100)),
        ("Account", mask_number(payout.account_number)),
        ("Bank", clean(bank, 80)),
        ("Description", clean(payout.description or "", 150).replace("\n", " ")),
    ]
    delivered = payout.status is PayoutStatus.COMPLETED
    return Receipt(
        trx_id=payout.trx_id,
        title="Payout receipt" if delivered else "Payout record",
        merchant_name=clean(merchant_name, 100),
        is_sandbox=payout.is_sandbox,
        amount=money(payout.amount),
        state=state,
        tone=tone,
        when=_when(since),
        groups=_filled(amounts, about, _payout_references(payout)),
        beneficiary=_masked(payout),
        verification_url=url,
    )


def _masked(payout: Payout) -> str:
    name = mask_name(payout.account_name or "")
    return f"{name} {mask_number(payout.account_number)}".strip()


def mask_name(name: str) -> str:
    """Masks a name, so that only people who know it recognize it: `A•• O••` for `ADA OBI`."""
    return " ".join(f"{part[0]}••" for part in clean(name, 100).split())


def mask_number(number: str) -> str:
    return f"••••{clean(number, 60)[-4:]}"


def _references(row: Payment | Payout, language: CustomerLanguage = ENGLISH) -> Lines:
    _ = language.gettext
    return [(_("Transaction"), row.trx_id), (_("Reference"), clean(row.ref_trx, 60))]


def _payout_references(payout: Payout) -> Lines:
    reported = ((field.title, clean(text, 60)) for field, text in payout.reported)
    return [*_references(payout), *reported]


def _when(since: datetime, language: CustomerLanguage = ENGLISH) -> str:
    """Formats a time in Lagos time, with the time zone's name."""
    return f"{language.moment(since)} (Lagos)"
