"""The files of an invoice, and of a tax return."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from manilla.invoices import store, ubl
from manilla.invoices.invoice import Invoice
from manilla.invoices.returns import TaxReturn
from manilla.kit.database.connections import Database
from manilla.kit.display import moment_text
from manilla.kit.errors import Unavailable
from manilla.kit.isolation.calls import IsolatedCalls
from manilla.mail.queries import Mail
from manilla.mail.transport import MailAttachment

PDF, XML = "application/pdf", "application/xml"


def _drawing(function: str) -> IsolatedCalls[bytes]:
    return IsolatedCalls(
        f"manilla.invoices.pdf:{function}",
        bytes,
        refusal=Unavailable,
        too_long=Unavailable.message,
        waiting_max=8,
    )


_draw_invoice, _draw_returns = _drawing("draw_invoice"), _drawing("draw_returns")


async def write_pdf(invoice: Invoice) -> bytes:
    return await _draw_invoice.run(invoice)


async def write_returns(month: date, found: list[TaxReturn]) -> bytes:
    return await _draw_returns.run(month, found, moment_text(datetime.now(UTC)))


async def attach(db: Database, mail: Mail) -> Sequence[MailAttachment]:
    """Returns the files for the email about an invoice."""
    number = mail.shown_facts["number"]
    invoice = await store.find(db, number, mail.merchant_id)
    return [
        MailAttachment(f"{number}.pdf", PDF, await write_pdf(invoice)),
        MailAttachment(f"{number}.xml", XML, ubl.write(invoice)),
    ]
