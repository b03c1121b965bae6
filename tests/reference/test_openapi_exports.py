"""The plain text for language models, which is generated from the OpenAPI document."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Merchant, Site


@pytest.fixture
async def document(site: Site) -> Any:
    return (await site.send("GET", "/api/openapi.json")).json


def endpoints(document: Any) -> set[tuple[str, str]]:
    return {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }


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
    vectors = json.loads((project / "clients/contract/signatures.json").read_text())
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
            body = operation.get("requestBody", {}).get("content", {})
            if "application/json" in body:
                contents.append(body)
            for content in contents:
                for example in content["application/json"]["examples"].values():
                    assert example["value"] in blocks


async def test_the_documents_accept_only_get(site: Site) -> None:
    for path in ("/api/openapi.json", "/llms.txt", "/llms-full.txt"):
        reply = await site.send("POST", path)
        assert (reply.status, reply.headers["allow"]) == (405, "get")
        assert reply.code == "METHOD_NOT_ALLOWED"
