"""The sections of a dossier: their fields, and when a section is complete."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from manilla.beneficiaries import beneficiary
from manilla.compliance import documents, dossiers
from manilla.compliance.documents import Document
from manilla.compliance.dossiers import Dossier, DossierState
from manilla.kit import amount_input
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.kit.money import MoneyError
from manilla.kit.texts import has_controls, is_line
from manilla.merchants.queries import MerchantRow
from manilla.settlements import accounts
from manilla.settlements.accounts import SettlementAccount

NAME_LENGTH_MAX, ADDRESS_LENGTH_MAX, WEBSITE_LENGTH_MAX = 100, 300, 200
DIRECTORS_MAX = 20
# Matches a registration number of Nigeria's Corporate Affairs Commission.
# RC: company. BN: business name. IT: incorporated trustees. LP, LLP: limited partnerships.
_REGISTRATION = re.compile(r"(RC|BN|IT|LP|LLP)?[0-9]{3,9}")


class Section(StrEnum):
    BUSINESS = "business"
    ADDRESS = "address"
    DIRECTORS = "directors"
    BVN = "bvn"
    WEBSITE = "website"
    VOLUME = "volume"
    SETTLEMENT = "settlement"
    DOCUMENTS = "documents"


TITLES = {
    Section.BUSINESS: "Legal form and registration",
    Section.ADDRESS: "Address",
    Section.DIRECTORS: "Directors",
    Section.BVN: "Owner's BVN",
    Section.WEBSITE: "Website",
    Section.VOLUME: "Expected volume",
    Section.SETTLEMENT: "Settlement account",
    Section.DOCUMENTS: "Documents",
}


class LegalForm(StrEnum):
    COMPANY = "company"
    BUSINESS_NAME = "business_name"
    PARTNERSHIP = "partnership"
    TRUSTEES = "trustees"
    PUBLIC_BODY = "public_body"


LEGAL_FORMS = {
    LegalForm.COMPANY: "Limited company",
    LegalForm.BUSINESS_NAME: "Business name (sole proprietor)",
    LegalForm.PARTNERSHIP: "Partnership",
    LegalForm.TRUSTEES: "Incorporated trustees (association, foundation)",
    LegalForm.PUBLIC_BODY: "Government body",
}


class BadSection(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "Correct the marked fields."


class SectionState(msgspec.Struct, frozen=True):
    """A section's state, as shown in the checklist."""

    section: Section
    is_complete: bool
    text: str  # the entered text, or a message about the missing information
    warning: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.section]


class DossierView(msgspec.Struct, frozen=True):
    """Everything that a merchant has submitted about its business."""

    merchant: MerchantRow
    dossier: Dossier | None
    documents: Sequence[Document]
    account: SettlementAccount | None  # the settlement account in production
    checklist: Sequence[SectionState]

    @property
    def completed(self) -> int:
        return sum(each.is_complete for each in self.checklist)

    @property
    def is_complete(self) -> bool:
        """Whether the dossier was submitted and all sections are complete."""
        is_submitted = self.dossier is not None and self.dossier.state != DossierState.DRAFT
        return is_submitted and not self.missing

    @property
    def missing(self) -> list[str]:
        return [each.title for each in self.checklist if not each.is_complete]


async def view(db: Database | Connection, merchant: MerchantRow) -> DossierView:
    dossier = await dossiers.find(db, merchant.id)
    papers = await documents.list_of(db, merchant.id)
    account = await _account(db, merchant)
    return DossierView(
        merchant, dossier, papers, account, checklist(merchant, dossier, papers, account)
    )


def checklist(
    merchant: MerchantRow,
    dossier: Dossier | None,
    papers: Sequence[Document],
    account: SettlementAccount | None,
) -> list[SectionState]:
    return [
        *(_written(section, dossier) for section in _SHOWN),
        SectionState(Section.BVN, merchant.has_bvn, "On file" if merchant.has_bvn else "Missing"),
        _account_state(merchant, dossier, account),
        _papers_state(papers),
    ]


async def _account(db: Database | Connection, merchant: MerchantRow) -> SettlementAccount | None:
    """Returns the production settlement account in the first currency that has an account."""
    for currency in merchant.currencies:
        found = await accounts.settlement_account(db, merchant.id, Environment.PRODUCTION, currency)
        if found is not None:
            return found
    return None


def _written(section: Section, dossier: Dossier | None) -> SectionState:
    text = "" if dossier is None else _SHOWN[section](dossier)
    return SectionState(section, bool(text), text or "Missing")


def _business(dossier: Dossier) -> str:
    if not (dossier.legal_form and dossier.legal_name and dossier.registration_number):
        return ""
    form = LEGAL_FORMS[LegalForm(dossier.legal_form)]
    return f"{dossier.legal_name}, {dossier.registration_number}, {form}"


def _website(dossier: Dossier) -> str:
    return dossier.website or ("No website" if dossier.has_no_website else "")


def _volume(dossier: Dossier) -> str:
    return f"{dossier.expected_volume} a month" if dossier.expected_volume else ""


