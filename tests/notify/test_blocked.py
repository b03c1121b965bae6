"""A merchant is warned when notifications cannot be delivered because their host is private."""

import pytest

from manilla.kit import outbound
from manilla.notify import courier
from manilla.notify.courier import Courier
from tests.notify.mailroom import Mailroom
from tests.notify.receiver import answer
from tests.web.visitors import Visitor, member

HOME, PAGE = "/sandbox", "/sandbox/notifications"


@pytest.fixture
async def visitor(mailroom: Mailroom) -> Visitor:
    return await member(mailroom.services, mailroom.merchant.site, mailroom.merchant.new.id)


async def _pages(visitor: Visitor) -> list[bool]:
    """Whether the warning is on the first page, and on the notifications' own."""
    replies = [await visitor.get(path) for path in (HOME, PAGE)]
    assert [reply.status for reply in replies] == [200, 200]
    return [b"Notifications are not sent to" in reply.body for reply in replies]


async def test_the_dashboard_warns_at_the_first_blocked_delivery_until_one_gets_through(
    mailroom: Mailroom, visitor: Visitor
) -> None:
    url = f"http://localhost:{mailroom.receiver.port}/ipn"
    await mailroom.happen(ipn_url=url)
    assert await _pages(visitor) == [False, False]
    allowing = mailroom.courier
    async with outbound.open_session(
        is_public_only=True, connections=1, seconds=courier.ATTEMPT_SECONDS
    ) as session:
        mailroom.courier = Courier(mailroom.services.db, mailroom.services.directory, session)
        await mailroom.deliver()
    assert await _pages(visitor) == [True, True]
    mailroom.courier = allowing
    await mailroom.happen(ipn_url=url)
    await mailroom.deliver()
    assert await _pages(visitor) == [False, False]


async def test_other_failures_bring_no_such_warning(mailroom: Mailroom, visitor: Visitor) -> None:
    mailroom.receiver.answers.append(answer(500))
    await mailroom.happen()
    await mailroom.deliver()
    assert await _pages(visitor) == [False, False]
