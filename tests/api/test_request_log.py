"""The request log contains each merchant API call without secrets, and why a call was rejected."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Unavailable
from manilla.kit.listing import BadCursor, Page
from manilla.ledger.scope import Everyone, Tenant
from manilla.merchants import merchants, queries
from manilla.merchants.requests import listing
from manilla.merchants.requests import log as request_log
from manilla.merchants.requests.listing import RequestFilter
from manilla.merchants.requests.log import RequestLog, RequestLogLine
from manilla.merchants.requests.stored import Request
from manilla.services import Services
from tests.faults.proxy import Cut, proxied
from tests.payments.orders import INITIATE, LEGACY, VERIFY, order
from tests.support.client import Merchant, Site, new_merchant

SITE_INFO = "/api/v1/site-info"


class Log:
    def __init__(self, services: Services, merchant: Merchant) -> None:
        self._services = services
        self.merchant = merchant

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant.new.id, self.merchant.environment)

    async def page(self, *, after: str | None = None, limit: int = 50, **wanted: Any) -> Page[Any]:
        await self._services.requests.flush()
        return await listing.requests(
            self._services.db, self.tenant, RequestFilter(**wanted), after=after, limit=limit
        )

    async def lines(self, **wanted: Any) -> list[Request]:
        return (await self.page(**wanted)).rows

    async def last_used_at(self) -> list[datetime | None]:
        await self._services.requests.flush()
        rows = await queries.credentials(
            self._services.db, self.merchant.new.id, self.merchant.environment
        )
        return [row.last_used_at for row in rows]


@pytest.fixture
def kept(services: Services, merchant: Merchant) -> Log:
    return Log(services, merchant)


async def test_a_call_is_logged_with_the_transaction_it_created(kept: Log) -> None:
    body = order()
    reply = await kept.merchant.post(INITIATE, body)
    [line] = await kept.lines()
    assert (line.method, line.path, line.status) == ("POST", INITIATE, 200)
    assert line.request_id == reply.headers["x-request-id"]
    assert line.address == kept.merchant.site.address
    assert (line.ref_trx, line.error_code, line.error, line.errors) == (
        body["ref_trx"],
        None,
        None,
        {},
    )
    assert line.trx_id is not None
    assert line.trx_id in reply.json["payment_url"]
    assert line.milliseconds > 0


async def test_a_rejected_call_is_logged_with_the_reason(kept: Log) -> None:
    body = order()
    await kept.merchant.post(INITIATE, body)
    await kept.merchant.post(INITIATE, body)
    await kept.merchant.post(INITIATE, {"payment_amount": "x", "ref_trx": "r"})
    await kept.merchant.get(VERIFY + "TXN0")
    unknown, invalid, duplicate, made = await kept.lines()
    assert (duplicate.status, duplicate.error_code) == (422, "DUPLICATE_REFERENCE")
    assert duplicate.trx_id == made.trx_id is not None
    assert (invalid.status, invalid.error_code) == (400, "VALIDATION_FAILED")
    assert {"payment_amount", "currency_code", "ipn_url"} <= set(invalid.errors)
    assert invalid.error == "The request is not valid."
    assert (unknown.status, unknown.error_code) == (404, "TRANSACTION_NOT_FOUND")


async def test_a_failed_authentication_is_logged_for_the_merchant_of_the_key(kept: Log) -> None:
    await kept.merchant.get(SITE_INFO)
    await kept.merchant.get(SITE_INFO, X_Signature="0" * 64)
    await kept.merchant.get(SITE_INFO, X_API_Key="wrong")
    await kept.merchant.get(SITE_INFO, X_Merchant_Key="unknown")
    wrong_key, wrong_signature, _ = await kept.lines()
    assert (wrong_signature.status, wrong_signature.error_code) == (401, "INVALID_CREDENTIALS")
    assert set(wrong_signature.errors) == {"X-Signature"}
    assert (wrong_key.error_code, wrong_key.errors) == ("INVALID_CREDENTIALS", {})


async def test_no_secret_is_logged(kept: Log, db: Database) -> None:
    account, name = "0123498765", "Somebody Private"
    body = order(beneficiary={"account_number": account}, customer_name=name)
    await kept.merchant.post(INITIATE, body)
    await kept.merchant.get(SITE_INFO + "?token=in-the-query", X_Signature="ab" * 32)
    assert len(await kept.lines()) == 2
    text = await db.value(
        "SELECT string_agg(r::text, ' ') FROM api_request r WHERE merchant_id = $1",
        kept.merchant.new.id,
    )
    given = kept.merchant.credentials
    secrets = [given.api_key, given.api_secret, given.merchant_key, "ab" * 32, "in-the-query"]
    assert [secret for secret in [*secrets, account, name] if secret in text] == []


def test_only_the_last_digits_of_an_account_number_are_logged() -> None:
    reason = "Account 0123456789 at 058 is unknown; at most 1000000.00."
    assert request_log.reason(reason) == "Account ******6789 at 058 is unknown; at most 1000000.00."


async def test_hostile_text_is_logged_in_displayable_form(kept: Log) -> None:
    await kept.merchant.get(VERIFY + "%00%1b%5b31m" + "x" * 400, User_Agent="tool\t" + "y" * 300)
    [line] = await kept.lines()
    assert line.path.isprintable()
    assert len(line.path) == request_log.TEXT_LENGTH_MAX
    assert line.user_agent is not None
    assert line.user_agent.isprintable()
    assert len(line.user_agent) == request_log.USER_AGENT_LENGTH_MAX


async def test_a_merchant_sees_its_own_requests_in_one_environment(
    services: Services, site: Site, db: Database, keyring: Keyring, kept: Log
) -> None:
    other = await new_merchant(site, db, keyring)
    production = msgspec.structs.replace(kept.merchant, environment=Environment.PRODUCTION)
    for caller in (kept.merchant, other, production):
        await caller.get(SITE_INFO)
    assert len(await kept.lines()) == 1
    assert len(await Log(services, production).lines()) == 1
    assert len(await Log(services, other).lines()) == 1
    of_both = await listing.requests(db, Everyone(kept.merchant.new.id), RequestFilter())
    assert {line.environment for line in of_both.rows} == {"sandbox", "production"}
    of_all = await listing.requests(db, Everyone(), RequestFilter())
    assert {kept.merchant.new.id, other.new.id} <= {line.merchant_id for line in of_all.rows}


async def test_every_filter_and_search(kept: Log) -> None:
    body = order()
    made = await kept.merchant.post(INITIATE, body)
    await kept.merchant.get(SITE_INFO)
    await kept.merchant.get(VERIFY + "TXN0")
    all_three = await kept.lines()
    not_found, site_info, initiated = all_three
    assert await kept.lines(status_class=4) == [not_found]
    assert await kept.lines(refused=False) == [site_info, initiated]
    assert await kept.lines(error_code="TRANSACTION_NOT_FOUND") == [not_found]
    assert await kept.lines(method="POST") == [initiated]
    assert await kept.lines(path=VERIFY) == [not_found]
    assert await kept.lines(path="/api/v1/%") == []
    for reference in (body["ref_trx"], initiated.trx_id, made.headers["x-request-id"]):
        assert await kept.lines(search=reference) == [initiated]
    assert await kept.lines(search="%") == []
    assert await kept.lines(since=site_info.at) == [not_found, site_info]
    assert await kept.lines(until=site_info.at) == [initiated]


async def test_pages_neither_repeat_nor_skip_while_requests_arrive(kept: Log) -> None:
    for _ in range(5):
        await kept.merchant.get(SITE_INFO)
    before = await kept.lines()
    first = await kept.page(limit=2)
    await kept.merchant.get(SITE_INFO)
    second = await kept.page(limit=2, after=first.next)
    third = await kept.page(limit=2, after=second.next)
    assert first.rows + second.rows + third.rows == before
    assert third.next is None
    for bad in ("x", "", first.next[:-2] if first.next else "", "WyIyMDI2Il0", "é"):
        with pytest.raises(BadCursor):
            await kept.page(after=bad)


async def test_a_credential_shows_when_it_was_last_used(
    services: Services, site: Site, db: Database, keyring: Keyring, kept: Log
) -> None:
    assert await kept.last_used_at() == [None]
    await kept.merchant.get(SITE_INFO, X_Signature="0" * 64)
    assert await kept.last_used_at() == [None]
    before = datetime.now(UTC) - timedelta(seconds=1)
    await kept.merchant.get(SITE_INFO)
    [first] = await kept.last_used_at()
    assert first is not None
    assert first > before
    await kept.merchant.get(SITE_INFO)
    # The time of last use is updated at most once a minute.
    assert await kept.last_used_at() == [first]
    bearer = await new_merchant(site, db, keyring)
    headers = {"Authorization": f"Bearer {bearer.credentials.api_key}", "X-Environment": "sandbox"}
    await bearer.site.send("POST", LEGACY, headers, b"{}")
    [used] = await Log(services, bearer).last_used_at()
    assert used is not None


async def test_last_use_is_shown_for_the_credential_generation_that_was_used(
    services: Services, db: Database, keyring: Keyring, kept: Log
) -> None:
    await merchants.rotate(
        db, keyring, kept.merchant.new.id, Environment.SANDBOX, overlap_minutes=60
    )
    await services.directory._refresh(0)
    await kept.merchant.get(SITE_INFO)
    new, old = await kept.last_used_at()
    assert new is None
    assert old is not None


def _line(merchant_id: int, number: int, at: datetime) -> RequestLogLine:
    return RequestLogLine(
        merchant_id=merchant_id,
        at=at,
        request_id=f"{merchant_id}-{number}",
        environment="sandbox",
        method="GET",
        path=SITE_INFO,
        status=200,
        error_code=None,
        error=None,
        errors=None,
        milliseconds=1.5,
        address="10.0.0.1",
        user_agent=None,
        ref_trx=None,
        trx_id=None,
    )


@pytest.mark.parametrize("cut", Cut)
async def test_a_lost_database_neither_loses_nor_duplicates_requests(
    services: Services, kept: Log, cut: Cut
) -> None:
    merchant_id = kept.merchant.new.id
    line = _line(merchant_id, 1, datetime.now(UTC))
    async with proxied(services.database_url) as proxy:
        db = await Database.open(proxy.url, size=1, name="tests")
        log = RequestLog(db)
        log.add(line)
        proxy.cut(cut, line.request_id)
        with pytest.raises(Unavailable):
            await log.flush()
        log.add(_line(merchant_id, 2, datetime.now(UTC)))
        await log.flush()
        await db.close()
    assert proxy.has_cut
    assert len(await kept.lines()) == 2


async def test_a_full_log_drops_new_requests_and_keeps_the_old_ones(
    db: Database, kept: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "LINES_MAX", 3)
    log, merchant_id = RequestLog(db), kept.merchant.new.id
    for number in range(5):
        log.add(_line(merchant_id, number, datetime.now(UTC)))
    await log.flush()
    assert {line.request_id for line in await kept.lines()} == {
        f"{merchant_id}-{number}" for number in range(3)
    }
