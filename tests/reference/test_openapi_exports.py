"""What is made from the description for other readers: a Postman collection, and plain text."""

import asyncio
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.client import Merchant, Site


@pytest.fixture
async def document(site: Site) -> Any:
    return (await site.send("GET", "/api/openapi.json")).json


@pytest.fixture
async def collection(site: Site) -> Any:
    reply = await site.send("GET", "/api/postman.json")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    return reply.json


def requests(collection: Any) -> list[Any]:
    return [item for folder in collection["item"] for item in folder["item"]]


def endpoints(document: Any) -> set[tuple[str, str]]:
    return {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }


async def test_the_collection_has_every_endpoint_with_all_of_its_examples(
    collection: Any, document: Any
) -> None:
    assert collection["info"]["schema"].endswith("/v2.1.0/collection.json")
    found = set()
    for item in requests(collection):
        path = "/" + "/".join(item["request"]["url"]["path"])
        path = re.sub(r":(\w+)", r"{\1}", path)
        method = item["request"]["method"]
        found.add((method, path))
        described = {
            (int(status), json.dumps(example["value"]))
            for status, response in document["paths"][path][method.lower()]["responses"].items()
            for example in response["content"]["application/json"]["examples"].values()
        }
        saved = {(each["code"], json.dumps(json.loads(each["body"]))) for each in item["response"]}
        assert saved == described
    assert found == endpoints(document)


async def test_the_collection_prompts_for_credentials_and_contains_none(
    collection: Any, site: Site
) -> None:
    values = {each["key"]: each["value"] for each in collection["variable"]}
    assert values["base_url"] == f"http://127.0.0.1:{site.port}"
    assert values["environment"] == "sandbox"
    for name in ("merchant_key", "api_key", "api_secret"):
        assert values[name] == "test_..."


async def test_the_collection_signs_each_request_before_it_is_sent(collection: Any) -> None:
    (event,) = collection["event"]
    script = "\n".join(event["script"]["exec"])
    assert event["listen"] == "prerequest"
    assert '[timestamp, pm.request.method, target, body].join(".")' in script
    assert "hashing.HmacSHA256(signed" in script
    # Postman declares these itself: a second declaration is an error, and nothing would be signed.
    declared = set(re.findall(r"\b(?:const|let|class|function) (\w+)", script))
    assert declared.isdisjoint({"CryptoJS", "crypto", "pm", "postman", "request", "_", "xml2Json"})
    for header in ("X-Merchant-Key", "X-API-Key", "X-Timestamp", "X-Signature"):
        assert f'key: "{header}"' in script


async def test_requests_sent_by_the_collection_are_accepted(
    collection: Any, merchant: Merchant
) -> None:
    """As Postman would send it: variables put in, and what is switched off left out."""
    for item in requests(collection):
        request = item["request"]
        if "variable" in request["url"]:
            continue  # asks for what another request has made
        target = request["url"]["raw"].removeprefix("{{base_url}}")
        body = request.get("body", {}).get("raw", "").replace("{{$guid}}", str(uuid.uuid4()))
        on = {h["key"]: h["value"] for h in request["header"] if not h.get("disabled")}
        headers = {**on, "X-Environment": "sandbox"}
        if "auth" in request:
            headers["Authorization"] = f"Bearer {merchant.credentials.api_key}"
        else:
            headers |= merchant.headers(request["method"], target, body.encode())
        reply = await merchant.site.send(request["method"], target, headers, body.encode())
        # Where no provider is set up, their methods are not offered; all else is taken.
        assert reply.status == 200 or reply.code == "gateway_not_configured", reply.body


@pytest.mark.parametrize("path", ["/llms.txt", "/llms-full.txt"])
async def test_the_text_version_names_every_endpoint_and_error(
    site: Site, document: Any, path: str
) -> None:
    reply = await site.send("GET", path)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    text = reply.body.decode()
    for method, target in endpoints(document):
        assert f"`{method} {target}`" in text
    codes = {
        example["value"]["error_code"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        if status != "200"
        for example in response["content"]["application/json"]["examples"].values()
    }
    for code in codes:
        assert f"| `{code}` |" in text, code
    for number in range(5):
        assert f"`000000000{number}`" in text


async def test_the_text_version_signs_like_the_test_vectors(site: Site, project: Path) -> None:
    text = (await site.send("GET", "/llms.txt")).body.decode()
    vectors = json.loads((project / "tests" / "vectors" / "signatures.json").read_text())
    first = next(vector for vector in vectors if vector["path"] == "/api/v1/site-info")
    for part in ("secret", "timestamp", "signature"):
        assert str(first[part]) in text


async def test_the_code_in_the_text_version_calls_the_api(site: Site, merchant: Merchant) -> None:
    text = (await site.send("GET", "/llms.txt")).body.decode()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {
        "MERCHANT_KEY": merchant.credentials.merchant_key,
        "API_KEY": merchant.credentials.api_key,
        "API_SECRET": merchant.credentials.api_secret,
    }
    exec(code, names)
    answer = await asyncio.to_thread(names["call"], "GET", "/api/v1/payout-methods?currency=NGN")
    assert answer["currency_code"] == "NGN"


async def test_the_full_text_version_has_every_example(site: Site, document: Any) -> None:
    text = (await site.send("GET", "/llms-full.txt")).body.decode()
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    for methods in document["paths"].values():
        for operation in methods.values():
            contents = [operation["responses"]["200"]["content"]]
            if "requestBody" in operation:
                contents.append(operation["requestBody"]["content"])
            for content in contents:
                for example in content["application/json"]["examples"].values():
                    assert example["value"] in blocks


async def test_the_documents_accept_only_get(site: Site) -> None:
    for path in ("/api/openapi.json", "/api/postman.json", "/llms.txt", "/llms-full.txt"):
        reply = await site.send("POST", path)
        assert (reply.status, reply.headers["allow"]) == (405, "get")
        assert reply.code == "METHOD_NOT_ALLOWED"
