"""An SMTP server receives each email exactly once, even if the server returns errors."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from manilla.kit.jobs import claims
from manilla.mail import listing, outbox
from manilla.mail.delivery import NO_TRANSPORT, RETRY_MINUTES, MailDelivery
from manilla.mail.kinds import MailKind
from manilla.mail.listing import MailFilter, MailNotFailed, MailState
from manilla.mail.server import SmtpServer
from manilla.mail.smtp import SmtpTransport
from manilla.people import resets
from manilla.services import Services
from tests.mail.mail_server import (
    PASSWORD,
    USER,
    MailServer,
    mail_server,
    plain_transport,
)
from tests.mail.outbox_reader import mails_to
from tests.mail.post_office import (
    make_due,
    put_failed_payout,
    states,
    until,
    until_states,
    worker,
)
from tests.people.accounts import Accounts, Owner
from tests.support.certificates import Certificate
from tests.support.limits import limited


async def test_an_email_arrives_as_text_and_html_and_its_content_is_deleted(
    services: Services, server: MailServer, owner: Owner
) -> None:
    await put_failed_payout(services, owner.merchant_id)
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1))
    [message] = server.to(owner.email)
    assert message["Subject"] == "Payout of ₦1,000.00 failed"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    text, html = (message.get_body((kind,)).get_content() for kind in ("plain", "html"))  # type: ignore[union-attr]
    for part in (text, html):
        assert "order-1" in part
        assert f"{services.base_url}/dashboard/production/payouts/TXN1" in part
    [mail] = await mails_to(services.db, owner.email)
    assert (mail.facts, mail.path, mail.sealed) == ("{}", "", None)


@pytest.mark.parametrize("scheme", ["smtp+starttls", "smtps"])
async def test_credentials_are_sent_only_over_verified_tls(
    services: Services, owner: Owner, tmp_path: Path, scheme: str
) -> None:
    certificate = Certificate(tmp_path)
    tls = {"starttls" if scheme == "smtp+starttls" else "tls": certificate.of_server()}
    async with mail_server(**tls) as server:
        where = SmtpServer(scheme, "localhost", server.port, USER, PASSWORD)
        await put_failed_payout(services, owner.merchant_id)
        async with worker(services, SmtpTransport(where)):
            await until_states(services, owner.merchant_id, ("waiting", 1))
        assert "certificate" in str((await states(services, owner.merchant_id))[0][2]).lower()
        async with worker(services, SmtpTransport(where, tls=certificate.of_client())):
            await make_due(services, owner.merchant_id)
            await until_states(services, owner.merchant_id, ("sent", 2))
        assert len(server.to(owner.email)) == 1


async def test_a_wrong_password_of_the_mail_server_is_retried(
    services: Services, owner: Owner, tmp_path: Path
) -> None:
    certificate = Certificate(tmp_path)
    async with mail_server(starttls=certificate.of_server()) as server:
        where = SmtpServer("smtp+starttls", "localhost", server.port, USER, "wrong")
        await put_failed_payout(services, owner.merchant_id)
        async with worker(services, SmtpTransport(where, tls=certificate.of_client())):
            await until_states(services, owner.merchant_id, ("waiting", 1))
    assert "wrong" not in str(await states(services, owner.merchant_id))
    assert "535" in str(await states(services, owner.merchant_id))


async def test_a_greylisted_email_is_retried_with_growing_intervals(
    services: Services, server: MailServer, owner: Owner
) -> None:
    server.recipient_answers = ["450 4.2.0 Greylisted", "450 4.2.0 Greylisted"]
    await put_failed_payout(services, owner.merchant_id)
    waits = []
    async with worker(services, plain_transport(server.port)):
        for attempt in (1, 2):
            await until_states(services, owner.merchant_id, ("waiting", attempt))

            await until(lambda: _is_put_off(services, owner.merchant_id))
            waits.append(await _minutes_to_next(services, owner.merchant_id))
            await make_due(services, owner.merchant_id)
        await until_states(services, owner.merchant_id, ("sent", 3))
    assert [round(wait) for wait in waits] == list(RETRY_MINUTES[:2])
    assert len(server.to(owner.email)) == 1


async def _is_put_off(services: Services, merchant_id: int) -> bool:
    return await _minutes_to_next(services, merchant_id) > 0


async def _minutes_to_next(services: Services, merchant_id: int) -> float:
    seconds = await services.db.value(
        """
        SELECT extract(epoch FROM due_at - now())::float8 FROM job
         WHERE merchant_id = $1 AND kind = 'mail'""",
        merchant_id,
    )
    return float(seconds or 0) / 60


async def test_a_rejected_email_is_failed_and_listed_and_can_be_retried(
    services: Services, server: MailServer, owner: Owner
) -> None:
    server.recipient_answers = ["550 5.1.1 No such mailbox"]
    await put_failed_payout(services, owner.merchant_id)
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("failed", 1))
        failed = MailFilter(state=MailState.FAILED, search=owner.email)
        [mail] = (await listing.mails(services.db, failed)).rows
        assert mail.last_error == "the mail server rejected the email: 550 5.1.1 No such mailbox"
        await listing.retry(services.db, mail.id)
        await until_states(services, owner.merchant_id, ("sent", 1))
        with pytest.raises(MailNotFailed):
            await listing.retry(services.db, mail.id)
    assert len(server.to(owner.email)) == 1


async def test_a_mail_server_that_hangs_or_is_away_delays_the_email(
    services: Services, server: MailServer, owner: Owner
) -> None:
    server.hangs.set()
    await put_failed_payout(services, owner.merchant_id)
    with limited(smtp_seconds=0.5):
        async with worker(services, plain_transport(server.port)):
            await until_states(services, owner.merchant_id, ("waiting", 1))
    assert "in time" in str(await states(services, owner.merchant_id))
    async with worker(services, plain_transport(1)):  # nothing listens on this port
        await make_due(services, owner.merchant_id)
        await until_states(services, owner.merchant_id, ("waiting", 2))
    server.hangs.clear()
    async with worker(services, plain_transport(server.port)):
        await make_due(services, owner.merchant_id)
        await until_states(services, owner.merchant_id, ("sent", 3))
    assert len(server.to(owner.email)) == 1


async def test_an_email_that_has_become_too_old_is_not_sent(
    services: Services, server: MailServer, accounts: Accounts, owner: Owner
) -> None:
    await resets.begin(services.db, accounts.keyring, owner.visitor.person_id)
    [mail] = await mails_to(services.db, owner.email)
    await services.db.execute(
        "UPDATE mail SET created_at = created_at - $2::interval WHERE id = $1",
        *(mail.id, timedelta(hours=2)),
    )

    async def has_failed() -> bool:
        return (await listing.get(services.db, mail.id)).state == MailState.FAILED

    async with worker(services, plain_transport(server.port)):
        await until(has_failed)
    assert not server.to(owner.email)
    with pytest.raises(MailNotFailed):
        await listing.retry(services.db, mail.id)


async def test_a_message_that_is_sent_again_after_a_crash_has_the_same_message_id(
    services: Services, server: MailServer, owner: Owner
) -> None:
    """Another email arrives between the two attempts, and must not change the repeated message."""

    class CrashingTransport:
        name = "crashing"

        async def send(self, mail: object) -> None:
            await plain_transport(server.port).send(mail)  # type: ignore[arg-type]
            sent.set()
            await asyncio.sleep(3600)

    sent = asyncio.Event()
    await put_failed_payout(services, owner.merchant_id)
    crashing = MailDelivery(
        services.db, services.letters, CrashingTransport(), is_development=False
    )
    [job] = [
        job
        for job in await claims.claim(services.db, {"mail": 10_000})
        if job.merchant_id == owner.merchant_id
    ]
    task = asyncio.create_task(crashing.deliver(job))
    await sent.wait()
    task.cancel()
    await put_failed_payout(services, owner.merchant_id, "order-2")
    await services.db.execute(
        "UPDATE job SET lease = NULL, leased_until = NULL WHERE kind = 'mail'"
    )
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1), ("waiting", 0))
    first, again = server.to(owner.email)
    assert first["Message-ID"] == again["Message-ID"]
    assert first.as_bytes().partition(b"\n\n")[0].count(b"Message-ID") == 1
    assert "order-2" not in again.get_body(("plain",)).get_content()  # type: ignore[union-attr]


async def test_a_burst_is_one_email_with_a_count(
    services: Services, server: MailServer, owner: Owner
) -> None:
    await put_failed_payout(services, owner.merchant_id)
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1))
        for number in range(25):
            await put_failed_payout(services, owner.merchant_id, f"burst-{number}")
        await make_due(services, owner.merchant_id)
        await asyncio.sleep(0.5)
        assert len(server.to(owner.email)) == 1  # the other emails wait
        await services.db.execute(
            "UPDATE mail SET ended_at = ended_at - interval '1 hour' WHERE merchant_id = $1",
            owner.merchant_id,
        )
        await make_due(services, owner.merchant_id)
        await until_states(services, owner.merchant_id, *[("sent", 1)] * 26)
    _, gathered = server.to(owner.email)
    assert gathered["Subject"] == "25 payouts failed or were returned"
    text = gathered.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert ("burst-19" in text, "burst-20" in text, "And 5 more." in text) == (True, False, True)


async def test_without_a_way_to_send_emails_are_skipped(services: Services, owner: Owner) -> None:
    await put_failed_payout(services, owner.merchant_id)
    async with worker(services, None):
        await until_states(services, owner.merchant_id, ("skipped", 1))
    assert (await states(services, owner.merchant_id))[0][2] == NO_TRANSPORT


async def test_a_line_end_in_a_fact_cannot_add_a_header(
    services: Services, server: MailServer, owner: Owner
) -> None:
    async with services.db.transaction() as connection:
        await outbox.put(
            connection,
            MailKind.MERCHANT_APPROVED,
            {"merchant": "Ada\r\nBcc: victim@example.com\r\n\r\nHello"},
            path="/dashboard",
            merchant_id=owner.merchant_id,
        )
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1))
    [message] = server.to(owner.email)
    assert message["Bcc"] is None
    assert message["Subject"] == "Ada Bcc: victim@example.com Hello is approved"
    assert not server.to("victim@example.com")


@pytest.mark.parametrize("address", ["adé@example.com", "ada@büro.example", "ada+1@example.com"])
async def test_international_addresses_and_names_work(
    services: Services, server: MailServer, owner: Owner, address: str
) -> None:
    async with services.db.transaction() as connection:
        await outbox.put(
            connection,
            MailKind.INVITATION,
            {"place": "Ọjà Àdé 商店", "role": "owner"},
            path="/dashboard",
            merchant_id=owner.merchant_id,
            address=address,
        )
    async with worker(services, plain_transport(server.port)):
        await until_states(services, owner.merchant_id, ("sent", 1))
    [(recipient, message)] = server.messages
    assert message["Subject"] == "Invitation to Ọjà Àdé 商店"
    assert recipient == address.replace("büro", "xn--bro-hoa")
