"""In production mode, a change that weakens security needs a second administrator's approval."""

import asyncio
from decimal import Decimal

import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import ApprovalNotFound, Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import (
    Change,
    MerchantChange,
    MethodChange,
    ProviderAddition,
    ProviderChange,
    SettingChange,
    WalletAdjustment,
    WalletFunding,
)
from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.audit.audit import AuditFilter
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.merchants import merchants, queries
from manilla.merchants.merchants import CommissionBearer, MerchantStatus
from manilla.merchants.wallets import AdjustmentRefused, FundingResult
from manilla.methods import catalogue
from manilla.methods.method import Method, MethodKind
from manilla.people.second_person import ApprovalNotAllowed
from manilla.platform import settings
from manilla.providers import credentials
from tests.payments.steps import new_payment
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator

ADA = Actor(ActorKind.PERSON, 1, "Ada", "console")
BOLA = Actor(ActorKind.PERSON, 2, "Bola", "console")
ROOT = Actor(ActorKind.COMMAND, None, "root")
PRODUCTION, SANDBOX = Environment.PRODUCTION, Environment.SANDBOX


def naira(amount: str) -> Money:
    return Money.of(amount, "NGN")


async def balance(db: Database, merchant: Merchant) -> int:
    wallet = await queries.wallet(db, merchant.new.id, PRODUCTION, "NGN")
    assert wallet is not None
    return wallet.balance_minor


async def ask(approving: Approvals, change: Change, actor: Actor = ADA) -> int:
    with acting(actor):
        asked = await apply_or_ask(approving, change)
    assert isinstance(asked, ApprovalRequested), asked
    return asked.approval_id


async def test_an_adjustment_above_the_limit_waits_for_approval(
    approving: Approvals, merchant: Merchant
) -> None:
    db, who = approving.db, (merchant.new.id, PRODUCTION)
    within = await apply_or_ask(approving, WalletFunding(*who, naira("10000000"), "within"))
    assert isinstance(within, FundingResult)
    number = await ask(approving, WalletAdjustment(*who, naira("10000000.01"), "found"))
    assert await balance(db, merchant) == 1_000_000_000
    assert number in [each.id for each in await approvals.waiting(db)]
    with acting(BOLA):
        approved = await approvals.approve(approving, number)
    assert isinstance(approved.result, FundingResult)
    assert await balance(db, merchant) == 2_000_000_001
    assert (approved.approval.status, approved.approval.decided_by) == ("approved", BOLA)
    assert number not in [each.id for each in await approvals.waiting(db)]
    lines = (await audit.list_entries(db, AuditFilter(merchant_id=merchant.new.id)))[:3]
    assert [(line.action, line.actor_name) for line in lines] == [
        ("approval.approve", "Bola"),
        ("wallet.adjust", "Bola"),
        ("approval.ask", "Ada"),
    ]
    assert lines[0].detail["asked_by"] == "Ada"


async def test_debits_have_the_same_limit_and_a_role_may_have_none(
    approving: Approvals, merchant: Merchant
) -> None:
    who = merchant.new.id, PRODUCTION
    await ask(approving, WalletAdjustment(*who, naira("-10000000.01"), "too much"))
    await ask(approving, WalletAdjustment(*who, naira("1"), "small", needs_second=True))
    await ask(approving, WalletFunding(*who, naira("10000000.01"), "much"))
    in_sandbox = WalletAdjustment(
        merchant.new.id, SANDBOX, naira("500000"), "play", needs_second=True
    )
    assert isinstance(await apply_or_ask(approving, in_sandbox), FundingResult)


async def test_small_amounts_in_a_day_add_up_towards_the_limit(
    approving: Approvals, merchant: Merchant
) -> None:
    chika = Actor(ActorKind.PERSON, 31, "Chika", "console")
    put = WalletFunding(merchant.new.id, PRODUCTION, naira("4000000"), "in parts")
    take = WalletAdjustment(merchant.new.id, PRODUCTION, naira("-4000000"), "in parts")
    with acting(chika):
        at_once = await asyncio.gather(*(apply_or_ask(approving, put) for _ in range(3)))
        assert sorted(type(each).__name__ for each in at_once) == [
            "ApprovalRequested",
            "FundingResult",
            "FundingResult",
        ]
        assert isinstance(await apply_or_ask(approving, take), ApprovalRequested)
    [number] = [each.approval_id for each in at_once if isinstance(each, ApprovalRequested)]
    # Approved changes do not count toward the limit, and each administrator has a separate limit.
    with acting(BOLA):
        await approvals.approve(approving, number)
    with acting(Actor(ActorKind.PERSON, 32, "Dele", "console")):
        assert isinstance(await apply_or_ask(approving, take), FundingResult)
    with acting(Actor(ActorKind.COMMAND, None, "chika")):
        assert isinstance(await apply_or_ask(approving, put), FundingResult)
        assert isinstance(await apply_or_ask(approving, put), FundingResult)
        await ask(approving, put, Actor(ActorKind.COMMAND, None, "chika"))
    assert await balance(approving.db, merchant) == 1_600_000_000


