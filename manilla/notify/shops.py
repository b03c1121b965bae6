"""Connects a shop: creates an API key and a webhook endpoint that belongs to it, as one text."""

import base64

import msgspec

from manilla.kit.changes import known_everywhere
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.ledger.scope import Tenant
from manilla.merchants import api_keys, merchants
from manilla.merchants.api_keys import ApiKeyTerms
from manilla.merchants.rights import Right
from manilla.notify.endpoints import changes
from manilla.notify.endpoints.endpoint import EndpointTerms

# A shop cannot send payouts, and changes only its own webhook endpoints.
RIGHTS = (Right.PAYMENTS, Right.REFUNDS, Right.READ, Right.WEBHOOKS)
EVENTS = ("payment.*", "refund.*", "dispute.*")
PREFIX = "manilla_shop_1_"  # the number is the version of the format


class ShopConnection(msgspec.Struct, frozen=True):
    """Everything that a shop needs to take payments."""

    url: str
    environment: str
    merchant_key: str
    api_key: str
    api_secret: str
    webhook_endpoint: str
    webhook_secret: str

    @property
    def text(self) -> str:
        """The text that the merchant pastes into the shop: the prefix, and base64url of JSON."""
        return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


async def connect(
    db: Database, keyring: Keyring, tenant: Tenant, base_url: str, name: str, webhook_url: str
) -> ShopConnection:
    key_terms = ApiKeyTerms(name=name, rights=RIGHTS)
    endpoint_terms = EndpointTerms(url=webhook_url, events=list(EVENTS), description=name)
    async with db.transaction() as connection:
        await merchants.touch(connection, tenant.merchant_id)
        number, keys = await api_keys.add(connection, keyring, tenant, key_terms)
        endpoint, secret = await changes.add(connection, keyring, tenant, endpoint_terms, number)
    await known_everywhere()  # as in `changes.create`
    return ShopConnection(
        url=base_url,
        environment=tenant.environment,
        merchant_key=keys.merchant_key,
        api_key=keys.api_key,
        api_secret=keys.api_secret,
        webhook_endpoint=endpoint.id,
        webhook_secret=secret.text,
    )
