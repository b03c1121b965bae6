"""One trace leads from an API call through the worker to the provider and to the merchant."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest

from manilla import worker
from manilla.job_kinds import JobKind
from manilla.kit import changes, tracing
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.lookup import traces
from manilla.payments.checkout import SandboxOutcome
from manilla.people.tasks import ResetTasks
from manilla.providers.port import ChargeState, ReportedChargeStatus
from manilla.refunds import initiate, states
from manilla.services import Services
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.notify.receiver import Receiver, receiving
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import INITIATE as INITIATE_PAYOUT
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Merchant, Site, new_merchant
from tests.support.tracing_collector import Collector, collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
ENDPOINTS, REFUND = "/api/v1/webhook-endpoints", "/api/v1/initiate-refund"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


@contextlib.asynccontextmanager
async def working(services: Services) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(services, stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def _add_endpoint(payer: PayoutMerchant, url: str) -> None:
    body = {"url": url, "events": ["payout.completed"]}
    reply = await payer.merchant.post(ENDPOINTS, body)
    assert reply.status == 200, reply.body
    await payer.services.directory._refresh(0)


async def test_a_trace_leads_from_the_api_call_to_the_provider_and_the_merchant(
    payer: PayoutMerchant,
    services: Services,
    receiver: Receiver,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "KNOWN_AFTER_SECONDS", 0)  # no other process has a cache
    await _add_endpoint(payer, f"{receiver.url}/endpoint")
    with tracing.export("tests", collector.url):
        reply = await payer.send(await payer.order(ipn_url=receiver.url), traceparent=PARENT)
        async with working(services):
            await receiver.until(2)
    [api] = collector.named(f"POST {INITIATE_PAYOUT}")
    assert (api.trace_id, api.parent_id) == (TRACE, SPAN)
    assert api.attributes["trx_id"] == reply.json["trx_id"]
    assert api.has((await payer.payout(reply.json["trx_id"])).traceparent)
    by_id = {span.span_id: span for span in collector.spans if span.trace_id == TRACE}
    callers = set()
    for received in receiver.received:
        [call] = [span for span in by_id.values() if span.has(received.headers["traceparent"])]
        job = by_id[call.parent_id]
        assert job.parent_id == api.span_id
        assert job.attributes == {"trx_id": reply.json["trx_id"]}
        callers.add((received.path, job.name))
    assert callers == {("/ipn", "job notify"), ("/ipn/endpoint", "job endpoint")}
    [settle] = collector.named("settle")
    assert by_id[settle.parent_id].name == "job transfer"
    provider = f"POST {urlsplit(payer.simulator.url).netloc}"
    sent = [by_id[span.parent_id].name for span in by_id.values() if span.name == provider]
    assert "job transfer" in sent


async def test_a_malformed_header_begins_a_new_trace(
    payer: PayoutMerchant, collector: Collector
) -> None:
    with tracing.export("tests", collector.url):
        reply = await payer.send(await payer.order(), traceparent=PARENT.upper())
    [api] = collector.named(f"POST {INITIATE_PAYOUT}")
    assert reply.status == 200
    assert (api.trace_id == TRACE, api.parent_id) == (False, "")
    assert api.has((await payer.payout(reply.json["trx_id"])).traceparent)


async def test_a_rejected_call_is_traced_too(payer: PayoutMerchant, collector: Collector) -> None:
    with tracing.export("tests", collector.url):
        reply = await payer.send(await payer.order(), traceparent=PARENT, X_Signature="0" * 64)
    [api] = collector.named(f"POST {INITIATE_PAYOUT}")
    assert reply.status == api.attributes["http.response.status_code"] == 401
    assert "merchant_id" not in api.attributes


async def test_nothing_is_stored_while_tracing_is_off(payer: PayoutMerchant) -> None:
    reply = await payer.send(await payer.order(), traceparent=PARENT)
    assert (await payer.payout(reply.json["trx_id"])).traceparent is None


async def test_jobs_of_payments_and_refunds_continue_the_trace(
    services: Services, site: Site, db: Database, collector: Collector
) -> None:
    merchant = await new_merchant(site, db, services.keyring)
    with tracing.export("tests", collector.url):
        raw = json.dumps(order()).encode()
        paid = await merchant.call("POST", INITIATE, raw, traceparent=PARENT)
        payment = urlsplit(paid.json["payment_url"]).path.rsplit("/", 1)[1]
        await services.checkout.pretend(payment, SandboxOutcome.PAY)
        raw = json.dumps({"trx_id": payment, "ref_trx": "REFUND-1", "amount": 1}).encode()
        refunded = await merchant.call("POST", REFUND, raw, traceparent=PARENT)
    assert refunded.status == 200, refunded.body
    refund = refunded.json["trx_id"]
    for subject in (payment, f"{payment}-1", f"{payment}/ep_1", refund):
        parent = await traces.find_parent(db, _job(merchant, subject))
        assert parent is not None
        assert parent.startswith(f"00-{TRACE}-")
    assert await traces.find_parent(db, _job(merchant, "providera")) is None


async def test_a_shared_credit_is_a_step_of_the_trace(shop: Shop, collector: Collector) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    paid = ChargeState(ReportedChargeStatus.PAID, charge.amount)
    with tracing.export("tests", collector.url), tracing.begin("job charge", PARENT):
        assert await shop.services.charges._credited.credit(charge, paid)
    [job], [settle] = collector.named("job charge"), collector.named("settle")
    assert settle.parent_id == job.span_id


async def test_the_result_of_a_refund_is_a_step_of_the_trace(
    shop: Shop, collector: Collector
) -> None:
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    db = shop.services.db
    refund = await initiate.start(db, started.trx_id, None, "Returned goods")
    refused = TransferResult(TransferEvent.FAILED, Source.PROVIDER, guidance="refused")
    with tracing.export("tests", collector.url), tracing.begin("job refund", PARENT):
        assert await states.apply_result(db, refund, refused)
    [job], [settle] = collector.named("job refund"), collector.named("settle")
    assert settle.parent_id == job.span_id


async def test_the_span_of_a_password_reset_does_not_contain_the_email_address(
    services: Services, collector: Collector
) -> None:
    """The job's subject contains the email address that somebody entered in the form."""
    job = Job(0, JobKind.RESET, "dashboard:ada@example.com", attempts=1, failures=0, fence=0)
    work = ResetTasks(services.db, services.keyring).job_handlers()[job.kind]
    with tracing.export("tests", collector.url):
        await worker._traced(services.db, work).handler(job)
    [span] = collector.spans
    assert span.name == f"job {job.kind}"
    assert span.attributes == {}


def _job(merchant: Merchant, subject: str) -> Job:
    assert merchant.environment is Environment.SANDBOX
    return Job(merchant.new.id, "notify", subject, attempts=1, failures=0, fence=0)