async def test_a_currency_without_a_limit_always_needs_a_second_administrator(
    approving: Approvals, merchant: Merchant
) -> None:
    await merchants.switch_currency(approving.db, merchant.new.id, "USD", is_on=True)
    put = WalletFunding(merchant.new.id, PRODUCTION, Money.of("0.01", "USD"), "a cent")
    await ask(approving, put, Actor(ActorKind.PERSON, 41, "Efe", "console"))
    number = await ask(approving, SettingChange("adjustment_limits", "NGN:10000000,USD:100"))
    with acting(BOLA):
        await approvals.approve(approving, number)
    try:
        with acting(Actor(ActorKind.PERSON, 42, "Femi", "console")):
            assert isinstance(await apply_or_ask(approving, put), FundingResult)
            more = WalletFunding(merchant.new.id, PRODUCTION, Money.of("100", "USD"), "more")
            assert isinstance(await apply_or_ask(approving, more), ApprovalRequested)
    finally:
        await settings.change(approving.db, "adjustment_limits", "NGN:10000000")


async def test_the_single_limit_of_version_0_1_counts_as_naira_until_limits_are_set(
    approving: Approvals, owner: Database
) -> None:
    await owner.execute("DELETE FROM setting WHERE key = 'adjustment_limits'")
    await approving.db.execute(
        "INSERT INTO setting (key, value) VALUES ('adjustment_limit', '5000')"
    )
    try:
        current = await settings.load(approving.db)
        assert current.adjustment_limit_in("NGN") == naira("5000")
        assert current.adjustment_limit_in("USD") is None
        await settings.change(approving.db, "adjustment_limits", "USD:7")
        assert (await settings.load(approving.db)).adjustment_limit_in("NGN") is None
    finally:
        await owner.execute("DELETE FROM setting WHERE key = 'adjustment_limit'")
        await settings.change(approving.db, "adjustment_limits", "NGN:10000000")


@pytest.mark.parametrize(
    "text", ["NGN", "NGN:", "NGN:1.5", "NGN:-1", "XXX:5", "NGN:1,NGN:2", "NGN:1234567890123"]
)
def test_an_unreadable_limit_is_rejected(text: str) -> None:
    with pytest.raises(settings.BadSetting, match="NGN:10000000,USD:10000"):
        settings.parse("adjustment_limits", text)


async def test_fees_and_limits_of_a_method_wait_for_approval_but_not_its_name(
    approving: Approvals,
) -> None:
    [method, *_] = [m for m in await catalogue.load(approving.db) if m.kind is MethodKind.WITHDRAW]
    about = method.kind, method.code
    for wanted in (
        catalogue.MethodUpdate(fee_percent=Decimal(90)),
        catalogue.MethodUpdate(fee_fixed="5000"),
        catalogue.MethodUpdate(maximum="1000000000"),
        catalogue.MethodUpdate(minimum="0.01"),
    ):
        await ask(approving, MethodChange(*about, wanted))
    assert await catalogue.get(approving.db, *about) == method
    renamed = MethodChange(
        *about, catalogue.MethodUpdate(name="A name", fee_percent=method.fee.percent)
    )
    with acting(ADA):
        assert isinstance(await apply_or_ask(approving, renamed), Method)
    number = await ask(
        approving, MethodChange(*about, catalogue.MethodUpdate(fee_percent=Decimal("1.25")))
    )
    with acting(BOLA):
        await approvals.approve(approving, number)
    after = await catalogue.get(approving.db, *about)
    assert (after.name, after.fee.percent) == ("A name", Decimal("1.25"))
    back = catalogue.MethodUpdate(name=method.name, fee_percent=method.fee.percent)
    await catalogue.change(approving.db, *about, back)


async def test_two_administrators_approving_concurrently_apply_it_once(
    approving: Approvals, merchant: Merchant
) -> None:
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("20000000"), "once")
    number = await ask(approving, change)

    async def approve(n: int) -> str:
        with acting(Actor(ActorKind.PERSON, 10 + n, f"Admin {n}", "console")):
            try:
                return (await approvals.approve(approving, number)).approval.status
            except ApprovalNotAllowed as refusal:
                return refusal.text

    outcomes = await asyncio.gather(*(approve(n) for n in range(6)))
    late = f"Approval {number} is approved already."
    assert sorted(outcomes) == [*[late] * 5, "approved"]
    assert await balance(approving.db, merchant) == 2_000_000_000