_SHOWN: dict[Section, Callable[[Dossier], str]] = {
    Section.BUSINESS: _business,
    Section.ADDRESS: lambda dossier: dossier.address or "",
    Section.DIRECTORS: lambda dossier: ", ".join(dossier.directors),
    Section.WEBSITE: _website,
    Section.VOLUME: _volume,
}


def _account_state(
    merchant: MerchantRow, dossier: Dossier | None, account: SettlementAccount | None
) -> SectionState:
    if account is None:
        return SectionState(Section.SETTLEMENT, is_complete=False, text="Missing")
    legal_name = _legal_name(merchant, dossier)
    text = f"{account.account_name}, {account.bank_name} …{account.number[-4:]}"
    warning = ""
    if not beneficiary.names_agree(account.account_name, legal_name):
        warning = f"The account's name differs from the legal name, {legal_name}."
    return SectionState(Section.SETTLEMENT, is_complete=True, text=text, warning=warning)


def _legal_name(merchant: MerchantRow, dossier: Dossier | None) -> str:
    return (dossier.legal_name if dossier else None) or merchant.name


async def other_name(
    db: Database | Connection, merchant: MerchantRow, account_name: str
) -> str | None:
    """Returns the legal name if the account's name differs from it, otherwise None."""
    legal_name = _legal_name(merchant, await dossiers.find(db, merchant.id))
    return None if beneficiary.names_agree(account_name, legal_name) else legal_name


def _papers_state(papers: Sequence[Document]) -> SectionState:
    present = {paper.purpose for paper in papers}
    missing = [documents.PURPOSES[each] for each in documents.NEEDED if each not in present]
    count = f"{len(papers)} file{'' if len(papers) == 1 else 's'}"
    text = f"Missing: {', '.join(missing)}" if missing else count
    return SectionState(Section.DOCUMENTS, not missing, text)


def read(section: Section, given: Mapping[str, str], currency: str) -> dict[str, Any]:
    """Validates a section's form. Returns the dossier's columns, or raises the errors."""
    return _READERS[section](given, currency)


def _read_business(given: Mapping[str, str], _currency: str) -> dict[str, Any]:
    number = re.sub(r"[\s./-]", "", given["registration_number"]).upper()
    errors = {}
    if given["legal_form"] not in list(LegalForm):
        errors["legal_form"] = "Choose a legal form."
    if not is_line(given["legal_name"], NAME_LENGTH_MAX):
        errors["legal_name"] = f"Enter the registered name, with 1 to {NAME_LENGTH_MAX} characters."
    if not _REGISTRATION.fullmatch(number):
        errors["registration_number"] = "Enter the number as on the certificate, such as RC123456."
    _raise(errors)
    return {
        "legal_form": given["legal_form"],
        "legal_name": given["legal_name"],
        "registration_number": number,
    }


def _read_address(given: Mapping[str, str], _currency: str) -> dict[str, Any]:
    address = ", ".join(line.strip(" ,") for line in given["address"].splitlines() if line.strip())
    if not is_line(address, ADDRESS_LENGTH_MAX):
        _raise({"address": f"Enter the address, with 1 to {ADDRESS_LENGTH_MAX} characters."})
    return {"address": address}


def _read_directors(given: Mapping[str, str], _currency: str) -> dict[str, Any]:
    people = [line.strip() for line in given["directors"].splitlines() if line.strip()]
    if not 0 < len(people) <= DIRECTORS_MAX:
        _raise({"directors": f"Enter 1 to {DIRECTORS_MAX} names, one on each line."})
    if not all(is_line(name, NAME_LENGTH_MAX) and not has_controls(name) for name in people):
        _raise({"directors": f"A name has at most {NAME_LENGTH_MAX} printable characters."})
    return {"directors": people}


def _read_website(given: Mapping[str, str], _currency: str) -> dict[str, Any]:
    if given["has_no_website"]:
        return {"website": None, "has_no_website": True}
    url = given["website"]
    if len(url) > WEBSITE_LENGTH_MAX or not is_web_address(url):
        _raise({"website": "Enter a URL that starts with https:// or http://."})
    return {"website": url, "has_no_website": False}


def _read_volume(given: Mapping[str, str], currency: str) -> dict[str, Any]:
    try:
        volume = amount_input.parse_amount(given["volume"], currency)
    except MoneyError as error:
        raise BadSection(errors={"volume": str(error)}) from None
    if volume.minor <= 0:
        _raise({"volume": "Enter an amount above zero."})
    return {"volume_currency": volume.currency, "volume_minor": volume.minor}


_READERS: dict[Section, Callable[[Mapping[str, str], str], dict[str, Any]]] = {
    Section.BUSINESS: _read_business,
    Section.ADDRESS: _read_address,
    Section.DIRECTORS: _read_directors,
    Section.WEBSITE: _read_website,
    Section.VOLUME: _read_volume,
}
FORMS = tuple(_READERS)  # the sections that have a form


def _raise(errors: dict[str, str]) -> None:
    if errors:
        raise BadSection(errors=errors)
