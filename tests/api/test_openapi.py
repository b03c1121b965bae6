from decimal import Decimal
from typing import Any

import msgspec

from manilla.api import openapi
from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount
from tests.client import Site


async def test_the_description_is_public_and_covers_what_is_served(site: Site) -> None:
    reply = await site.send("GET", "/api/openapi.json")
    document = reply.json
    assert (reply.status, document["openapi"]) == (200, "3.1.0")
    operation = document["paths"]["/api/v1/site-info"]["get"]
    assert set(operation["responses"]) == {"200", "400", "401", "403", "429", "503"}
    assert "INVALID_CREDENTIALS" in operation["responses"]["401"]["description"]
    schemes = document["components"]["securitySchemes"].values()
    assert {scheme.get("name", scheme["type"]) for scheme in schemes} == {
        *("X-Merchant-Key", "X-API-Key", "X-Timestamp", "X-Signature", "http")
    }
    legacy = document["paths"]["/api/initiate-payment"]["post"]
    assert legacy["security"] == [{"Bearer": []}]


async def test_every_reference_in_the_description_leads_somewhere(site: Site) -> None:
    document = (await site.send("GET", "/api/openapi.json")).json

    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if "$ref" in part else []
            return own + [ref for value in part.values() for ref in references(value)]
        if isinstance(part, list):
            return [ref for item in part for ref in references(item)]
        return []

    for reference in references(document):
        part = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


class _Order(msgspec.Struct):
    payment_amount: Amount
    note: str | None = None


class _Receipt(msgspec.Struct):
    total: Decimal


async def _use_case(_call: Call) -> _Receipt:
    raise AssertionError


def test_money_is_described_as_a_number() -> None:
    endpoint = Endpoint(
        method="POST",
        path="/api/v1/pay/{trxId}",
        summary="",
        description="",
        answers=(_Receipt,),
        body=_Order,
        query=_Order,
        use_case=_use_case,
    )
    document = openapi.document([endpoint], "http://here", "1")
    schemas = document["components"]["schemas"]
    assert schemas["_Receipt"]["properties"]["total"] == {"type": "number"}
    assert schemas["_Order"]["properties"]["payment_amount"] == {"type": "number"}
    assert schemas["_Order"]["required"] == ["payment_amount"]
    parameters = document["paths"]["/api/v1/pay/{trxId}"]["post"]["parameters"]
    assert [(p["name"], p["in"]) for p in parameters if "name" in p] == [
        ("trxId", "path"),
        ("payment_amount", "query"),
        ("note", "query"),
    ]