@pytest.mark.parametrize(
    ("asker", "second"),
    [(ADA, ADA), (ADA, Actor(ActorKind.PERSON, 1, "Ada Renamed", "console")), (ROOT, ROOT)],
)
async def test_the_requester_cannot_approve_but_can_withdraw(
    approving: Approvals, merchant: Merchant, asker: Actor, second: Actor
) -> None:
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("20000000"), "mine")
    number = await ask(approving, change, asker)
    with acting(second):
        with pytest.raises(ApprovalNotAllowed, match="another person"):
            await approvals.approve(approving, number)
        refused = await approvals.refuse(approving, number, "a mistake")
    assert (refused.status, refused.decision) == ("refused", "a mistake")
    with acting(BOLA), pytest.raises(ApprovalNotAllowed, match="refused already"):
        await approvals.approve(approving, number)
    assert await balance(approving.db, merchant) == 0


async def test_an_unknown_actor_cannot_approve(approving: Approvals, merchant: Merchant) -> None:
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("20000000"), "whose")
    number = await ask(approving, change)
    with pytest.raises(ApprovalNotAllowed, match="Only a person"):
        await approvals.approve(approving, number)
    with acting(BOLA), pytest.raises(ApprovalNotFound):
        await approvals.approve(approving, 2**62)


async def test_an_approval_expires_after_seven_days(
    approving: Approvals, merchant: Merchant
) -> None:
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("20000000"), "slow")
    number = await ask(approving, change)
    await approving.db.execute(
        "UPDATE approval SET expires_at = expires_at - interval '7 days' WHERE id = $1", number
    )
    with acting(BOLA), pytest.raises(ApprovalNotAllowed, match="expired already"):
        await approvals.approve(approving, number)
    assert (await approvals.find(approving.db, number)).status == "expired"
    await ask(approving, change)
    query = "SELECT status FROM approval WHERE id = $1 AND payload_sealed IS NULL"
    assert await approving.db.value(query, number) == "expired"


async def test_an_approval_whose_change_is_rejected_keeps_waiting(
    approving: Approvals, merchant: Merchant
) -> None:
    change = WalletAdjustment(merchant.new.id, PRODUCTION, naira("-20000000"), "too much")
    number = await ask(approving, change)
    with acting(BOLA), pytest.raises(AdjustmentRefused, match="lower than this amount"):
        await approvals.approve(approving, number)
    assert (await approvals.find(approving.db, number)).status == "waiting"


async def test_an_approval_applies_exactly_what_it_shows(
    approving: Approvals, merchant: Merchant
) -> None:
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("90000000"), "much")
    number = await ask(approving, change)
    await approving.db.execute(
        "UPDATE approval SET detail = jsonb_set(detail, '{amount}', '\"1.00 NGN\"') WHERE id = $1",
        number,
    )
    with acting(BOLA), pytest.raises(ApprovalNotAllowed, match="different change than it shows"):
        await approvals.approve(approving, number)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("signature_required", "false"),
        ("timestamp_tolerance_seconds", "901"),
        ("settlement_account_wait_hours", "23"),
        ("adjustment_limits", "NGN:10000001"),
        ("adjustment_limits", "NGN:10000000,USD:1"),
        ("second_factor_for_money", "false"),
    ],
)
async def test_a_setting_that_weakens_security_waits_for_approval(
    approving: Approvals, owner: Database, key: str, value: str
) -> None:
    before = await settings.load(approving.db)
    number = await ask(approving, SettingChange(key, value))
    assert await settings.load(approving.db) == before
    with acting(BOLA):
        await approvals.approve(approving, number)
    try:
        assert settings.render(getattr(await settings.load(approving.db), key)) == value
    finally:
        # Resetting the setting to its safe value needs no approval.
        safe = settings.render(getattr(before, key)) if getattr(before, key) is not None else "true"
        assert await apply_or_ask(approving, SettingChange(key, safe)) is None
        # Delete the setting, because other tests in this process rely on its default.
        await owner.execute("DELETE FROM setting WHERE key = $1", key)


@pytest.mark.parametrize("key", sorted(settings.MERCHANT_LIMITS))
async def test_every_change_of_merchants_limits_waits_for_approval(
    approving: Approvals, owner: Database, key: str
) -> None:
    try:
        for value in ("NGN:5000000", "NGN:4000000", ""):
            number = await ask(approving, SettingChange(key, value))
            assert getattr(await settings.load(approving.db), key) != value
            with acting(BOLA):
                await approvals.approve(approving, number)
            assert getattr(await settings.load(approving.db), key) == value
    finally:
        await owner.execute("DELETE FROM setting WHERE key = $1", key)


