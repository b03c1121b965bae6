"""Issues invoices, credit notes and their replacements, and records what the authority returned."""

from datetime import UTC, date, datetime

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.invoices import fees, store
from manilla.invoices.fees import MonthFees
from manilla.invoices.invoice import (
    MONTH_FORMAT,
    Invoice,
    InvoiceLine,
    InvoiceRefused,
    Party,
)
from manilla.kit import crash, display
from manilla.kit.database.connections import Connection, Database
from manilla.kit.texts import is_line
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.platform.settings import PlatformSettings
from manilla.prices import store as prices
from manilla.prices.price import percent_during

REASON_LENGTH_MAX, REFERENCE_LENGTH_MAX, QR_LENGTH_MAX = 200, 200, 2_000
NAME_LENGTH_MAX, ADDRESS_LENGTH_MAX, TAX_ID_LENGTH_MAX = 100, 300, 40
SETTINGS = ("legal_name", "legal_address", "legal_tax_id", "legal_email", "invoice_prefix")


def supplier(settings: PlatformSettings) -> Party:
    """Returns the operator's legal entity. Raises if its data are not complete."""
    missing = [name for name in SETTINGS if not getattr(settings, name)]
    if missing:
        raise InvoiceRefused(f"First set {', '.join(missing)} in the platform settings.")
    return Party(*(getattr(settings, name) for name in SETTINGS[:-1]))


async def issue(
    db: Database, settings: PlatformSettings, month: date, found: MonthFees
) -> Invoice | None:
    """Issues the month's invoice. Returns None if it was issued before.

    The caller has read the fees after `fees.check_ended`.
    """
    supplier(settings)
    async with db.transaction() as connection:
        await store.lock_series(connection, settings.invoice_prefix)
        newest = await store.newest_of(connection, found.merchant_id, month, found.currency)
        if newest is not None and newest.corrects is None:
            return None
        revision = 1 if newest is None else newest.revision + 1
        return await _issue(connection, settings, month, found, revision)


async def issue_again(
    db: Database, settings: PlatformSettings, number: str, reason: str
) -> list[Invoice]:
    """Cancels an invoice with a credit note, and issues the month's invoice again.

    The new invoice has the current names, addresses and tax ids.
    """
    if not is_line(reason, REASON_LENGTH_MAX):
        raise InvoiceRefused(f"A reason has 1 to {REASON_LENGTH_MAX} printable characters.")
    supplier(settings)
    before = await store.find(db, number)
    await fees.check_ended(db, before.month)
    month_fees = await fees.of_month(db, before.month, before.merchant_id)
    async with db.transaction() as connection:
        await store.lock_series(connection, settings.invoice_prefix)
        key = before.merchant_id, before.month, before.currency
        newest = await store.newest_of(connection, *key)
        if newest != before or before.corrects is not None:
            raise InvoiceRefused("Only the latest invoice of a month can be cancelled.")
        issued = [await _cancel(connection, settings, before, reason)]
        for found in month_fees:
            if found.currency == before.currency:
                after = before.month, found, before.revision + 2
                issued.append(await _issue(connection, settings, *after))
    return issued


async def _cancel(
    connection: Connection, settings: PlatformSettings, before: Invoice, reason: str
) -> Invoice:
    lines = [msgspec.structs.replace(line, minor=-line.minor) for line in before.lines]
    draft = msgspec.structs.replace(
        before,
        revision=before.revision + 1,
        amount_minor=-before.amount_minor,
        lines=lines,
        corrects=before.number,
        reason=reason,
    )
    return await _write(connection, settings, draft)


