"""API endpoints for fee invoices."""

from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint, FileAnswer
from manilla.api.fields import CurrencyCode
from manilla.api.lists import Cursors, PeriodQuery
from manilla.invoices import files, store, ubl
from manilla.invoices.invoice import Invoice, InvoiceNotFound, Party
from manilla.invoices.store import InvoiceFilter
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants.rights import Right
from manilla.services import Services

INVOICES, INVOICE = "/api/v1/invoices", "/api/v1/invoices/{number}"
PDF, XML = ".pdf", ".xml"


class InvoicesQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    month: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}$")] | None = None
    currency_code: CurrencyCode | None = None


class InvoiceLineInfo(Struct, frozen=True):
    account: str
    kind: str
    title: str
    count: int
    amount: Decimal


class InvoiceTax(Struct, frozen=True):
    name: str
    amount: Decimal


class InvoiceParty(Struct, frozen=True):
    name: str
    address: str
    tax_id: str
    email: str


class InvoiceInfo(Struct, frozen=True):
    number: str
    type: str
    month: str
    currency: str
    fee: Decimal
    taxes: list[InvoiceTax]
    total: Decimal
    lines: list[InvoiceLineInfo]
    supplier: InvoiceParty
    customer: InvoiceParty
    corrects: str | None
    reason: str | None
    authority_reference: str | None
    authority_qr: str | None
    issued_at: str


class InvoiceList(Struct, frozen=True):
    data: list[InvoiceInfo]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    cursors = Cursors(services.keyring, INVOICES)

    async def list_invoices(call: Call) -> InvoiceList:
        since, until = call.query.period
        wanted = InvoiceFilter(
            month=call.query.month, currency=call.query.currency_code, since=since, until=until
        )
        after, limit = cursors.read(call), call.query.limit
        page = await store.page(services.db, call.tenant, wanted, after=after, limit=limit)
        return InvoiceList([_describe(row) for row in page.rows], cursors.write(call, page.next))

    async def get_invoice(call: Call) -> InvoiceInfo | FileAnswer:
        number, dot, ending = call.parameter.partition(".")
        if call.tenant.environment is Environment.SANDBOX or dot + ending not in ("", PDF, XML):
            raise InvoiceNotFound
        found = await store.find(services.db, number, call.tenant.merchant_id)
        if dot + ending == PDF:
            return FileAnswer(files.PDF, await files.write_pdf(found))
        if dot + ending == XML:
            return FileAnswer(files.XML, ubl.write(found))
        return _describe(found)

    return [
        Endpoint(
            method="GET",
            path=INVOICES,
            operation_id="listInvoices",
            summary="List invoices",
            description="Lists the invoices for our fees, newest first. In the sandbox, the list "
            "is empty.",
            right=Right.READ,
            answers=(InvoiceList,),
            use_case=list_invoices,
            query=InvoicesQuery,
        ),
        Endpoint(
            method="GET",
            path=INVOICE,
            operation_id="getInvoice",
            summary="Get an invoice",
            description="Returns one invoice or credit note. Add `.pdf` to the number for a PDF "
            "file, or `.xml` for a UBL 2.1 file.",
            right=Right.READ,
            answers=(InvoiceInfo,),
            files=(files.PDF, files.XML),
            use_case=get_invoice,
            refusals=(InvoiceNotFound,),
        ),
    ]


def _describe(invoice: Invoice) -> InvoiceInfo:
    return InvoiceInfo(
        number=invoice.number,
        type=invoice.type,
        month=invoice.month_name,
        currency=invoice.currency,
        fee=invoice.fee.amount,
        taxes=[InvoiceTax(name, amount.amount) for name, amount in invoice.taxes.items()],
        total=invoice.total.amount,
        lines=[
            InvoiceLineInfo(
                *(line.account, line.kind, line.title, line.count),
                Money(invoice.currency, invoice.sign * line.minor).amount,
            )
            for line in invoice.lines
        ],
        supplier=_party(invoice.supplier),
        customer=_party(invoice.customer),
        corrects=invoice.corrects,
        reason=invoice.reason or None,
        authority_reference=invoice.authority_reference,
        authority_qr=invoice.authority_qr,
        issued_at=iso(invoice.issued_at),
    )


def _party(party: Party) -> InvoiceParty:
    return InvoiceParty(party.name, party.address, party.tax_id, party.email)