async def test_new_credentials_wait_encrypted_and_are_deleted_once_decided(
    approving: Approvals,
) -> None:
    await credentials.clear(approving.db, "providerc")
    first = {"secret_key": "one", "webhook_secret": "two"}
    await credentials.change(approving.db, approving.keyring, "providerc", first)
    number = await ask(approving, ProviderChange("providerc", {"secret_key": "planted-later-3"}))
    for table in ("approval", "audit"):
        query = f"SELECT count(*) FROM {table} WHERE strpos({table}::text, 'planted') > 0"
        assert await approving.db.value(query) == 0
    query = "SELECT encode(payload_sealed, 'escape') FROM approval WHERE id = $1"
    assert "planted" not in await approving.db.value(query, number)
    assert (await approvals.find(approving.db, number)).detail["secret_key"] == "set"
    with acting(BOLA):
        await approvals.approve(approving, number)
    now = (await credentials.load(approving.db, approving.keyring))["providerc"]
    assert now.value("secret_key") == "planted-later-3"
    assert await approving.db.value(query, number) is None
    await credentials.clear(approving.db, "providerc")


async def test_a_commission_change_waits_unless_the_merchant_is_new(
    approving: Approvals, merchant: Merchant, simulator: ProviderSimulator
) -> None:
    number = merchant.new.id
    back = MerchantChange(number, merchants.MerchantUpdate(status=MerchantStatus.PENDING))
    agreed = merchants.MerchantUpdate(
        commission_percent=Decimal("1.5"), status=MerchantStatus.APPROVED
    )
    await ask(approving, MerchantChange(number, agreed))
    assert not isinstance(await apply_or_ask(approving, back), ApprovalRequested)
    at_once = MerchantChange(number, agreed)
    assert isinstance(await apply_or_ask(approving, at_once), queries.MerchantRow)
    await new_payment(merchant)
    assert not isinstance(await apply_or_ask(approving, at_once), ApprovalRequested), (
        "nothing would change"
    )
    assert not isinstance(await apply_or_ask(approving, back), ApprovalRequested)
    wanted = merchants.MerchantUpdate(
        commission_percent=Decimal("9.25"),
        commission_bearer=CommissionBearer.MERCHANT,
        currencies=["NGN", "USD"],
        bvn="22233344455",
    )
    asked = await ask(approving, MerchantChange(number, wanted))
    assert (await approvals.find(approving.db, asked)).detail == {
        "commission_percent": "9.25",
        "commission_bearer": "merchant",
        "currencies": ["NGN", "USD"],
        "bvn": "set",
    }
    assert (await merchants.get(approving.db, number)).commission_percent == Decimal("1.5")
    with acting(BOLA):
        await approvals.approve(approving, asked)
    after = await merchants.get(approving.db, number)
    assert (after.commission_percent, after.commission_bearer) == (Decimal("9.25"), "merchant")
    assert (after.currencies, after.has_bvn) == (["NGN", "USD"], True)


async def test_an_impossible_change_is_rejected_before_approval(
    approving: Approvals, merchant: Merchant
) -> None:
    number = merchant.new.id
    nonsense: list[Change] = [
        SettingChange("no_such_setting", "1"),
        SettingChange("rate_limit_per_minute", "many"),
        WalletFunding(number, PRODUCTION, naira("-20000000"), "down"),
        WalletFunding(number, PRODUCTION, Money.of("20000000", "EUR"), "no wallet"),
        WalletFunding(number, PRODUCTION, naira("20000000"), " "),
        WalletAdjustment(number, PRODUCTION, naira("0"), "nothing"),
        ProviderChange("providerc", {"no_such_field": "x"}),
        ProviderAddition("paystack", "providera"),
        ProviderAddition("no_such_kind", "shop"),
        ProviderChange("providerc", {"base_url": "http://api.example.com"}),
        MerchantChange(number, merchants.MerchantUpdate(commission_percent=Decimal("sNaN"))),
        MerchantChange(10**6, merchants.MerchantUpdate(commission_percent=Decimal(1))),
    ]
    before = await approvals.waiting(approving.db)
    for change in nonsense:
        with pytest.raises(Refusal):
            await apply_or_ask(approving, change)
    assert await approvals.waiting(approving.db) == before


async def test_in_development_mode_everything_applies_immediately(
    approving: Approvals, merchant: Merchant
) -> None:
    here = Approvals(approving.db, approving.keyring, is_production_mode=False)
    change = WalletFunding(merchant.new.id, PRODUCTION, naira("500000000"), "much")
    assert isinstance(await apply_or_ask(here, change), FundingResult)
    assert await apply_or_ask(here, SettingChange("rate_limit_per_minute", "5000")) is None
    assert await apply_or_ask(here, SettingChange("rate_limit_per_minute", "120")) is None
