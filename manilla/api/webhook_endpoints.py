"""API endpoints that manage a merchant's webhook endpoints."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import NO_URL, CallbackAddress
from manilla.api.lists import Cursors, ListQuery
from manilla.api.refusals import ValidationFailed
from manilla.api.request import remember
from manilla.audit.actor import API, acting
from manilla.kit import strict_json
from manilla.kit.changes import known_everywhere
from manilla.kit.clock import iso
from manilla.kit.listing import Moment
from manilla.kit.texts import Line
from manilla.ledger.idempotency import Replayed
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import KeyUsedBefore
from manilla.merchants.rights import Right
from manilla.notify.endpoints import changes, deliveries, signing_keys, store
from manilla.notify.endpoints.deliveries import EndpointTest
from manilla.notify.endpoints.endpoint import (
    DESCRIPTION_LENGTH_MAX,
    OVERLAP_MINUTES,
    OVERLAP_MINUTES_MAX,
    URL_LENGTH_MAX,
    EndpointDisabled,
    EndpointNotFound,
    EndpointStatus,
    EndpointTerms,
    TooManyEndpoints,
    WebhookEndpoint,
)
from manilla.notify.endpoints.signing_keys import NewSecret
from manilla.notify.events.kinds import PATTERNS
from manilla.services import Services

NOT_VALID = "This Idempotency-Key was used before. Its secret is no longer valid."
ENDPOINTS, ENDPOINT = "/api/v1/webhook-endpoints", "/api/v1/webhook-endpoints/{endpointId}"

EndpointUrl = Annotated[CallbackAddress, Meta(max_length=URL_LENGTH_MAX)]
EventPatterns = Annotated[list[str], Meta(max_length=100)]
EndpointDescription = Annotated[Line, Meta(max_length=DESCRIPTION_LENGTH_MAX)]


class _ChecksEvents(Struct, frozen=True, kw_only=True):
    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        events = values.get("events")
        if events is None:
            return {}
        problem = events_problem(events)
        return {"events": problem} if problem else {}


def events_problem(events: Collection[str]) -> str | None:
    """Returns the error message for event type patterns, or None if they are valid."""
    if not events:
        return "Choose at least one event type, or `*` for all."
    unknown = [each for each in events if each not in PATTERNS]
    return f"There is no event type {unknown[0][:60]!r}." if unknown else None


class WebhookEndpointRequest(_ChecksEvents, frozen=True, kw_only=True):
    url: EndpointUrl
    events: EventPatterns
    description: EndpointDescription | None = None


class WebhookEndpointChangeRequest(_ChecksEvents, frozen=True, kw_only=True):
    url: EndpointUrl | None = None
    events: EventPatterns | None = None
    description: EndpointDescription | None = None
    status: Literal["enabled", "disabled"] | None = None


class RotateSecretRequest(Struct, frozen=True, kw_only=True):
    overlap_minutes: Annotated[int, Meta(ge=0, le=OVERLAP_MINUTES_MAX)] = OVERLAP_MINUTES


class ResendEventsRequest(Struct, frozen=True, kw_only=True):
    since: Moment
    include_delivered: bool = False


class EndpointSecret(Struct, frozen=True):
    id: str
    secret: str


class StoredSecret(Struct, frozen=True):
    """What is stored about a response that contains a secret."""

    id: str
    number: int

    @classmethod
    def of(cls, secret: NewSecret) -> "StoredSecret":
        return cls(secret.endpoint_id, secret.number)


class StoredTest(Struct, frozen=True):
    id: str


class WebhookEndpointItem(Struct, frozen=True):
    id: str
    url: str
    events: list[str]
    description: str | None
    status: str
    disabled_reason: str | None
    failing_since: str | None
    created_at: str


class WebhookEndpointList(Struct, frozen=True):
    data: list[WebhookEndpointItem]
    next_cursor: str | None


class DeletedEndpoint(Struct, frozen=True):
    id: str
    deleted: bool = True


class EndpointTestResult(Struct, frozen=True):
    id: str
    status: str
    http_status: int | None
    milliseconds: int | None
    error: str | None


class AcceptedResend(Struct, frozen=True):
    id: str
    since: str
    status: str = "accepted"


class WebhookEndpointCalls:
    """Handles the API requests that manage webhook endpoints."""

    def __init__(self, services: Services) -> None:
        self._db, self._keyring = services.db, services.keyring
        self._cursors = Cursors(services.keyring, ENDPOINTS)

    async def create_endpoint(self, call: Call) -> Any:
        terms = EndpointTerms(
            url=call.body.url, events=call.body.events, description=call.body.description
        )
        own = remember(call, StoredSecret.of)
        with acting(API):
            new = await changes.create(
                self._db, self._keyring, call.tenant, terms, own, api_key=call.api_key
            )
        return EndpointSecret(new.endpoint.id, new.secret)

    async def replay_secret(
        self, tenant: Tenant, _parameter: str, first: Replayed, api_key: int | None
    ) -> Any:
        stored = msgspec.json.decode(first.body, type=StoredSecret)
        await self._check_owner(tenant, stored.id, api_key)
        found = await signing_keys.find(
            *(self._db, self._keyring, tenant.merchant_id, stored.id, stored.number)
        )
        if found is None:
            raise KeyUsedBefore(NOT_VALID)
        await known_everywhere()  # as for the first response
        return EndpointSecret(stored.id, found.text)

    async def list_endpoints(self, call: Call) -> Any:
        after, limit = self._cursors.read(call), call.query.limit
        found = await store.page(self._db, call.tenant, after, limit, self._owner(call))
        return WebhookEndpointList(
            [_item(each) for each in found.rows], self._cursors.write(call, found.next)
        )

    async def get_endpoint(self, call: Call) -> Any:
        return _item(await self._find(call.tenant, call.parameter, self._owner(call)))

    async def change_endpoint(self, call: Call) -> Any:
        body: WebhookEndpointChangeRequest = call.body
        sent = strict_json.decode(call.raw_body) if call.raw_body else {}
        # Reject an empty URL: if it were ignored, the caller could think that the URL was changed.
        if sent.get("url") == "":
            raise ValidationFailed(errors={"url": NO_URL})
        status = EndpointStatus(body.status) if body.status else None
        # Unlike in other fields, null removes the description.
        is_removed = "description" in sent and body.description is None
        description = "" if is_removed else body.description
        terms = EndpointTerms(
            url=body.url, events=body.events, description=description, status=status
        )
        await self._check_owner(call.tenant, call.parameter, call.api_key)
        with acting(API):
            changed = await changes.update(
                self._db, call.tenant, call.parameter, terms, call.api_key
            )
        return _item(changed)

    async def delete_endpoint(self, call: Call) -> Any:
        await self._check_owner(call.tenant, call.parameter, call.api_key)
        with acting(API):
            await changes.delete(self._db, call.tenant, call.parameter)
        return DeletedEndpoint(call.parameter)

    async def test_endpoint(self, call: Call) -> Any:
        endpoint = await self._find(call.tenant, call.parameter, call.api_key)
        event_id = await deliveries.send_test(self._db, endpoint, remember(call, StoredTest))
        return _tested(await deliveries.outcome(self._db, endpoint, event_id))

    async def replay_test(
        self, tenant: Tenant, parameter: str, first: Replayed, api_key: int | None
    ) -> Any:
        endpoint = await self._find(tenant, parameter, api_key)
        event_id = msgspec.json.decode(first.body, type=StoredTest).id
        return _tested(await deliveries.outcome(self._db, endpoint, event_id))

    async def rotate_secret(self, call: Call) -> Any:
        key, minutes = (call.tenant, call.parameter), call.body.overlap_minutes
        own = remember(call, StoredSecret.of)
        await self._check_owner(call.tenant, call.parameter, call.api_key)
        with acting(API):
            secret = await changes.rotate(self._db, self._keyring, *key, minutes, own)
        return EndpointSecret(call.parameter, secret)

    async def resend_events(self, call: Call) -> Any:
        endpoint = await self._find(call.tenant, call.parameter, call.api_key)
        since, with_delivered = call.body.since, call.body.include_delivered
        answer = AcceptedResend(endpoint.id, iso(since))
        own = remember(call, lambda _endpoint: answer)
        with acting(API):
            await deliveries.resend_since(
                self._db, endpoint, since, with_delivered=with_delivered, remember=own
            )
        return answer

    @staticmethod
    def _owner(call: Call) -> int | None:
        """Returns the API key if it reads only its own endpoints, and None if it reads all."""
        key = next((key for key in call.caller.keys if key.number == call.api_key), None)
        return key.number if key is not None and Right.WEBHOOKS in key.rights else None

    async def _check_owner(self, tenant: Tenant, endpoint_id: str, api_key: int | None) -> None:
        """Rejects an additional API key to which the endpoint does not belong."""
        if api_key is not None:
            await self._find(tenant, endpoint_id, api_key)

    async def _find(self, tenant: Tenant, endpoint_id: str, api_key: int | None) -> WebhookEndpoint:
        """Returns an endpoint of this API key, or for the main key (None) any endpoint."""
        found = await store.find(self._db, tenant, endpoint_id)
        if api_key not in (None, found.api_key):
            raise EndpointNotFound
        return found


def endpoints(services: Services) -> list[Endpoint]:
    calls = WebhookEndpointCalls(services)
    return [*_managing(calls), *_sending(calls)]


def _managing(calls: WebhookEndpointCalls) -> list[Endpoint]:
    return [
        Endpoint(
            method="POST",
            path=ENDPOINTS,
            operation_id="createWebhookEndpoint",
            summary="Create a webhook endpoint",
            description="Creates a webhook endpoint: a URL that receives your transactions' events "
            "as Standard Webhooks. The secret is shown only once.",
            right=Right.WEBHOOKS,
            answers=(EndpointSecret,),
            use_case=calls.create_endpoint,
            body=WebhookEndpointRequest,
            refusals=(TooManyEndpoints, KeyUsedBefore),
            is_repeatable=True,
            replay=calls.replay_secret,
        ),
        Endpoint(
            method="GET",
            path=ENDPOINTS,
            operation_id="listWebhookEndpoints",
            summary="List webhook endpoints",
            description="Lists your webhook endpoints in this environment, newest first.",
            right=Right.READ,
            answers=(WebhookEndpointList,),
            use_case=calls.list_endpoints,
            query=ListQuery,
        ),
        Endpoint(
            method="GET",
            path=ENDPOINT,
            operation_id="getWebhookEndpoint",
            summary="Get a webhook endpoint",
            description="Returns one webhook endpoint, without its secret.",
            right=Right.READ,
            answers=(WebhookEndpointItem,),
            use_case=calls.get_endpoint,
            refusals=(EndpointNotFound,),
        ),
        Endpoint(
            method="PATCH",
            path=ENDPOINT,
            operation_id="changeWebhookEndpoint",
            summary="Change a webhook endpoint",
            description="Changes the fields that you send. Set `status` to `enabled` to enable a "
            "disabled endpoint, and `description` to null to remove the description.",
            right=Right.WEBHOOKS,
            answers=(WebhookEndpointItem,),
            use_case=calls.change_endpoint,
            body=WebhookEndpointChangeRequest,
            refusals=(EndpointNotFound,),
        ),
        Endpoint(
            method="DELETE",
            path=ENDPOINT,
            operation_id="deleteWebhookEndpoint",
            summary="Delete a webhook endpoint",
            description="Stops deliveries to the endpoint and deletes its secret.",
            right=Right.WEBHOOKS,
            answers=(DeletedEndpoint,),
            use_case=calls.delete_endpoint,
            refusals=(EndpointNotFound,),
        ),
    ]


def _sending(calls: WebhookEndpointCalls) -> list[Endpoint]:
    """Returns the API endpoints that send a test, rotate the secret and resend events."""
    return [
        Endpoint(
            method="POST",
            path=ENDPOINT + "/test",
            operation_id="testWebhookEndpoint",
            summary="Test a webhook endpoint",
            description="Sends an event of type `endpoint.test` once, and returns your server's "
            "response. Also works for a disabled endpoint.",
            right=Right.WEBHOOKS,
            answers=(EndpointTestResult,),
            use_case=calls.test_endpoint,
            refusals=(EndpointNotFound, KeyUsedBefore),
            is_repeatable=True,
            replay=calls.replay_test,
        ),
        Endpoint(
            method="POST",
            path=ENDPOINT + "/rotate-secret",
            operation_id="rotateWebhookSecret",
            summary="Rotate a webhook endpoint's secret",
            description="Creates a new secret. Until the overlap ends, messages are also "
            "signed with the old secret.",
            right=Right.WEBHOOKS,
            answers=(EndpointSecret,),
            use_case=calls.rotate_secret,
            body=RotateSecretRequest,
            refusals=(EndpointNotFound, KeyUsedBefore),
            is_repeatable=True,
            replay=calls.replay_secret,
        ),
        Endpoint(
            method="POST",
            path=ENDPOINT + "/resend",
            operation_id="resendWebhookEvents",
            summary="Resend events",
            description="Resends, in the background, the matching events since a given time that "
            "the endpoint has not received.",
            right=Right.WEBHOOKS,
            answers=(AcceptedResend,),
            use_case=calls.resend_events,
            body=ResendEventsRequest,
            refusals=(EndpointNotFound, EndpointDisabled, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _item(endpoint: WebhookEndpoint) -> WebhookEndpointItem:
    return WebhookEndpointItem(
        id=endpoint.id,
        url=endpoint.url,
        events=endpoint.events,
        description=endpoint.description,
        status=endpoint.status,
        disabled_reason=endpoint.disabled_reason,
        failing_since=None if endpoint.failing_since is None else iso(endpoint.failing_since),
        created_at=iso(endpoint.created_at),
    )


def _tested(test: EndpointTest) -> EndpointTestResult:
    attempt = test.attempt
    return EndpointTestResult(
        id=test.id,
        status="pending" if test.state == "waiting" else test.state,
        http_status=attempt.status if attempt else None,
        milliseconds=attempt.milliseconds if attempt else None,
        error=attempt.error if attempt else None,
    )
