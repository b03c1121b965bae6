"""Writes an invoice as UBL 2.1, with the fields of BIS Billing 3.0 that Nigeria's profile asks for.

Negative lines have a negative quantity, because a price is never negative.
"""

from datetime import timedelta
from decimal import Decimal
from xml.etree import ElementTree as ET

from manilla.invoices.invoice import Invoice, InvoiceLine, Party
from manilla.kit.clock import LAGOS, next_month
from manilla.kit.money import Money
from manilla.ledger.posting import COMMISSION
from manilla.posting_kinds import PostingKind

_UBL = "urn:oasis:names:specification:ubl:schema:xsd:"
CBC, CAC = f"{_UBL}CommonBasicComponents-2", f"{_UBL}CommonAggregateComponents-2"
PROFILE = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
CUSTOMIZATION = "urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0"
INVOICE_CODE, CREDIT_NOTE_CODE = "380", "381"
COUNTRY = "NG"
UNIT = "C62"  # UN/ECE Recommendation 20: one
NO_FEE = InvoiceLine(COMMISSION, PostingKind.PAYMENT, 0, 0)  # UBL requires at least one line
PAID = "The amount was deducted from the wallet. Nothing is due."


def write(invoice: Invoice) -> bytes:
    root = "CreditNote" if invoice.is_credit_note else "Invoice"
    document = ET.Element(f"{{{_UBL}{root}-2}}{root}")
    _head(document, invoice, root)
    _party(document, "AccountingSupplierParty", invoice.supplier)
    _party(document, "AccountingCustomerParty", invoice.customer)
    _taxes(document, invoice)
    _totals(document, invoice)
    for number, line in enumerate(invoice.fees or [NO_FEE], 1):
        _line(document, invoice, root, number, line)
    for prefix, space in (("cbc", CBC), ("cac", CAC), ("", f"{_UBL}{root}-2")):
        ET.register_namespace(prefix, space)
    content: bytes = ET.tostring(document, encoding="UTF-8", xml_declaration=True)
    return content


def _head(document: ET.Element, invoice: Invoice, root: str) -> None:
    issued = invoice.issued_at.astimezone(LAGOS).date().isoformat()
    code = CREDIT_NOTE_CODE if invoice.is_credit_note else INVOICE_CODE
    for name, text in (
        ("UBLVersionID", "2.1"),
        ("CustomizationID", CUSTOMIZATION),
        ("ProfileID", PROFILE),
        ("ID", invoice.number),
        ("IssueDate", issued),
        *([] if invoice.is_credit_note else [("DueDate", issued)]),
        (f"{root}TypeCode", code),
        ("Note", f"{invoice.reason} {PAID}".strip()),
        ("DocumentCurrencyCode", invoice.currency),
        ("TaxCurrencyCode", invoice.currency),
    ):
        _text(document, name, text)
    period = _group(document, "InvoicePeriod")
    _text(period, "StartDate", invoice.month.isoformat())
    _text(period, "EndDate", (next_month(invoice.month) - timedelta(days=1)).isoformat())
    if invoice.corrects:
        reference = _group(_group(document, "BillingReference"), "InvoiceDocumentReference")
        _text(reference, "ID", invoice.corrects)
    if invoice.authority_reference:
        _text(_group(document, "AdditionalDocumentReference"), "ID", invoice.authority_reference)


def _party(document: ET.Element, role: str, party: Party) -> None:
    element = _group(_group(document, role), "Party")
    _text(_group(element, "PartyName"), "Name", party.name)
    address = _group(element, "PostalAddress")
    if party.address:
        _text(address, "StreetName", party.address)
    _text(_group(address, "Country"), "IdentificationCode", COUNTRY)
    if party.tax_id:
        scheme = _group(element, "PartyTaxScheme")
        _text(scheme, "CompanyID", party.tax_id)
        _text(_group(scheme, "TaxScheme"), "ID", "VAT")
    _text(_group(element, "PartyLegalEntity"), "RegistrationName", party.name)
    if party.email:
        _text(_group(element, "Contact"), "ElectronicMail", party.email)


def _taxes(document: ET.Element, invoice: Invoice) -> None:
    total = _group(document, "TaxTotal")
    _amount(total, "TaxAmount", invoice.total - invoice.fee)
    for name, amount in invoice.taxes.items():
        subtotal = _group(total, "TaxSubtotal")
        percent = invoice.percent(name)
        if percent is not None:
            _amount(subtotal, "TaxableAmount", invoice.taxable(name, percent))
        _amount(subtotal, "TaxAmount", amount)
        category = _group(subtotal, "TaxCategory")
        _text(category, "ID", name.upper())
        if percent is not None:
            _text(category, "Percent", f"{percent.normalize():f}")
        scheme = _group(category, "TaxScheme")
        _text(scheme, "ID", name.upper())


def _totals(document: ET.Element, invoice: Invoice) -> None:
    total = _group(document, "LegalMonetaryTotal")
    for name, amount in (
        ("LineExtensionAmount", invoice.fee),
        ("TaxExclusiveAmount", invoice.fee),
        ("TaxInclusiveAmount", invoice.total),
        ("PrepaidAmount", invoice.total),
        ("PayableAmount", Money(invoice.currency, 0)),
    ):
        _amount(total, name, amount)


def _line(
    document: ET.Element, invoice: Invoice, root: str, number: int, line: InvoiceLine
) -> None:
    element = _group(document, f"{root}Line")
    amount = invoice.shown(line.minor)
    _text(element, "ID", str(number))
    _text(element, "Note", f"{line.count} entries")
    quantity = "CreditedQuantity" if invoice.is_credit_note else "InvoicedQuantity"
    _text(element, quantity, "-1" if amount.minor < 0 else "1", unitCode=UNIT)
    _amount(element, "LineExtensionAmount", amount)
    _text(_group(element, "Item"), "Name", line.title)
    _amount(_group(element, "Price"), "PriceAmount", Money(amount.currency, abs(amount.minor)))


def _group(parent: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(parent, f"{{{CAC}}}{name}")


def _text(parent: ET.Element, name: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, f"{{{CBC}}}{name}", attributes).text = text


def _amount(parent: ET.Element, name: str, amount: Money) -> None:
    shown: Decimal = amount.amount
    _text(parent, name, f"{shown:f}", currencyID=amount.currency)
