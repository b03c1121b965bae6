"""Builds the services of a process from its settings.

The services are opened once, and closed in reverse order.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from manilla import metrics
from manilla.banks.registry import BankRegistry
from manilla.beneficiaries.banks import Banks
from manilla.beneficiaries.beneficiary import AccountResolver
from manilla.cells.client import CellClient
from manilla.cells.directory import CellDirectory
from manilla.kit import crash, prometheus
from manilla.kit.batch import SharedReads
from manilla.kit.changes import ChangeWatch
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import BY_KEY, Database
from manilla.kit.database.reader import Reader, ReaderByKey, ReadOutcome, Standby
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.http_client.client import HttpClient
from manilla.kit.ratelimit import RateLimiter
from manilla.ledger.reader import TransactionReader
from manilla.mail.hook import HookTransport
from manilla.mail.letter import LetterWriter
from manilla.mail.smtp import SmtpTransport
from manilla.mail.transport import Transport
from manilla.merchants.directory import Directory
from manilla.merchants.requests.log import RequestLog
from manilla.methods import catalogue
from manilla.methods.catalogue import Catalogue
from manilla.notify import delivery
from manilla.payments import initiate as pay_in
from manilla.payments.charges import ChargeService
from manilla.payments.checkout import Checkout
from manilla.payments.link import CheckoutLinks
from manilla.payouts import initiate as pay_out
from manilla.payouts.batch_delivery import DeliveredPayouts
from manilla.payouts.ordering import PayoutPreviews
from manilla.people.company.access import CompanyAccess
from manilla.people.company.openid import OpenIdClient
from manilla.platform import master_key
from manilla.platform.settings import CurrentSettings
from manilla.prices.book import CachedPrices
from manilla.providers.claims import ClaimReader
from manilla.providers.inbox import WebhookInbox
from manilla.providers.rails import Rails, open_client
from manilla.routing.deliveries import Deliveries
from manilla.routing.funds import ProviderFunds
from manilla.routing.router import Router
from manilla.saved_ways.charging import WayCharges
from manilla.saved_ways.mandates import MandateService
from manilla.saved_ways.saving import CardSaving
from manilla.services import Services
from manilla.settings import Settings
from manilla.sql import epochs, migrate

# Maximum number of pages that one SQL statement reads. A page can have a hundred rows.
PAGES_MAX = 32
CALLS_AT_ONCE = 64  # to sign-in providers, and to the operator's own systems


class DatabaseAway(Refusal):
    message = "The database of MANILLA_DATABASE_URL does not respond."


@contextlib.asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    name: str,
    connections: int,
    statement_seconds: int | None = None,
) -> AsyncIterator[Services]:
    url = settings.database_url
    try:
        await migrate.check_ready(url)
        db = await Database.open(
            url, size=connections, name=name, statement_seconds=statement_seconds
        )
    except Unavailable as unavailable:
        cause = unavailable.facts["cause"]
        raise DatabaseAway(f"{DatabaseAway.message} {cause}.") from unavailable
    prometheus.merge_ended_processes()
    if settings.crash_folder is not None:
        crash.arm(settings.crash_folder)
    client = open_client()
    operator_client = delivery.open_client(is_public_only=False, connections=CALLS_AT_ONCE)
    merchant_client = delivery.open_client(
        is_public_only=not settings.is_development, connections=CALLS_AT_ONCE
    )
    standby = await open_standby(settings, name, connections, statement_seconds)
    services = build(settings, db, client, operator_client, merchant_client, standby)
    try:
        await master_key.verify(db, services.keyring)
        await db.execute(epochs.BEGIN_AFTER_RESTORE)
        await catalogue.add_missing(db)
        await services.watch.ensure_fresh()
        background = [
            asyncio.create_task(services.watch.run()),
            asyncio.create_task(services.rails.health.run()),
            asyncio.create_task(services.deliveries.run()),
            asyncio.create_task(services.requests.run()),
        ]
        try:
            yield services
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await services.requests.close()
    finally:
        await client.close()
        await operator_client.close()
        await merchant_client.close()
        if standby is not None:
            await standby.close()
        await db.close()


async def open_standby(
    settings: Settings, name: str, connections: int, statement_seconds: int | None
) -> Standby | None:
    if settings.read_url is None:
        return None
    return await Standby.open(
        settings.read_url, size=connections, name=name, statement_seconds=statement_seconds
    )


def build(
    settings: Settings,
    db: Database,
    client: HttpClient,
    operator_client: HttpClient,
    merchant_client: HttpClient,
    standby: Standby | None = None,
) -> Services:
    keyring, watch = Keyring(settings.master_keys), ChangeWatch(db)
    platform = CurrentSettings(db, watch, is_development=settings.is_development)
    directory = Directory(db, keyring, watch)
    rails = Rails(db, keyring, watch, client, is_production_mode=not settings.is_development)
    methods = Catalogue(db, watch, rails)
    prices = CachedPrices(db, watch)
    links = CheckoutLinks(keyring, settings.base_url)
    cards = CardSaving(db, keyring, platform, settings.base_url)
    charges = ChargeService(db, keyring, platform, rails, links, settings.base_url, cards)
    payments = pay_in.PaymentInitiation(db, platform, methods, prices, rails, links)
    registry = BankRegistry(db, watch)
    banks = Banks(db, rails, methods, registry)
    resolver = AccountResolver(rails, banks)
    funds = ProviderFunds(db, rails)
    deliveries = Deliveries(db, registry)
    router = Router(methods, rails, registry, banks, resolver, funds, deliveries)
    reads = Reader(db, standby, _count_read)
    is_production_mode = not settings.is_development
    openid = OpenIdClient(operator_client, merchant_client, is_production_mode=is_production_mode)
    single = SharedReads(db.keep_connection(BY_KEY))
    pages = SharedReads(ReaderByKey(reads), batch_max=PAGES_MAX)
    return Services(
        db=db,
        reads=reads,
        keyring=keyring,
        watch=watch,
        platform=platform,
        directory=directory,
        rails=rails,
        methods=methods,
        prices=prices,
        links=links,
        charges=charges,
        checkout=Checkout(db, single, platform, directory, methods, rails, charges),
        requests=RequestLog(db),
        limiter=RateLimiter(db),
        pages=pages,
        reader=TransactionReader(single, pages),
        registry=registry,
        banks=banks,
        resolver=resolver,
        deliveries=deliveries,
        inbox=WebhookInbox(db),
        claims=ClaimReader(db),
        delivered=DeliveredPayouts(db),
        router=router,
        previews=PayoutPreviews(
            db, platform, methods, prices, rails, banks, resolver, router, deliveries
        ),
        payments=payments,
        cards=cards,
        way_charges=WayCharges(
            *(db, keyring, platform, methods, rails, payments, charges, links, directory)
        ),
        mandates=MandateService(db, keyring, methods, rails, registry),
        payouts=pay_out.PayoutInitiation(
            db, platform, methods, prices, rails, resolver, funds, router
        ),
        cells=CellDirectory(db, watch),
        cell_client=CellClient(db, keyring, client),
        company=CompanyAccess(db, keyring, openid),
        operator_client=operator_client,
        letters=LetterWriter(
            *(keyring, lambda: platform.now.site_name, settings.base_url, settings.mail_from),
            way_url=lambda trx_id, expires_at: links.url(trx_id, expires_at, "/way"),
        ),
        mail_transport=mail_transport(settings),
        base_url=settings.base_url,
        database_url=settings.database_url,
        trusted_proxies=settings.trusted_proxies,
        is_development=settings.is_development,
        data_folder=settings.data_folder,
    )


def _count_read(outcome: ReadOutcome) -> None:
    metrics.reads.labels(outcome).inc()


def mail_transport(settings: Settings) -> Transport | None:
    if settings.smtp_server is not None:
        return SmtpTransport(settings.smtp_server)
    return HookTransport(settings.mail_hook) if settings.mail_hook else None
