"""The audit log records every change by an operator with the old and new value, without secrets."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.beneficiaries import accounts
from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.kit import jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind as Settlement
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from manilla.methods import catalogue
from manilla.methods.method import MethodKind
from manilla.notify import redeliver
from manilla.payouts import decisions
from manilla.platform import settings
from manilla.providers import credentials
from manilla.refunds import decisions as refund_decisions
from manilla.refunds import initiate
from manilla.resolutions import resolutions
from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator

ADA = Actor(ActorKind.PERSON, 7, "Ada", "console")
PRODUCTION = Environment.PRODUCTION


async def of_merchant(db: Database, merchant: Merchant) -> list[AuditEntry]:
    return (await audit.list_entries(db, AuditFilter(merchant_id=merchant.new.id)))[::-1]


async def last(db: Database, action: str) -> AuditEntry:
    return (await audit.list_entries(db, AuditFilter(action=action), limit=1))[0]


def changed(before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after}


async def test_merchants_and_wallets(db: Database, keyring: Keyring, merchant: Merchant) -> None:
    number = merchant.new.id
    with acting(ADA):
        wanted = MerchantUpdate(
            status=MerchantStatus.DISABLED, commission_percent=Decimal("1.5"), bvn="22222222222"
        )
        await merchants.change(db, keyring, number, wanted)
        await merchants.change(db, keyring, number, MerchantUpdate(status=MerchantStatus.DISABLED))
        await merchants.rotate(db, keyring, number, PRODUCTION, overlap_minutes=5)
        await wallets.fund(db, number, PRODUCTION, Money.of("10", "NGN"), "first")
        await wallets.adjust(db, number, PRODUCTION, Money.of("-4", "NGN"), "too much")
        await wallets.set_status(db, number, PRODUCTION, "NGN", WalletStatus.INACTIVE)
    lines = await of_merchant(db, merchant)
    assert [line.actor.name for line in lines] == ["system", *["Ada"] * 5]
    wallet = f"wallet:{number}:production:NGN"
    assert [(line.action, line.subject) for line in lines] == [
        ("merchant.create", f"merchant:{number}"),
        # The second call changed nothing, so the audit log has no second entry.
        ("merchant.change", f"merchant:{number}"),
        ("merchant.rotate", f"merchant:{number}"),
        ("wallet.fund", wallet),
        ("wallet.adjust", wallet),
        ("wallet.set_status", wallet),
    ]
    assert lines[1].detail["changed"] == {
        "status": changed("approved", "disabled"),
        "commission_percent": changed("0", "1.5"),
        "bvn": changed(None, "set"),
    }
    assert lines[4].detail["balance"] == changed("10.00 NGN", "6.00 NGN")
    assert (lines[4].detail["amount"], lines[4].detail["reason"]) == ("-4.00 NGN", "too much")
    assert lines[5].detail["changed"] == {"status": changed("active", "inactive")}


async def test_settings_providers_and_methods(db: Database, keyring: Keyring) -> None:
    await settings.change(db, "checkout_minutes", "31")
    await settings.change(db, "checkout_minutes", "30")
    line = await last(db, "setting")
    assert line.detail["changed"] == {"checkout_minutes": changed("31", "30")}

    await credentials.clear(db, "providerc")
    await credentials.change(db, keyring, "providerc", {"secret_key": "one", "sandbox": "true"})
    await credentials.change(db, keyring, "providerc", {"secret_key": "two"})
    line = await last(db, "provider.change")
    assert line.detail["changed"] == {"secret_key": changed("set", "set")}
    await credentials.clear(db, "providerc")
    assert (await last(db, "provider")).action == "provider.clear"

    await catalogue.change(
        db, MethodKind.WITHDRAW, "platform", catalogue.MethodUpdate(minimum="600")
    )
    line = await last(db, "method.change")
    assert (line.subject, line.detail["changed"]) == (
        "method:platform",
        {"min_minor": changed(50000, 60000)},
    )
    await catalogue.change(
        db, MethodKind.WITHDRAW, "platform", catalogue.MethodUpdate(minimum="500")
    )


async def test_payouts_and_saved_accounts(
    services: Services, simulator: ProviderSimulator, merchant: Merchant
) -> None:
    db, payer = services.db, PayoutMerchant(services, simulator, merchant)
    await payer.fund("10000")
    await simulator.control("a/balance", {"available": 100_000_000})
    first, second = await payer.pay_out(MANUAL), await payer.pay_out(MANUAL)
    automatic = await payer.pay_out("a")
    with acting(ADA):
        await decisions.complete(db, first, "FT-1")
        await decisions.reject(db, services.rails, second, "The bank is closed.")
        await decisions.requeue(db, automatic)
        given = {"bank_code": "058", "account_number": "0123456789"}
        saved = await accounts.add(db, merchant.new.id, "providera_ngn_transfer", given)
        assert await accounts.remove(db, merchant.new.id, saved)
        assert not await accounts.remove(db, merchant.new.id, saved)
    lines = [line for line in await of_merchant(db, merchant) if line.actor_name == "Ada"]
    assert [(line.action, line.subject) for line in lines] == [
        ("payout.complete", f"payout:{first}"),
        ("payout.reject", f"payout:{second}"),
        ("payout.requeue", f"payout:{automatic}"),
        ("account.add", f"account:{saved}"),
        ("account.remove", f"account:{saved}"),
    ]
    assert lines[0].detail["changed"] == {"status": changed("pending", "completed")}
    assert lines[1].detail["reason"] == "The bank is closed."
    assert lines[3].detail["account"] == "…6789"
    await simulator.until(lambda: _is_done(db, automatic))
    after = await of_merchant(db, merchant)
    assert after[-1].action == "account.remove", "a job's decision is not an administrator's change"


async def _is_done(db: Database, trx_id: str) -> bool:
    status = await db.value("SELECT status FROM payout WHERE trx_id = $1", trx_id)
    return bool(status == "completed")


async def test_refunds_cases_settlements_and_notifications(
    services: Services, simulator: ProviderSimulator, merchant: Merchant
) -> None:
    db, shop = services.db, Shop(services, simulator, merchant)
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providerb-ngn"))
    await shop.until(started, "success")
    with acting(ADA):
        paid = await initiate.start(db, started.trx_id, "400", "Returned")
        unpaid = await initiate.start(db, started.trx_id, "300", "Returned too")
    await simulator.run_jobs()
    await cases.open_case(
        db, cases.CaseKind.CONTRADICTION, paid.trx_id, "to see", merchant_id=merchant.new.id
    )
    [case] = [each for each in await cases.cases(db) if each.reference == paid.trx_id]
    note: str = await db.value("SELECT id FROM notification WHERE trx_id = $1", started.trx_id)
    with acting(ADA):
        await refund_decisions.confirm(db, services.rails, paid.trx_id, "by bank")
        await refund_decisions.reject(db, services.rails, unpaid.trx_id, "not ours")
        await resolutions.resolve(db, case.id, "looked at", CaseAction.NOTHING)
        await redeliver.redeliver(db, note)
        await db.execute(
            "UPDATE notification SET state = 'failed', decided_at = now() WHERE id = $1", note
        )
        since = datetime.now(UTC) - timedelta(minutes=5)
        assert await redeliver.redeliver_failed(db, since, merchant.new.id) == [note]
        await provider_funds.settle(
            db, Settlement.TOP_UP, "providerb", Money.of("1000", "NGN"), "FT-9"
        )
    lines = [line for line in await of_merchant(db, merchant) if line.actor_name == "Ada"]
    assert [(line.action, line.subject) for line in lines] == [
        ("refund.start", f"refund:{paid.trx_id}"),
        ("refund.start", f"refund:{unpaid.trx_id}"),
        ("refund.confirm", f"refund:{paid.trx_id}"),
        ("refund.reject", f"refund:{unpaid.trx_id}"),
        ("case.resolve", f"case:{case.id}"),
        ("notification.redeliver", f"notification:{note}"),
        ("notification.redeliver_failed", "notifications"),
    ]
    assert lines[0].detail["amount"] == "400.00 NGN"
    line = await last(db, "settle")
    assert (line.action, line.subject) == ("settle.top_up", "provider:providerb")
    await jobs.put(db, merchant.new.id, "notify", started.trx_id)


async def test_no_secret_is_ever_logged(db: Database, keyring: Keyring, merchant: Merchant) -> None:
    planted = ["planted-secret-1", "planted-hook-2", "22233344455", "0998877665"]
    await merchants.change(db, keyring, merchant.new.id, MerchantUpdate(bvn=planted[2]))
    new = await merchants.rotate(db, keyring, merchant.new.id, PRODUCTION)
    given = {"secret_key": planted[0], "webhook_secret": planted[1]}
    await credentials.change(db, keyring, "providerc", given)
    await credentials.clear(db, "providerc")
    bank = {"bank_code": "058", "account_number": planted[3]}
    await accounts.add(db, merchant.new.id, "providera_ngn_transfer", bank)
    for keys in (merchant.new.sandbox, merchant.new.production, new):
        planted += [keys.api_key, keys.api_secret]
    for secret in planted:
        query = "SELECT count(*) FROM audit WHERE strpos(audit::text, $1) > 0"
        assert await db.value(query, secret) == 0, secret
