"""A sandbox merchant with its dashboard, and methods that read the balance and the lists."""

import asyncio
import contextlib
import csv
import io
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import msgspec
from playwright.async_api import Browser, Page

from manilla import worker
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.payments.checkout import SandboxOutcome
from manilla.services import Services
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.web.signed_in_user import SignedInUser, member

KINDS = ("payout.bulk", "payout.sandbox", "refund", "settle", "account")


class MerchantDashboard(msgspec.Struct, frozen=True):
    services: Services
    merchant: Merchant
    owner: SignedInUser

    async def pay_in(self, **changed: object) -> str:
        reply = await self.merchant.post(INITIATE, order(**changed))
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["payment_url"].split("/checkout/")[1].split("?")[0]
        await self.services.checkout.pretend(trx_id, SandboxOutcome.PAY)
        return trx_id

    async def run_jobs(self) -> None:
        """Runs the jobs that the dashboard created for this merchant, even if they are not due."""
        db = self.services.db
        works = {kind: worker.job_handlers(self.services)[kind] for kind in KINDS}
        runner = Runner(db, works)
        seen: list[str] = []
        # A settlement that awaits approval always has a job, so stop when the jobs change nothing.
        while seen[-3:] != [await self._progress()] * 3:
            seen.append(await self._progress())
            await db.execute(
                "UPDATE job SET due_at = now() - interval '1 hour'"
                " WHERE merchant_id = $1 AND kind = ANY($2)",
                self.merchant.new.id,
                list(KINDS),
            )
            claimed = await claims.claim(db, dict.fromkeys(KINDS, 20))
            await asyncio.gather(*(runner._do(job) for job in claimed))
            if not any(job.merchant_id == self.merchant.new.id for job in claimed):
                return

    async def _progress(self) -> str:
        """Returns a summary of the jobs' results. A changed summary means progress."""
        progress: str = await self.services.db.value(
            """
            SELECT concat_ws(' ', (SELECT count(*) FROM job WHERE merchant_id = $1),
                   (SELECT array_agg(status) FROM payout WHERE merchant_id = $1),
                   (SELECT array_agg(status) FROM refund WHERE merchant_id = $1),
                   (SELECT array_agg(concat(state, trx_id, batch_id))
                      FROM settlement WHERE merchant_id = $1),
                   (SELECT array_agg(status) FROM payout_batch WHERE merchant_id = $1),
                   (SELECT array_agg(state) FROM payout_batch_row WHERE merchant_id = $1))""",
            self.merchant.new.id,
        )
        return progress

    async def method_id(self, code: str = "providera_ngn_transfer") -> int:
        method_id: int = await self.services.db.value("SELECT id FROM method WHERE code = $1", code)
        return method_id

    async def balance(self) -> int:
        minor: int = await self.services.db.value(
            """
            SELECT balance_minor FROM wallet
             WHERE merchant_id = $1 AND environment = 'sandbox' AND currency = 'NGN'""",
            self.merchant.new.id,
        )
        return minor

    async def count(self, table: str) -> int:
        number: int = await self.services.db.value(
            f"SELECT count(*) FROM {table} WHERE merchant_id = $1", self.merchant.new.id
        )
        return number

    @contextlib.asynccontextmanager
    async def open_page(self, browser: Browser, path: str, *, width: int) -> AsyncIterator[Page]:
        """Opens a page in a browser as the owner, who must step up before moving money."""
        await self.services.db.execute(
            "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1", self.owner.person_id
        )
        context = await browser.new_context(viewport={"width": width, "height": 844})
        await self.owner.enter(context)
        page = await context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda said: problems.append(said.text) if said.type in ("error", "warning") else None,
        )
        await page.goto(f"{self.services.base_url}/dashboard{path}")
        yield page
        assert problems == []
        await context.close()

    async def rows(self, path: str, **query: str) -> list[list[str]]:
        """Returns the rows of a list's CSV export, without the header row."""
        reply = await self.owner.get(f"{path}?{urlencode({**query, 'format': 'csv'})}")
        assert reply.status == 200, reply.body
        return list(csv.reader(io.StringIO(unchunked(reply).decode())))[1:]


def redirect_target(reply: Reply) -> str:
    """Returns the path to which a response redirects.

    `Reply.headers` is in lower case, so this function converts the id back to upper case.
    """
    assert reply.status == 303, reply.body
    place, _, name = reply.headers["location"].removeprefix("/dashboard").rpartition("/")
    return f"{place}/{name.upper()}"


def unchunked(reply: Reply) -> bytes:
    if reply.headers.get("transfer-encoding") != "chunked":
        return reply.body
    body, rest = b"", reply.body
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return body
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]


async def new_dashboard(services: Services, site: Site) -> MerchantDashboard:
    merchant = await new_merchant(site, services.db, services.keyring)
    owner = await member(services, site, merchant.new.id)
    await owner.step_up(services)
    return MerchantDashboard(services, merchant, owner)
