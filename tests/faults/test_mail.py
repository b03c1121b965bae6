"""A process dies while it sends an email. The email is sent again with the same message id."""

from collections.abc import AsyncIterator
from email.message import EmailMessage

import pytest

from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from tests.faults.live_instance import LiveInstance
from tests.mail.mail_server import MailServer, mail_server

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as running:
        yield running


@pytest.fixture(scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory, server: MailServer
) -> AsyncIterator[LiveInstance]:
    url = f"smtp://127.0.0.1:{server.port}"
    live = LiveInstance(tmp_path_factory.mktemp("mail"), smtp_url=url)
    running = await live.open()
    yield running
    await running.close()


async def _until_received(
    running: LiveInstance, server: MailServer, address: str, count: int
) -> None:
    async def has_arrived() -> bool:
        return len(server.to(address)) == count

    await running.until(has_arrived)


async def _until_sent(running: LiveInstance, address: str) -> None:
    async def is_sent() -> bool:
        states = await running.db.records("SELECT state FROM mail WHERE recipient = $1", address)
        return [each["state"] for each in states] == ["sent"]

    await running.until(is_sent)


def _texts(message: EmailMessage) -> list[str]:
    return [part.get_content() for part in message.iter_parts()]


async def test_a_crash_after_the_mail_server_accepted_repeats_the_same_message(
    running: LiveInstance, server: MailServer
) -> None:
    address = "ada@example.com"
    running.arm("after_mail_is_sent")
    async with running.db.transaction() as connection:
        await outbox.put(connection, MailKind.TEST, {}, path="/", address=address)

    async def has_crashed() -> bool:
        return running.has_crashed("after_mail_is_sent")

    await running.until(has_crashed)
    await running.end_leases()
    await _until_received(running, server, address, 2)
    first, second = server.to(address)
    assert first["Message-ID"] == second["Message-ID"]
    assert (first["Date"], _texts(first)) == (second["Date"], _texts(second))
    await _until_sent(running, address)
    assert len(server.to(address)) == 2
