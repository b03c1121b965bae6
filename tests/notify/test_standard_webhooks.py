"""An unmodified Standard Webhooks library verifies our notifications."""

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.notify.signing import standard_key
from tests.notify.deliveries import Deliveries


async def test_a_standard_webhooks_verifier_accepts_ours_and_rejects_tampering(
    deliveries: Deliveries,
) -> None:
    await deliveries.finish_payment()
    await deliveries.deliver()
    [received] = deliveries.receiver.received
    verifier = Webhook(standard_key(deliveries.merchant.credentials.api_secret.encode()))
    verified = verifier.verify(received.body, received.headers)
    assert verified["event"] == "payment"
    with pytest.raises(WebhookVerificationError):
        verifier.verify(received.body + b" ", received.headers)


async def test_notifications_are_signed_with_the_newer_secret_after_rotation(
    deliveries: Deliveries,
) -> None:
    services = deliveries.services
    rotated = await merchants.rotate(
        services.db,
        services.keyring,
        deliveries.merchant.new.id,
        Environment.SANDBOX,
        overlap_minutes=60,
    )
    await deliveries.finish_payment()
    await services.directory._refresh(0)
    await deliveries.deliver()
    [received] = deliveries.receiver.received
    Webhook(standard_key(rotated.api_secret.encode())).verify(received.body, received.headers)
