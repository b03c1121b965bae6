"""What tests do with invoices: postings of a past month, the settings of the operator, and jobs."""

from datetime import date, datetime, timedelta

from manilla.invoices import fees, issuing
from manilla.invoices.invoice import Invoice, read_month
from manilla.invoices.tasks import InvoiceTasks
from manilla.kit.clock import LAGOS, next_month
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.ledger import invariants, posting, trx_ids
from manilla.ledger.posting import COMMISSION, PAYOUT_FEE, Line, Posting
from manilla.merchants import wallets
from manilla.platform.settings import PlatformSettings
from manilla.posting_kinds import PostingKind
from manilla.services import Services
from tests.support.client import Merchant
from tests.support.invariants import ALL


class Settled:
    """The platform settings of a test, without the change watch."""

    def __init__(self, now: PlatformSettings) -> None:
        self.now = now


class Books:
    def __init__(
        self, services: Services, owner: Database, merchant: Merchant, month: str, prefix: str
    ) -> None:
        self.services, self.owner, self.merchant = services, owner, merchant
        self.db = services.db
        self.month = read_month(month)
        self.tax = f"vat{prefix.lower()}"
        self.settings = PlatformSettings(
            legal_name="Manilla Operations Ltd",
            legal_address="1 Broad Street, Lagos",
            legal_tax_id="12345678-0001",
            legal_email="billing@operator.example",
            invoice_prefix=prefix,
            invoices_since=month,
        )

    @property
    def merchant_id(self) -> int:
        return self.merchant.new.id

    @property
    def following(self) -> date:
        return next_month(self.month)

    def at(self, day: int, hour: int = 12, month: date | None = None) -> datetime:
        return datetime.combine(
            (month or self.month).replace(day=day), datetime.min.time(), LAGOS
        ) + timedelta(hours=hour)

    async def charge(
        self,
        minor: int,
        at: datetime,
        *,
        account: str = COMMISSION,
        tax: int = 0,
        currency: str = "NGN",
        merchant_id: int | None = None,
    ) -> str:
        """Deducts a fee and a tax from the wallet at a time in the past, or returns them."""
        owner = merchant_id or self.merchant_id
        order = Posting(
            merchant_id=owner,
            trx_id=trx_ids.new(owner),
            kind=PostingKind.ADJUSTMENT,
            environment=Environment.PRODUCTION,
            wallet=Money(currency, -minor - tax),
            lines=posting.nonzero(Line(account, minor), Line(posting.tax(self.tax), tax)),
            reason="a test",
        )
        await self.fund(minor + tax, currency, owner)
        async with self.db.transaction() as connection:
            [posted] = await posting.post(connection, [order])
        assert posted.outcome == "posted"
        await self.redate(order.trx_id, at)
        return order.trx_id

    async def fund(self, minor: int, currency: str = "NGN", merchant_id: int | None = None) -> None:
        if minor > 0:
            key = merchant_id or self.merchant_id, Environment.PRODUCTION
            await wallets.fund(self.db, *key, Money(currency, minor), "a test")

    async def redate(self, trx_id: str, at: datetime) -> None:
        """Changes when a transaction was posted. Even the ledger's owner may only append rows."""
        async with self.owner.transaction() as connection:
            await connection.execute("ALTER TABLE posting DISABLE TRIGGER append_only")
            await connection.execute(
                "UPDATE posting SET posted_at = $2 WHERE trx_id = $1", *(trx_id, at)
            )
            await connection.execute("ALTER TABLE posting ENABLE TRIGGER append_only")

    async def issue(self, month: date | None = None) -> list[Invoice]:
        """Issues the invoices of this merchant, as the job does for all merchants."""
        month = month or self.month
        found = await fees.of_month(self.db, month, self.merchant_id)
        issued = [await issuing.issue(self.db, self.settings, month, each) for each in found]
        return [invoice for invoice in issued if invoice is not None]

    async def issued(self) -> list[tuple[str, int, int]]:
        """Returns each document of the merchant: its month, number in the series, and amount."""
        return [
            (f"{row['month']:%Y-%m}", row["serial"], row["amount_minor"])
            for row in await self.db.records(
                "SELECT month, serial, amount_minor FROM fee_invoice WHERE merchant_id = $1"
                " ORDER BY serial",
                self.merchant_id,
            )
        ]

    @property
    def tasks(self) -> InvoiceTasks:
        settled = Settled(self.settings)
        return InvoiceTasks(self.db, settled, lambda: self.services.patient(60))  # type: ignore[arg-type]

    async def run_job(self, month: date | None = None) -> object:
        subject = f"{month or self.month:%Y-%m}"
        return await self.tasks.issue_month(Job(0, "invoices", subject, 1, 0, 1))

    async def broken_rules(self) -> list[str]:
        found = await invariants.check(self.db, ALL)
        return [f"{each.name}: {each.examples}" for each in found if each.count]


__all__ = ["COMMISSION", "PAYOUT_FEE", "Books"]
