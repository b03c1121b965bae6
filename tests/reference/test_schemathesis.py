"""Schemathesis tests the API against its OpenAPI document.

`make test-all` makes about two hundred calls, which are always the same. `make fuzz` makes
thousands of calls.
"""

import asyncio
import itertools
import os
import re
import time
from collections import Counter
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from requests.auth import AuthBase
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.reference.examples import REQUESTS
from manilla.services import Services
from tests.payments.orders import new_reference, order
from tests.payments.steps import complete, setting, trx_id_of
from tests.support import limits
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import running_simulator
from tests.support.signing import sign

pytestmark = pytest.mark.long

# The number of generated cases per operation, in addition to the examples.
# With 100 or more cases, the field limits and sequences of calls are tested too.
CASES = int(os.environ.get("MANILLA_FUZZ_CASES", "12"))
SEED = int(os.environ.get("MANILLA_FUZZ_SEED", "20260102"))
LONG_FROM = 100
PAY, PAY_OUT, LEGACY = (
    "/api/v1/initiate-payment",
    "/api/v1/initiate-payout",
    "/api/initiate-payment",
)
REFUND = "/api/v1/initiate-refund"
EXAMPLE = re.compile(rb'("ref_trx": ?"(?:ORDER|PAYOUT|REFUND)-\d{4})"')


class Signer(AuthBase):
    """Signs the bytes of a request with the credentials for the request's environment."""

    def __init__(self, merchant: Merchant) -> None:
        self.merchant = merchant
        self.numbers = itertools.count(1)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        assert request.method is not None
        self._make_new(request)
        is_sandbox = request.headers.get("X-Environment") == "sandbox"
        environment = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
        merchant = msgspec.structs.replace(self.merchant, environment=environment)
        request.headers["X-Forwarded-For"] = merchant.site.address
        if request.path_url == LEGACY:
            request.headers["Authorization"] = f"Bearer {merchant.credentials.api_key}"
            return request
        raw = _raw(request)
        timestamp = str(int(time.time()))
        secret = merchant.credentials.api_secret
        request.headers.update(
            {
                "X-Merchant-Key": merchant.credentials.merchant_key,
                "X-API-Key": merchant.credentials.api_key,
                "X-Timestamp": timestamp,
                "X-Signature": sign(secret, timestamp, request.method, request.path_url, raw),
            }
        )
        return request

    def _make_new(self, request: requests.PreparedRequest) -> None:
        """Gives each repeated example a new reference and idempotency key."""
        number = next(self.numbers)
        key = request.headers.get("Idempotency-Key")
        if isinstance(key, str) and key:
            request.headers["Idempotency-Key"] = f"{key}{number}"
        raw = _raw(request)
        if raw:
            request.body = EXAMPLE.sub(rb'\1-%d"' % number, raw)
            request.prepare_content_length(request.body)


def _raw(request: requests.PreparedRequest) -> bytes:
    body = request.body or b""
    if isinstance(body, str):
        return body.encode()
    assert isinstance(body, bytes)
    return body


class Found(msgspec.Struct):
    statuses: Counter[tuple[str, int]] = msgspec.field(default_factory=Counter)
    problems: list[str] = msgspec.field(default_factory=list)

    def add(self, event: events.EngineEvent) -> None:
        if isinstance(event, events.FatalError):
            raise event.exception
        if isinstance(event, events.NonFatalError):
            self.problems.append(f"{event.label}: {event.value}")
        if isinstance(event, events.ScenarioFinished):
            self._add_calls(event.recorder)

    def _add_calls(self, recorder: Any) -> None:
        for case_id, interaction in recorder.interactions.items():
            label = recorder.cases[case_id].value.operation.label
            # If there is no response, the server has closed the connection.
            status = interaction.response.status_code if interaction.response else 0
            self.statuses[label, status] += 1
        for nodes in recorder.checks.values():
            self.problems += [
                f"{node.name}: {node.failure_info.failure.title}\n"
                f"{node.failure_info.failure.message}\n{node.failure_info.code_sample}"
                for node in nodes
                if node.status is Status.FAILURE
            ]


