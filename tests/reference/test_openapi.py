"""The OpenAPI document passes a strict linter and is consistent."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import schemathesis

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount
from manilla.reference import openapi
from tests.support.client import Site

JSON = "application/json"


@pytest.fixture
async def document(site: Site) -> Any:
    return (await site.send("GET", "/api/openapi.json")).json


def operations(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def every(part: Any) -> Iterator[Any]:
    """Yields all objects in the OpenAPI document except examples, which are data."""
    if isinstance(part, dict):
        yield part
        for key, value in part.items():
            if key not in ("example", "examples"):
                yield from every(value)
    elif isinstance(part, list):
        for item in part:
            yield from every(item)


def references(document: Any) -> set[str]:
    return {part["$ref"] for part in every(document) if isinstance(part.get("$ref"), str)}


def whole(document: Any, schema: Any) -> Any:
    """Adds the document's components to the schema, so that references can be resolved."""
    return {**schema, "components": document["components"]}


async def test_the_description_is_public_and_covers_every_endpoint(site: Site) -> None:
    reply = await site.send("GET", "/api/openapi.json")
    document = reply.json
    assert (reply.status, document["openapi"]) == (200, "3.1.0")
    operation = document["paths"]["/api/v1/site-info"]["get"]
    assert set(operation["responses"]) == {"200", "400", "401", "403", "429", "500", "503"}
    assert "INVALID_CREDENTIALS" in operation["responses"]["401"]["description"]
    schemes = document["components"]["securitySchemes"].values()
    assert {scheme.get("name", scheme["type"]) for scheme in schemes} == {
        *("X-Merchant-Key", "X-API-Key", "X-Timestamp", "X-Signature", "http")
    }
    legacy = document["paths"]["/api/initiate-payment"]["post"]
    assert legacy["security"] == [{"Bearer": []}]
    assert set(document["webhooks"]) == {"payment", "payout", "refund", "legacyPayment"}


async def test_endpoints_that_require_a_right_say_which(document: Any) -> None:
    refused = document["paths"]["/api/v1/initiate-payout"]["post"]["responses"]["403"]
    example = refused["content"][JSON]["examples"]["INSUFFICIENT_PERMISSION"]["value"]
    assert example["required_right"] == "payouts"
    open_to_all = document["paths"]["/api/v1/site-info"]["get"]["responses"]["403"]
    assert "INSUFFICIENT_PERMISSION" not in open_to_all["description"]


async def test_the_description_is_valid_openapi(document: Any) -> None:
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator(whole(document, schema))


async def test_every_reference_resolves_and_no_component_is_unused(document: Any) -> None:
    used = references(document)
    for reference in used:
        part = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    offered = {
        f"#/components/{kind}/{name}"
        for kind, named in document["components"].items()
        if kind != "securitySchemes"
        for name in named
    }
    assert offered == used
    schemes = {
        name
        for _, operation in operations(document)
        for option in operation["security"]
        for name in option
    }
    assert schemes == set(document["components"]["securitySchemes"])


async def test_every_operation_has_a_unique_name_a_tag_and_a_description(document: Any) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    all_operations = [operation for _, operation in operations(document)]
    all_operations += [item["post"] for item in document["webhooks"].values()]
    names = [operation["operationId"] for operation in all_operations]
    assert len(set(names)) == len(names)
    for operation in all_operations:
        assert set(operation["tags"]) <= tags
        assert operation["summary"]
        assert operation["description"]
    assert {tag for operation in all_operations for tag in operation["tags"]} == tags
    assert document["info"]["contact"]["url"] == document["servers"][0]["url"]
    assert document["info"]["license"]["identifier"] == "Apache-2.0"


async def test_every_property_and_parameter_is_described(document: Any) -> None:
    for part in every(document):
        if isinstance(part.get("properties"), dict):
            for name, each in part["properties"].items():
                assert each.get("description"), name
        if part.get("in") in ("header", "path", "query"):
            assert part["description"], part["name"]
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"], name
        assert isinstance(schema["additionalProperties"], bool), name


async def test_responses_are_closed_and_requests_allow_unknown_fields(document: Any) -> None:
    taken = {
        name
        for name, schema in document["components"]["schemas"].items()
        if schema["additionalProperties"]
    }
    requests = {name for name in document["components"]["schemas"] if name.endswith("Request")}
    requests |= {"SplitTerms", "ReceiverTerms"}  # parts of requests
    assert {"PaymentRequest", "RefundRequest", "PayoutRequest"} <= requests
    assert {name for name in taken if not name.endswith(("Notice", "NoticeData"))} == requests


