"""The office work in the demo history: submitting a dossier and signing off reconciled days.

This work is done only once, with the functions that the web pages use.
"""

import csv
import io
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from manilla.audit.actor import Actor, ActorKind, acting
from manilla.beneficiaries import beneficiary
from manilla.compliance import documents, dossiers, reviews, sections
from manilla.compliance.documents import DocumentPurpose
from manilla.compliance.sections import Section
from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, provider_funds
from manilla.ledger.provider_funds import NOBODY, SettlementKind
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.methods.method import MethodKind
from manilla.people import demo_login
from manilla.reconciliation import days as imported
from manilla.reconciliation import importing, signing
from manilla.services import Services
from manilla.settlements import accounts
from manilla.settlements.accounts import NewSettlementAccount
from manilla_simulator.state import OPENING_BALANCE

CURRENCY = OPENING_BALANCE.currency
METHOD = "providera_ngn_transfer"
BANK = "058"
RECONCILED_DAYS = 5  # The last of these reconciled days is not signed off yet.
DOSSIER = {
    Section.BUSINESS: {
        "legal_form": "business_name",
        "legal_name": "Mama Titi Kitchen Enterprises",
        "registration_number": "BN3481256",
    },
    Section.ADDRESS: {"address": "14 Adeniran Ogunsanya Street, Surulere, Lagos"},
    Section.DIRECTORS: {"directors": "Titilayo Adebisi"},
    Section.WEBSITE: {"website": "https://mamatiti.example", "has_no_website": ""},
    Section.VOLUME: {"volume": "1,200,000"},
}
BVN = "22212345678"
DOCUMENTS = {
    DocumentPurpose.REGISTRATION: "certificate.pdf",
    DocumentPurpose.IDENTITY: "passport.pdf",
}
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj\n"
    b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
)


async def book_opening_balance(db: Database, provider: str) -> None:
    """Books the money that the operator sent to the provider before the first transaction."""
    is_booked: bool = await db.value(
        """
        SELECT EXISTS (SELECT FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.kind = 'settle_top_up' AND e.account = $2)""",
        *(NOBODY, posting.clearing(provider)),
    )
    if not is_booked:
        note = "Opening balance of the account"
        await provider_funds.settle(db, SettlementKind.TOP_UP, provider, OPENING_BALANCE, note)


async def choose_settlement_account(services: Services, tenant: Tenant, by: str) -> None:
    """Sets the merchant's settlement account, unless the merchant already has one."""
    db = services.db
    about = tenant.merchant_id, tenant.environment, CURRENCY
    if await accounts.settlement_account(db, *about) is not None:
        return
    method = services.methods.by_code(MethodKind.WITHDRAW, METHOD)
    assert method is not None
    caller = await services.directory.of(tenant.environment, tenant.merchant_id)
    texts = (f"3{tenant.merchant_id:08d}{digit}" for digit in range(10))
    account = next(text for text in texts if beneficiary.check_digit_fits(BANK, text))
    given = {"bank_code": BANK, "account_number": account}
    holder = await services.previews.holder_of_own(caller, method, given)
    assert holder.account_name is not None
    new = NewSettlementAccount(method, holder.who, holder.bank_name, holder.account_name)
    await accounts.choose(db, tenant, new, by=by, wait=timedelta())


async def submit_dossier(services: Services, merchant_id: int, email: str) -> None:
    """Fills in the applicant's dossier, and submits it for an administrator's decision."""
    db, keyring = services.db, services.keyring
    found = await dossiers.find(db, merchant_id)
    if found is not None and not found.is_editable:
        return
    for section, given in DOSSIER.items():
        await dossiers.save(db, merchant_id, sections.read(section, given, CURRENCY))
    await merchants.change(db, keyring, merchant_id, MerchantUpdate(bvn=BVN))
    await choose_settlement_account(services, Tenant(merchant_id, Environment.PRODUCTION), email)
    present = {each.purpose for each in await documents.list_of(db, merchant_id)}
    for purpose, name in DOCUMENTS.items():
        if purpose not in present:
            await documents.add(db, keyring, merchant_id, purpose, name, PDF, by=email)
    await reviews.submit(db, merchant_id)


async def reconcile_days(services: Services, provider: str, until: datetime) -> None:
    """Imports the provider's statements, and signs off the days that match the ledger."""
    db, last = services.db, until.astimezone(LAGOS).date() - timedelta(days=1)
    days = [last - timedelta(days=ago) for ago in range(RECONCILED_DAYS)]
    if raw := await _statement(db, provider, days):
        await importing.import_file(db, provider, raw)
    person_id = await db.value(
        "SELECT id FROM person WHERE email = $1 AND realm = 'console'", demo_login.EMAIL
    )
    administrator = Actor(ActorKind.PERSON, person_id, demo_login.EMAIL, "console")
    with acting(administrator):
        for day in days[1:]:
            if await _is_unsigned(db, provider, day):
                await signing.sign(db, provider, CURRENCY, day)


async def _is_unsigned(db: Database, provider: str, day: date) -> bool:
    """Returns whether the day's statement matches the ledger, but is not signed off yet."""
    found = await imported.find(db, provider, CURRENCY, day)
    return found is not None and not found.unmatched and not await signing.latest(db, [found])


async def _statement(db: Database, provider: str, days: Sequence[date]) -> bytes:
    """Returns the statement that the provider would send for these days, as a CSV file.

    The statement is created from the ledger, because the simulator booked the transactions with the
    current time.
    """
    records = await db.records(
        """
        SELECT p.id, p.trx_id, p.posted_at, -e.amount_minor AS minor
          FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE e.account = $1 AND p.environment = 'production'
           AND p.posted_at >= $2 AND p.posted_at < $3
         ORDER BY p.posted_at, p.id""",
        posting.clearing(provider),
        start_of_day(min(days)),
        start_of_day(max(days) + timedelta(days=1)),
    )
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(("line_id", "booked_at", "amount", "currency", "reference"))
    for record in records:
        amount = Money(CURRENCY, record["minor"])
        lines.writerow(
            (
                f"{provider}-{record['id']}",
                record["posted_at"].isoformat(),
                f"{amount.amount:f}",
                CURRENCY,
                record["trx_id"],
            )
        )
    return text.getvalue().encode() if records else b""