def _configuration(base_url: str) -> SchemathesisConfig:
    is_long = CASES >= LONG_FROM
    return SchemathesisConfig.from_dict(
        {
            "base-url": base_url,
            "seed": SEED,
            "suppress-health-check": ["all"],
            "continue-on-failure": True,
            # The timeout is longer than a test delivery to an endpoint that does not respond.
            "request-timeout": 3.0 * limits.LONG_SECONDS,
            "cache": {"enabled": False},
            "checks": {
                # Even valid requests can fail, for example because their reference was used before.
                "positive_data_acceptance": {"enabled": False},
            },
            "generation": {
                "mode": "all",
                "deterministic": True,
                "database": "none",
                "no-shrink": True,
                "max-examples": CASES,
                "with-security-parameters": False,  # The signer sets the security headers.
            },
            "phases": {
                "coverage": {"enabled": is_long},
                "stateful": {"enabled": is_long},
            },
        }
    )


def _run(document: Any, base_url: str, merchant: Merchant) -> Found:
    schema = schemathesis.openapi.from_dict(document, config=_configuration(base_url))
    schema.auth.set_from_requests(Signer(merchant))
    found = Found()
    for event in from_schema(schema).execute():
        found.add(event)
    return found


async def test_every_response_matches_the_api_description(
    site: Site, services: Services, db: Database, keyring: Keyring
) -> None:
    merchant = await new_merchant(site, db, keyring)
    money = Money.of("1000000", "NGN")
    await wallets.fund(db, merchant.new.id, Environment.PRODUCTION, money, "for a test")
    document = (await site.send("GET", "/api/openapi.json")).json
    async with running_simulator(services), setting(services, "rate_limit_per_minute", 1_000_000):
        url = f"http://127.0.0.1:{site.port}"
        parameter = document["components"]["parameters"]["TrxId"]
        del parameter["example"]
        parameter["examples"] = await _transactions(services, merchant)
        _refund(document, parameter["examples"]["payment"]["value"])
        found = await asyncio.to_thread(_run, document, url, merchant)
    assert not found.problems, "\n\n".join(found.problems[:5])
    assert {status for _, status in found.statuses} >= {200, 400, 401, 404, 422}
    # Each operation must have succeeded and must have been rejected at least once.
    for label in {label for label, _ in found.statuses}:
        # Each operation of a dispute needs one in another state: see `disputes/test_api.py`.
        assert found.statuses[label, 200] or "{disputeId}" in label, label
        assert any(found.statuses[label, status] for status in (400, 401, 404, 422)), label
    assert len({label for label, _ in found.statuses}) == _count(document)
    print(f"{found.statuses.total()} calls")  # shown by `make fuzz`


async def _transactions(services: Services, merchant: Merchant) -> Any:
    """Creates one transaction of each type, so that the verify operations can find it."""
    payment = trx_id_of(await merchant.post(PAY, order(payment_amount=1_000_000)))
    await complete(services, merchant, payment)
    refund = {"trx_id": payment, "amount": 1, "ref_trx": new_reference()}
    refunded = await merchant.post(REFUND, refund)
    payout = {**REQUESTS["initiatePayout"]["manual"], "ref_trx": new_reference()}
    initiated = await merchant.post(PAY_OUT, payout)
    return {
        "payment": {"value": payment},
        "payout": {"value": initiated.json["trx_id"]},
        "refund": {"value": refunded.json["trx_id"]},
    }


def _refund(document: Any, payment: str) -> None:
    """Changes the refund examples so that they refund this payment."""
    content = document["paths"][REFUND]["post"]["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        example["value"]["trx_id"] = payment


def _count(document: Any) -> int:
    return sum(len(methods) for methods in document["paths"].values())
