"""What the API, the console and commands report if the fence has rejected a change."""

import pytest

from manilla.cells.directory import CellMap, MerchantMoves
from manilla.cells.fence_trigger import MerchantElsewhere
from manilla.cells.moving.stored import Step
from manilla.cli import wallet
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import LinkTerms
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.moving.movers import Mover
from tests.payments.shop import Shop
from tests.web.signed_in_user import administrator, member

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_a_process_that_does_not_know_of_the_move_reports_the_service_as_unavailable(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mover.move()
    monkeypatch.setattr(CellMap, "check_here", lambda *_: None)
    reply = await mover.payers["lagos"].ask()
    assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE")
    assert reply.headers["retry-after"] == "1"


async def test_customers_and_the_merchants_users_are_asked_to_try_again(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    lagos = mover.running("lagos")
    shop = Shop(lagos.services, mover.simulators["lagos"], mover.payers["lagos"].merchant)
    started = await shop.start()
    tenant = Tenant(mover.merchant_id, Environment.PRODUCTION)
    terms = LinkTerms(title="Rice", currency="NGN", amount_minor=100_000)
    link = await store.create(lagos.services.db, tenant, terms)
    owner = await member(lagos.services, lagos.site, mover.merchant_id)
    await mover.move_until(Step.FENCE)
    monkeypatch.setattr(CellMap, "check_here", lambda *_: None)
    path, _, query = started.target.partition("?")
    replies = [
        await owner.post("/production/links", {"title": "Yam", "currency": "NGN", "amount": "5"}),
        await lagos.site.send("POST", f"{path}/cancel?{query}", FORM, b"x="),
        await lagos.site.send("POST", link.path, FORM, b"name=Ada"),
    ]
    for reply in replies:
        assert reply.status == 503, reply.body
        assert MerchantMoves.message.encode() in reply.body
    await mover.abort()


async def test_an_administrator_of_the_first_cell_sees_that_the_merchant_lives_elsewhere(
    mover: Mover, settings: Settings
) -> None:
    await mover.move()
    lagos = mover.running("lagos")
    admin = await administrator(lagos.services, lagos.site, "elsewhere@console.example")
    await admin.step_up(lagos.services)
    changed = await admin.post(
        f"/merchants/{mover.merchant_id}/wallets/production/NGN/status", {"status": "inactive"}
    )
    assert changed.status == 409
    assert MerchantElsewhere.message.encode() in changed.body.replace(b"&#39;", b"'")
    commands = InProcessCommand(
        wallet.app,
        {**environment_of(settings), "MANILLA_DATABASE_URL": lagos.services.database_url},
    )
    where = ("--environment", "sandbox")
    text = await commands.refused("fund", str(mover.merchant_id), "NGN", "5", *where)
    assert text == MerchantElsewhere.message
