"""The services that API, pages and worker share. The module `wiring` builds them once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from manilla.banks.registry import BankRegistry
from manilla.beneficiaries.banks import Banks
from manilla.beneficiaries.beneficiary import AccountResolver
from manilla.cells.client import CellClient
from manilla.cells.directory import CellDirectory
from manilla.customers.receiving import Receiving
from manilla.disputes.service import DisputeService
from manilla.kit.batch import SharedReads
from manilla.kit.changes import ChangeWatch
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.database.reader import Reader
from manilla.kit.http import Network
from manilla.kit.http_client.client import HttpClient
from manilla.kit.ratelimit import RateLimiter
from manilla.ledger.reader import TransactionReader
from manilla.mail.letter import LetterWriter
from manilla.mail.transport import Transport
from manilla.merchants.directory import Directory
from manilla.merchants.requests.log import RequestLog
from manilla.methods.catalogue import Catalogue
from manilla.payments import initiate as pay_in
from manilla.payments.charges import ChargeService
from manilla.payments.checkout import Checkout
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment_links.paying import LinkPayments
from manilla.payouts import initiate as pay_out
from manilla.payouts.batch_delivery import DeliveredPayouts
from manilla.payouts.failover import Failover
from manilla.payouts.ordering import PayoutPreviews
from manilla.people import demo_login
from manilla.people.company.access import CompanyAccess
from manilla.people.demo_login import DemoLogin
from manilla.platform.settings import CurrentSettings
from manilla.prices.book import PriceBook
from manilla.providers.claims import ClaimReader
from manilla.providers.inbox import WebhookInbox
from manilla.providers.rails import Rails
from manilla.routing.deliveries import Deliveries
from manilla.routing.router import Router
from manilla.saved_ways.charging import WayCharges
from manilla.saved_ways.mandates import MandateService
from manilla.saved_ways.saving import CardSaving
from manilla.settlements.settling import Settling


class Services(msgspec.Struct, frozen=True, kw_only=True):
    db: Database
    reads: Reader  # for lists, charts and reports; never decides about money
    keyring: Keyring
    watch: ChangeWatch
    platform: CurrentSettings
    directory: Directory
    rails: Rails
    methods: Catalogue
    prices: PriceBook
    links: CheckoutLinks
    charges: ChargeService
    checkout: Checkout
    requests: RequestLog
    limiter: RateLimiter
    pages: SharedReads  # reads pages of lists
    reader: TransactionReader
    registry: BankRegistry
    banks: Banks
    resolver: AccountResolver
    deliveries: Deliveries
    inbox: WebhookInbox
    claims: ClaimReader
    delivered: DeliveredPayouts
    router: Router
    previews: PayoutPreviews
    payments: pay_in.PaymentInitiation
    cards: CardSaving
    way_charges: WayCharges
    mandates: MandateService
    payouts: pay_out.PayoutInitiation
    cells: CellDirectory
    cell_client: CellClient
    company: CompanyAccess
    operator_client: HttpClient  # for the operator's own systems, such as a security team's
    letters: LetterWriter
    mail_transport: Transport | None  # None if sending email is not configured
    base_url: str
    database_url: str
    trusted_proxies: Sequence[Network]
    is_development: bool
    data_folder: Path | None  # None if the database runs on another host

    @property
    def has_mail(self) -> bool:
        """Whether users can read emails. In development mode, a mailbox page shows all emails."""
        return self.mail_transport is not None or self.is_development

    @asynccontextmanager
    async def patient(self, seconds: int) -> AsyncIterator[Database]:
        """Opens a separate connection for long SQL statements, such as sums over the ledger."""
        db = await Database.open(
            self.database_url, size=1, name="manilla patient", statement_seconds=seconds
        )
        try:
            yield db
        finally:
            await db.close()

    @property
    def disputes(self) -> DisputeService:
        return DisputeService(self.db, self.keyring, self.platform, self.rails)

    @property
    def receiving(self) -> Receiving:
        return Receiving(self.db, self.platform, self.directory, self.prices)

    @property
    def failover(self) -> Failover:
        return Failover(self.db, self.router)

    @property
    def settling(self) -> Settling:
        return Settling(
            *(self.db, self.platform, self.directory, self.methods, self.prices),
            *(self.previews, self.payouts),
        )

    @property
    def link_payments(self) -> LinkPayments:
        return LinkPayments(
            *(self.db, self.directory, self.limiter, self.payments, self.links, self.base_url)
        )

    @property
    def demo_login(self) -> DemoLogin | None:
        """The demo user's login, only in development mode."""
        return demo_login.of(self.keyring) if self.is_development else None