async def _issue(
    connection: Connection,
    settings: PlatformSettings,
    month: date,
    found: MonthFees,
    revision: int,
) -> Invoice:
    draft = Invoice(
        merchant_id=found.merchant_id,
        number="",
        month=month,
        currency=found.currency,
        revision=revision,
        amount_minor=_sum(found.lines),
        lines=await _with_percents(connection, month, found),
        supplier=supplier(settings),
        customer=await store.recipient(connection, found.merchant_id),
        corrects=None,
        reason="",
        issued_by="",
        issued_at=datetime.now(UTC),
        authority_reference=None,
        authority_qr=None,
    )
    return await _write(connection, settings, draft)


async def _with_percents(
    connection: Connection, month: date, found: MonthFees
) -> list[InvoiceLine]:
    rules = await prices.rules(connection)
    percents = {
        line.tax: percent_during(rules, line.tax, found.currency, *fees.bounds(month))
        for line in found.lines
        if line.tax is not None
    }
    return [
        msgspec.structs.replace(line, percent=percents.get(line.tax or "")) for line in found.lines
    ]


def _sum(lines: list[InvoiceLine]) -> int:
    return sum(line.minor for line in lines)


async def _write(connection: Connection, settings: PlatformSettings, draft: Invoice) -> Invoice:
    """Numbers and stores the document, and queues its email. The caller has locked the series."""
    prefix = settings.invoice_prefix
    serial = await store.next_serial(connection, prefix)
    crash.point("after_invoice_is_numbered")
    numbered = msgspec.structs.replace(
        draft, number=f"{prefix}{serial:06d}", issued_by=current.get().name
    )
    issued = await store.insert(connection, prefix, serial, numbered)
    facts = {
        "title": issued.title,
        "number": issued.number,
        "month": issued.month.strftime("%B %Y"),
        "amount": display.money(issued.total),
    }
    path = f"/dashboard/invoices/{issued.number}"
    await outbox.put(
        connection, MailKind.INVOICE_ISSUED, facts, path=path, merchant_id=issued.merchant_id
    )
    await audit.record(
        connection,
        "invoice.issue",
        f"invoice:{issued.number}",
        merchant_id=issued.merchant_id,
        month=issued.month.strftime(MONTH_FORMAT),
        type=issued.type,
        amount=issued.total,
        corrects=issued.corrects,
        reason=issued.reason or None,
    )
    return issued


async def record_reference(db: Database, number: str, reference: str, qr: str = "") -> Invoice:
    """Records the reference and the content of the QR code that an access point returned."""
    if not is_line(reference, REFERENCE_LENGTH_MAX):
        raise InvoiceRefused.at(
            "reference", f"Enter 1 to {REFERENCE_LENGTH_MAX} printable characters."
        )
    if len(qr) > QR_LENGTH_MAX or not qr.isprintable():
        raise InvoiceRefused.at("qr", f"Enter at most {QR_LENGTH_MAX} printable characters.")
    async with db.transaction() as connection:
        before = await store.find(connection, number)
        await store.set_reference(connection, before, reference, qr or None)
        await audit.record(
            connection,
            "invoice.reference",
            f"invoice:{number}",
            merchant_id=before.merchant_id,
            changed={"reference": {"before": before.authority_reference, "after": reference}},
            qr=qr or None,
        )
    return await store.find(db, number)


async def set_recipient(db: Database, merchant_id: int, party: Party) -> None:
    """Changes to whom the merchant's next invoices are addressed."""
    for name, length_max in (
        ("name", NAME_LENGTH_MAX),
        ("address", ADDRESS_LENGTH_MAX),
        ("tax_id", TAX_ID_LENGTH_MAX),
    ):
        if not is_line(getattr(party, name), length_max):
            raise InvoiceRefused.at(name, f"Enter 1 to {length_max} printable characters.")
    async with db.transaction() as connection:
        before = await store.recipient(connection, merchant_id)
        await store.set_recipient(connection, merchant_id, party)
        await audit.record(
            connection,
            "invoice.recipient",
            f"merchant:{merchant_id}",
            merchant_id=merchant_id,
            changed={"name": {"before": before.name, "after": party.name}},
        )
