"""Sample data for the console. Each new route parameter needs a sample value here."""

import secrets
from datetime import UTC, date, datetime, timedelta

import msgspec

from manilla.approvals import approvals
from manilla.approvals.kinds import WalletAdjustment
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit import ids
from manilla.kit.clock import start_of_day
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants.requests import log as request_log
from manilla.merchants.requests.log import RequestLogLine
from manilla.people import console_people, persons
from manilla.people.roles import ConsoleRole, Realm
from manilla.providers import balances
from manilla.providers.port import EVERY_MOVEMENT, StatementLine
from manilla.reconciliation import figures, lines, signing
from manilla.refunds import initiate, store
from manilla.services import Services
from tests.dashboard import sample_data
from tests.support.approving import approvals_of
from tests.support.client import Merchant

STATEMENT_DAY = date(2026, 1, 31)
SOMEBODY = Actor(ActorKind.COMMAND, None, "somebody at the keyboard")


async def create_sample_data(services: Services, merchant: Merchant, text: str) -> dict[str, str]:
    """Creates sample data. Every value that a user can enter is set to `text`."""
    return {
        "merchant": str(merchant.new.id),
        "mail": str(await _mail(services, merchant, text)),
        "environment": "sandbox",
        "list": "payments",
        "currency": "NGN",
        "provider": "providerb",
        "code": "providera_ngn_transfer",
        "plan": "standard",
        "setting": "payout_days",
        "day": await _statement(services, text),
        "approval": str(await request_adjustment(services, merchant, text)),
        **await _person(services, text),
        **await _queues(services, merchant, text),
    }


async def _mail(services: Services, merchant: Merchant, text: str) -> int:
    async with services.db.transaction() as connection:
        [mail_id] = await outbox.put(
            connection,
            MailKind.INVITATION,
            {"place": text, "role": text},
            path="/",
            merchant_id=merchant.new.id,
            address=f"{secrets.token_hex(4)}@example.com",
        )
    return mail_id


async def _queues(services: Services, merchant: Merchant, text: str) -> dict[str, str]:
    """Creates one item in each of the administrators' queues."""
    db, merchant_id = services.db, merchant.new.id
    theirs = await sample_data.create_sample_data(services, merchant, text)
    payout = await db.value("SELECT trx_id FROM payout WHERE merchant_id = $1", merchant_id)
    refund = await initiate.start(db, theirs["trx_id"], "1", text)
    await store.leave_to_administrator(db, refund.merchant_id, refund.trx_id, text)
    await cases.open_case(
        db,
        CaseKind.CONTRADICTION,
        payout,
        text,
        merchant_id=merchant_id,
        environment=Environment.SANDBOX,
        trx_id=payout,
        amount=refund.amount,
    )
    case = await db.value("SELECT id FROM operator_case WHERE merchant_id = $1", merchant_id)
    await create_failed_job(services, merchant_id, text)
    request_id = await _request(services, merchant_id, text)
    return {
        **theirs,
        "payout": payout,
        "refund": refund.trx_id,
        "case": str(case),
        "request_id": request_id,
    }


async def _statement(services: Services, text: str) -> str:
    """Stores a day's statement whose lines match no ledger movements.

    The day is signed off before the last change to the statement.
    """
    db, account = services.db, ("providerb", "NGN")
    await _import_line(services, text)
    with acting(msgspec.structs.replace(SOMEBODY, name=text)):
        await signing.sign(db, *account, STATEMENT_DAY, note=text[:200])
    await _import_line(services, text)
    taken_at = start_of_day(STATEMENT_DAY) + timedelta(hours=25)
    await balances.save(db, "providerb", Money("NGN", 700), Money("NGN", 600), taken_at)
    return STATEMENT_DAY.isoformat()


async def _import_line(services: Services, text: str) -> None:
    line = StatementLine(
        line_id=secrets.token_hex(8),
        booked_at=start_of_day(STATEMENT_DAY),
        amount=Money("NGN", -500),
        description=text[:200],
    )
    async with services.db.transaction() as connection:
        await lines.store(connection, "providerb", [line])
        await lines.store_days(connection, "providerb", "NGN", [STATEMENT_DAY], EVERY_MOVEMENT)
        await figures.store(connection, "providerb")


async def _request(services: Services, merchant_id: int, text: str) -> str:
    request_id = ids.new_request_id()
    line = RequestLogLine(
        merchant_id=merchant_id,
        at=datetime.now(UTC),
        request_id=request_id,
        environment="sandbox",
        method="POST",
        path=text,
        status=400,
        error_code="VALIDATION_FAILED",
        error=text,
        errors=None,
        milliseconds=1,
        address="192.0.2.1",
        user_agent=text,
        ref_trx=text,
        trx_id=None,
    )
    await request_log.insert_lines(services.db, [line])
    return request_id


async def create_failed_job(services: Services, merchant_id: int, text: str) -> None:
    """Creates a failed job with a job kind that no worker runs."""
    await services.db.execute(
        """
        INSERT INTO job (merchant_id, kind, subject, due_at, attempts, failures, parked_at,
                         last_error)
        VALUES ($1, 'of-a-test', $2, now(), 14, 12, now(), $2)""",
        *(merchant_id, text),
    )


async def request_adjustment(services: Services, merchant: Merchant, reason: str) -> int:
    """Requests a wallet adjustment that needs approval, and returns the approval's id."""
    change = WalletAdjustment(
        merchant.new.id, Environment.SANDBOX, Money.of("25", "NGN"), reason[:200]
    )
    with acting(SOMEBODY):
        return await approvals.request(approvals_of(services), change, reason[:200])


async def _person(services: Services, text: str) -> dict[str, str]:
    """Adds an invited user who has not signed in yet."""
    email = "invited@console.example"
    try:
        person = await persons.find(services.db, Realm.CONSOLE, email)
        token = await console_people.invite_again(services.db, services.keyring, person.id)
    except persons.PersonNotFound:
        new = await console_people.create(
            services.db, services.keyring, email=email, name=text[:100], role=ConsoleRole.SUPPORT
        )
        assert new.token is not None
        person, token = new.person, new.token
    return {"person": str(person.id), "token": token, "session": "1", "company": "none"}
