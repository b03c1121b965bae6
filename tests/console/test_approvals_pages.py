"""Approvals in the console: every request is decided once, and never by its requester."""

import asyncio

from manilla.approvals import approvals
from manilla.approvals.kinds import SettingChange, WalletAdjustment
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import queries
from manilla.people.roles import ConsoleRole
from manilla.providers import credentials
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.console.sample_data import SOMEBODY, request_adjustment
from tests.support.approving import approvals_of
from tests.support.client import Merchant
from tests.web.signed_in_user import SignedInUser


async def ask_as(services: Services, visitor: SignedInUser, merchant: Merchant) -> int:
    change = WalletAdjustment(
        merchant.new.id, Environment.SANDBOX, Money.of("7", "NGN"), "asked for"
    )
    with acting(Actor(ActorKind.PERSON, visitor.person_id, visitor.email, "console")):
        return await approvals.request(approvals_of(services), change)


async def test_of_two_administrators_approving_concurrently_one_gets_an_error(
    services: Services, populated: PopulatedConsole, second: SignedInUser
) -> None:
    wallet = populated.merchant.new.id, Environment.SANDBOX, "NGN"
    before = await queries.wallet(services.db, *wallet)
    number = await request_adjustment(services, populated.merchant, "a race")

    async def approve(visitor: SignedInUser) -> str:
        await visitor.step_up(services)
        reply = await visitor.post(f"/approvals/{number}/approve", {})
        return await visitor.follow(reply)

    pages = await asyncio.gather(*(approve(each) for each in (populated.administrator, second)))
    for text in (" is approved already.", ": change applied."):
        assert sum(f"Approval {number}{text}" in page for page in pages) == 1, text
    after = await queries.wallet(services.db, *wallet)
    assert before is not None
    assert after is not None
    assert after.balance_minor == before.balance_minor + 2500


async def test_a_requester_cannot_approve_their_own_change(
    services: Services, populated: PopulatedConsole
) -> None:
    visitor = populated.administrator
    await visitor.step_up(services)
    number = await ask_as(services, visitor, populated.merchant)
    page = (await visitor.get("/approvals")).body.decode()
    assert f"/approvals/{number}/approve" not in page
    assert "Amount: ₦7.00" in page
    # The page shows the balance that the adjustment would change.
    assert "Current balance: " in page
    reply = await visitor.post(f"/approvals/{number}/approve", {})
    assert "another person must" in await visitor.follow(reply)
    silent = await visitor.post(f"/approvals/{number}/refuse", {"reason": " "})
    assert "This field is required." in await visitor.follow(silent)
    back = await visitor.post(f"/approvals/{number}/refuse", {"reason": "not needed any more"})
    page = await visitor.follow(back)
    assert f"Approval {number} was rejected." in page
    assert "not needed any more" in page
    for unknown in (10**9, 10**30):
        assert (await visitor.post(f"/approvals/{unknown}/approve", {})).status == 404


async def test_operations_can_withdraw_their_own_requests_and_decide_nothing(
    services: Services, populated: PopulatedConsole
) -> None:
    officer = populated.people[ConsoleRole.OPERATIONS]
    await officer.step_up(services)
    theirs = await request_adjustment(services, populated.merchant, "somebody else's")
    own = await ask_as(services, officer, populated.merchant)
    assert (await officer.post(f"/approvals/{theirs}/approve", {})).status == 403
    assert (await officer.post(f"/approvals/{theirs}/refuse", {"reason": "no"})).status == 403
    back = await officer.post(f"/approvals/{own}/refuse", {"reason": "my mistake"})
    assert f"Approval {own} was rejected." in await officer.follow(back)
    assert (await approvals.find(services.db, theirs)).status == "waiting"


async def test_an_approval_describes_the_change_it_makes(
    services: Services, people: dict[ConsoleRole, SignedInUser]
) -> None:
    with acting(SOMEBODY):
        await approvals.request(approvals_of(services), SettingChange("kyc_required", "true"))
    page = (await people[ConsoleRole.ADMINISTRATOR].get("/approvals")).body.decode()
    assert "Setting kyc_required: false → true" in page


async def test_hidden_form_fields_do_not_decide_whether_a_provider_change_needs_approval(
    services: Services, in_production: dict[str, SignedInUser]
) -> None:
    given = {"base_url": "https://relay.example", "secret_key": "sk_one", "public_key": "pk_one"}
    wanted = {**given, "secret_key": "sk_two", "public_key": ""}
    await credentials.change(services.db, services.keyring, "kora", given)
    visitor = in_production["administrator"]
    try:
        for was in (given["base_url"], "https://api.korapay.com", "", None):
            forged = {} if was is None else {"was_base_url": was}
            for more in ({}, {"was_public_key": "pk_one"}, {"forget_secret_key": "on"}):
                reply = await visitor.post(
                    "/providers/kora/credentials", {**wanted, **forged, **more}
                )
                assert "Another administrator must approve" in await visitor.follow(reply)
        hidden = {**wanted, "was_secret_key": "sk_two"}
        assert (await visitor.post("/providers/kora/credentials", hidden)).status == 400
        await visitor.post("/providers/kora/switches", {**wanted, "was_sandbox": ""})
        now = (await credentials.load(services.db, services.keyring))["kora"]
        assert {name: now.given[name] for name in given} == given
    finally:
        await credentials.clear(services.db, "kora")
