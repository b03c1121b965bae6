"""`manilla golive`: each step of going live is done only if the database has the evidence."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import typer

from manilla.audit import audit
from manilla.audit.audit import SavedHead
from manilla.cli.main import build
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.proofs import going_live
from manilla.proofs.going_live import GoLiveInstance, UnknownBackup
from manilla.providers import credentials
from manilla.providers.checks.account import check_account
from manilla.providers.rails import open_client
from manilla.refunds import initiate
from manilla.services import Services
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.mail.mail_server import mail_server
from tests.payments.shop import Shop
from tests.support.client import new_merchant
from tests.support.databases import database, running
from tests.support.provider_simulator import running_simulator

PROVIDER, WEBHOOK, PAYMENT, MAIL, BACKUP = range(5)


class NewInstance(msgspec.Struct):
    """An instance without transactions. Its only provider is the simulated provider A."""

    services: Services
    shop: Shop
    environment: dict[str, str]
    mail_port: int

    @property
    def app(self) -> typer.Typer:
        return build("golive", "mail", "audit")

    async def golive(self, **environment: str) -> Any:
        return await InProcessCommand(self.app, self.environment | environment).run("golive")

    async def done(self) -> list[bool]:
        """Returns which of the five steps are done."""
        services, server = self.services, f"smtp://127.0.0.1:{self.mail_port}"
        instance = GoLiveInstance(
            *(services.db, services.keyring, services.base_url),
            mail_server=server,
            is_production_mode=False,
        )
        return [step.is_done for step in await going_live.check(instance)]

    async def check_provider(self) -> None:
        async with open_client() as client:
            services = self.services
            await check_account(
                *(services.db, services.keyring, client, "providera", services.base_url),
                is_live=True,
            )

    async def set_key(self, name: str, value: str) -> None:
        services = self.services
        await credentials.change(services.db, services.keyring, "providera", {name: value})


@pytest.fixture(scope="module")
async def instance(cluster: Cluster, settings: Settings) -> AsyncIterator[NewInstance]:
    own = await database(cluster, settings, "golive", is_migrated=True)
    async with (
        running(own) as (services, site),
        running_simulator(services, ["a"]) as simulator,
        mail_server() as mail,
    ):
        merchant = await new_merchant(
            site, services.db, services.keyring, environment=Environment.PRODUCTION
        )
        environment = environment_of(own) | {
            "MANILLA_MODE": "development",
            "MANILLA_SMTP_URL": f"smtp://127.0.0.1:{mail.port}",
        }
        shop = Shop(services, simulator, merchant)
        yield NewInstance(services, shop, environment, mail.port)


async def test_the_five_steps_from_a_new_instance_to_going_live(instance: NewInstance) -> None:
    # The simulated provider's account is marked as a test account at first.
    await instance.check_provider()
    assert await instance.done() == [False] * 5

    await instance.set_key("sandbox", "false")
    assert await instance.done() == [False] * 5
    await instance.check_provider()
    assert await instance.done() == [True, False, False, False, False]

    started = await instance.shop.start(payment_amount=100)
    charge = await instance.shop.choose(started, "providera-ngn")
    await instance.shop.pay(charge)
    await instance.shop.until(started, "success")
    assert await instance.done() == [True, True, False, False, False]
    shown = await instance.golive()
    assert f"manilla refund {started.trx_id}" in shown.stdout

    await initiate.start(instance.services.db, started.trx_id, None, "First", on_behalf=True)
    assert not (await instance.done())[PAYMENT]
    await instance.shop.until_refunded(started)
    assert await instance.done() == [True, True, True, False, False]

    command = InProcessCommand(instance.app, instance.environment)
    await command.printed("mail", "test", "ada@example.com")
    assert await instance.done() == [True, True, True, True, False]

    head = await audit.head(instance.services.db)
    await command.printed("audit", "drill", str(head))
    finished = await instance.golive()
    assert (finished.exit_code, await instance.done()) == (0, [True] * 5)

    # Another mail server, or a changed provider account, has no evidence yet.
    other = await instance.golive(MANILLA_SMTP_URL=f"smtp://127.0.0.1:{instance.mail_port + 1}")
    assert other.exit_code == 1
    await instance.set_key("webhook_secret", "another-secret-4711")
    assert await instance.done() == [False, False, True, True, True]


async def test_a_failed_check_or_email_is_no_evidence(instance: NewInstance) -> None:
    await instance.set_key("secret_key", "wrong-key-4711")
    await instance.check_provider()
    assert not (await instance.done())[PROVIDER]
    closed = instance.environment | {"MANILLA_SMTP_URL": "smtp://127.0.0.1:1"}
    refusal = await InProcessCommand(instance.app, closed).refused("mail", "test", "a@example.com")
    assert "was not sent" in refusal
    assert (await instance.golive(**closed)).exit_code == 1


async def test_only_a_backup_of_this_instance_counts_as_restored(instance: NewInstance) -> None:
    head = await audit.head(instance.services.db)
    foreign = SavedHead(head.id, "00" * 32)
    with pytest.raises(UnknownBackup):
        await going_live.record_drill(instance.services.db, foreign)
    with pytest.raises(UnknownBackup):
        await going_live.record_drill(instance.services.db, SavedHead(head.id + 7, head.hash))


async def test_in_production_mode_a_simulated_provider_counts_as_no_account(
    instance: NewInstance,
) -> None:
    services = instance.services
    real = GoLiveInstance(
        *(services.db, services.keyring, "https://pay.example.com"),
        mail_server=None,
        is_production_mode=True,
    )
    steps = await going_live.check(real)
    assert [each.is_done for each in steps[: PAYMENT + 1]] == [False] * 3
    assert "No provider account" in steps[PROVIDER].evidence


async def test_each_open_step_names_what_to_do_next(instance: NewInstance) -> None:
    shown = await instance.golive(MANILLA_SMTP_URL="")
    steps = msgspec.json.decode(shown.stdout.splitlines()[-1])["steps"]
    assert all(bool(step["next"]) != step["done"] for step in steps)
