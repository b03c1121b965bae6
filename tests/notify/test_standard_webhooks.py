"""A stock library of Standard Webhooks verifies what we send, without knowing of us."""

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.notify.signing import standard_key
from tests.notify.mailroom import Mailroom


async def test_a_stock_verifier_accepts_ours_and_refuses_a_changed_one(mailroom: Mailroom) -> None:
    await mailroom.happen()
    await mailroom.deliver()
    [received] = mailroom.receiver.received
    verifier = Webhook(standard_key(mailroom.merchant.credentials.api_secret.encode()))
    verified = verifier.verify(received.body, received.headers)
    assert verified["event"] == "payment"
    with pytest.raises(WebhookVerificationError):
        verifier.verify(received.body + b" ", received.headers)


async def test_after_a_rotation_the_newer_secret_signs(mailroom: Mailroom) -> None:
    services = mailroom.services
    rotated = await merchants.rotate(
        services.db,
        services.keyring,
        mailroom.merchant.new.id,
        Environment.SANDBOX,
        overlap_minutes=60,
    )
    await mailroom.happen()
    await services.directory._refresh(0)
    await mailroom.deliver()
    [received] = mailroom.receiver.received
    Webhook(standard_key(rotated.api_secret.encode())).verify(received.body, received.headers)