async def test_every_response_and_error_has_examples_that_match_its_schema(document: Any) -> None:
    for name, operation in operations(document):
        body = operation.get("requestBody", {}).get("content", {})
        contents = [body] if JSON in body else []  # a form has no example
        for status, response in operation["responses"].items():
            contents.append(response["content"])
            examples = response["content"][JSON]["examples"]
            codes = {example["value"].get("error_code") for example in examples.values()}
            if status != "200":
                assert codes == _declared(response), (name, status)
        for content in contents:
            _check_examples(document, content[JSON])
    for item in document["webhooks"].values():
        _check_examples(document, item["post"]["requestBody"]["content"][JSON])


def _declared(response: Any) -> set[str]:
    """Returns the error codes that a response's schema allows. Its description names each code."""
    _, only = response["content"][JSON]["schema"]["allOf"]
    codes = set(only["properties"]["error_code"]["enum"])
    assert all(f"`{code}`" in response["description"] for code in codes)
    return codes


def _check_examples(document: Any, content: Any) -> None:
    validator = jsonschema_rs.Draft202012Validator(
        whole(document, content["schema"]), validate_formats=True
    )
    assert content["examples"]
    for name, example in content["examples"].items():
        problems = [error.message for error in validator.iter_errors(example["value"])]
        assert not problems, (name, problems)


async def test_every_parameter_and_header_example_matches_its_schema(document: Any) -> None:
    seen = 0
    for part in every(document):
        if "schema" in part and "example" in part:
            jsonschema_rs.Draft202012Validator(part["schema"]).validate(part["example"])
            seen += 1
    assert seen >= 15


async def test_every_response_lists_its_headers(document: Any) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            headers = set(response["headers"])
            assert headers >= {"X-Request-Id", "RateLimit", "RateLimit-Policy"}, name
            assert ("Retry-After" in headers) == (status in ("429", "503")), name
    for path in (
        "/api/v1/initiate-payment",
        "/api/v1/initiate-refund",
        "/api/v1/initiate-payout",
        "/api/initiate-payment",
    ):
        operation = document["paths"][path]["post"]
        assert "Idempotent-Replayed" in operation["responses"]["200"]["headers"]
        parameters = {part["$ref"].rpartition("/")[2] for part in operation["parameters"]}
        assert parameters == {"Environment", "IdempotencyKey", "SandboxScenario"}


async def test_initiate_responses_link_to_their_verify_endpoint(document: Any) -> None:
    for kind in ("payment", "payout", "refund"):
        answer = document["paths"][f"/api/v1/initiate-{kind}"]["post"]["responses"]["200"]
        target = document["paths"][f"/api/v1/verify-{kind}/{{trxId}}"]["get"]["operationId"]
        (link,) = answer["links"].values()
        assert link["operationId"] == target
        assert link["parameters"] == {"trxId": "$response.body#/trx_id"}


async def test_notifications_are_described_with_their_headers(document: Any) -> None:
    for item in document["webhooks"].values():
        names = {
            document["components"]["parameters"][part["$ref"].rpartition("/")[2]]["name"]
            for part in item["post"]["parameters"]
        }
        assert names == {
            *("X-Signature", "X-Environment", "X-Timestamp"),
            *("webhook-id", "webhook-timestamp", "webhook-signature"),
        }
        statuses = {
            example["value"]["status"]
            for example in item["post"]["requestBody"]["content"][JSON]["examples"].values()
        }
        assert "completed" in statuses


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
        right=None,
        answers=(_Receipt,),
        body=_Order,
        query=_Order,
        use_case=_use_case,
    )
    document = openapi.document([endpoint], "http://here", "1")
    schemas = document["components"]["schemas"]
    assert schemas["_Receipt"]["properties"]["total"] == {"type": "number"}
    assert schemas["_Order"]["properties"]["payment_amount"]["type"] == "number"
    assert schemas["_Order"]["properties"]["note"]["type"] == ["string", "null"]
    assert schemas["_Order"]["required"] == ["payment_amount"]
    parameters = document["paths"]["/api/v1/pay/{trxId}"]["post"]["parameters"]
    assert [(p["name"], p["in"]) for p in parameters if "name" in p] == [
        ("payment_amount", "query"),
        ("note", "query"),
    ]
    assert {"$ref": "#/components/parameters/TrxId"} in parameters
