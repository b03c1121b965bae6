"""A webhook endpoint, its limits, and the errors that changes to an endpoint can raise."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds
from manilla.kit.listing import Number

ENDPOINT_IDS = TimedIds("we_", 1_000, 10)
ENDPOINTS_MAX = 20  # maximum number of endpoints per merchant and environment
URL_LENGTH_MAX, DESCRIPTION_LENGTH_MAX = 2000, 200
OVERLAP_MINUTES, OVERLAP_MINUTES_MAX = 24 * 60, 7 * 24 * 60
FAILING_MAX = timedelta(days=3)
# The seconds between attempts. In total, they are slightly more than three days.
RETRY_SECONDS = (5.0, 300.0, *(hours * 3600.0 for hours in (0.5, 2, 5, 10, 14, 20, 24)))


class EndpointStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class WebhookEndpoint(msgspec.Struct, frozen=True):
    merchant_id: Number
    id: str
    environment: Environment
    url: str
    events: list[str]
    description: str | None
    created_at: datetime
    failing_since: datetime | None  # time of the first failed attempt since the last success
    disabled_at: datetime | None
    disabled_reason: str | None
    # The number of the additional API key that manages the endpoint, besides the merchant.
    api_key: int | None = None

    @property
    def status(self) -> EndpointStatus:
        return EndpointStatus.ENABLED if self.disabled_at is None else EndpointStatus.DISABLED


class EndpointTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint settings that a merchant changes. Fields that are None stay the same.

    An empty text removes the description.
    """

    url: str | None = None
    events: list[str] | None = None
    description: str | None = None
    status: EndpointStatus | None = None


class EndpointNotFound(Refusal):
    status, code = 404, "WEBHOOK_ENDPOINT_NOT_FOUND"
    message = "There is no such webhook endpoint."


class TooManyEndpoints(Refusal):
    status, code = 422, "TOO_MANY_WEBHOOK_ENDPOINTS"
    message = f"You have {ENDPOINTS_MAX} webhook endpoints, which is the maximum. Delete one first."


class EndpointDisabled(Refusal):
    status, code = 422, "WEBHOOK_ENDPOINT_DISABLED"
    message = "The webhook endpoint is disabled. Enable it first."
