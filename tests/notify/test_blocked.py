"""The dashboard warns a merchant if notifications are blocked because the URL's host is private."""

import pytest

from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.ipn import IpnDestination
from tests.notify.deliveries import Deliveries
from tests.notify.receiver import answer
from tests.web.signed_in_user import SignedInUser, member

HOME, PAGE = "/sandbox", "/sandbox/notifications"


@pytest.fixture
async def visitor(deliveries: Deliveries) -> SignedInUser:
    return await member(deliveries.services, deliveries.merchant.site, deliveries.merchant.new.id)


async def _pages(visitor: SignedInUser) -> list[bool]:
    """Returns whether the home page and the notifications page show the warning."""
    replies = [await visitor.get(path) for path in (HOME, PAGE)]
    assert [reply.status for reply in replies] == [200, 200]
    return [b"Notifications are not sent to" in reply.body for reply in replies]


async def test_the_dashboard_warns_of_blocked_deliveries_until_one_succeeds(
    deliveries: Deliveries, visitor: SignedInUser
) -> None:
    url = f"http://localhost:{deliveries.receiver.port}/ipn"
    await deliveries.finish_payment(ipn_url=url)
    assert await _pages(visitor) == [False, False]
    allowing = deliveries.delivery
    async with delivery.open_client(is_public_only=True, connections=1) as client:
        deliveries.delivery = NotificationDelivery(
            IpnDestination(deliveries.services.db, deliveries.services.directory), client
        )
        await deliveries.deliver()
    assert await _pages(visitor) == [True, True]
    deliveries.delivery = allowing
    await deliveries.finish_payment(ipn_url=url)
    await deliveries.deliver()
    assert await _pages(visitor) == [False, False]


async def test_other_delivery_failures_show_no_blocked_warning(
    deliveries: Deliveries, visitor: SignedInUser
) -> None:
    deliveries.receiver.answers.append(answer(500))
    await deliveries.finish_payment()
    await deliveries.deliver()
    assert await _pages(visitor) == [False, False]
