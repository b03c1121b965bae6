"""The contract's data matches the API's description, and covers everything that clients do."""

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from manilla_client import Client

from tests.contract.runners import CONTRACT
from tests.support.signing import sign
from tools.typescript import describe_api

# These methods make no call.
LOCAL = {"close", "from_environment"}


@pytest.fixture(scope="module")
def document() -> Any:
    return describe_api()


@pytest.fixture(scope="module")
def server() -> Any:
    """The module of the server for the scripted cases, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("contract_server", CONTRACT / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cases(server: Any) -> Any:
    return server.load()


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Yields the method, the path as a pattern, and the operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "Legacy API" not in operation["tags"]:
                yield method.upper(), re.sub(r"\{\w+\}", "[^/]+", path), operation


def called(document: Any, request: Any) -> Any:
    (found,) = [
        operation
        for method, path, operation in operations(document)
        if request["method"] == method and re.fullmatch(path, request["path"])
    ]
    return found


def is_valid(document: Any, content: Any, body: Any) -> bool:
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    return jsonschema_rs.is_valid(schema, body)


def test_accepted_responses_and_all_requests_match_the_api_description(
    document: Any, cases: Any, server: Any
) -> None:
    checked = 0
    for name, case in cases.items():
        for exchange in case["exchanges"]:
            request, response = exchange["request"], exchange["response"]
            operation = called(document, request)
            if "body" in request:
                content = operation["requestBody"]["content"]
                assert is_valid(document, content, json.loads(server.encoded(request["body"]))), (
                    name
                )
            # A case with an error, or with unknown fields, has an unusual response on purpose.
            if response.get("body") and case.get("returns") == response["body"]:
                content = operation["responses"]["200"]["content"]
                body = json.loads(server.encoded(response["body"]))
                assert is_valid(document, content, body), name
                checked += 1
    assert checked > len(cases) / 3


def test_the_scripted_cases_call_every_operation(document: Any, cases: Any) -> None:
    found = {
        called(document, exchange["request"])["operationId"]
        for case in cases.values()
        for exchange in case["exchanges"]
    }
    assert found == {operation["operationId"] for _, _, operation in operations(document)}


def test_every_call_is_scripted_and_made_to_a_running_instance(cases: Any) -> None:
    methods = {name for name in vars(Client) if not name.startswith("_")} - LOCAL
    live = json.loads((CONTRACT / "live.json").read_text())
    steps = {step["call"] for case in live for step in case["steps"] if "call" in step}
    assert {case["call"] for case in cases.values()} == methods
    assert steps == methods


def test_every_error_code_of_the_api_has_a_class(document: Any, cases: Any) -> None:
    classes = json.loads((CONTRACT / "errors.json").read_text())["classes"]
    known = {code for each in classes for code in each.get("codes", ())}
    described = {
        code
        for _, _, operation in operations(document)
        for status, response in operation["responses"].items()
        if status != "200"
        for part in response["content"]["application/json"]["schema"]["allOf"]
        for code in part.get("properties", {}).get("error_code", {}).get("enum", ())
    }
    assert described <= known
    raised = {case["error"].get("code") for case in cases.values() if "error" in case}
    assert known <= raised


def test_the_files_name_no_registry(project: Path) -> None:
    """A URL in a lock file would be the registry of one developer's machine."""
    lock = json.loads((project / "clients/typescript/package-lock.json").read_text())
    packages = {name: part for name, part in lock["packages"].items() if name}
    assert set(packages) == {"node_modules/typescript"}
    for part in packages.values():
        assert "resolved" not in part
        assert part["integrity"].startswith("sha512-")


class SentRequest:
    """A request as a client sends it, with a valid signature for the changed parts."""

    def __init__(self, server: Any, case: str, target: str, document: str = "") -> None:
        self.script = server.Script()
        self.secret = server.API_SECRET
        self.target, self.body = target, document.encode()
        self.method = "POST" if document else "GET"
        self.headers = {
            "Accept": "application/json",
            "X-Environment": "sandbox",
            "X-Merchant-Key": f"test_{case}",
            "X-API-Key": server.API_KEY,
            **({"Content-Type": "application/json"} if document else {}),
        }

    def send(self, **changed: str) -> Any:
        """Sends the request and returns the script's response."""
        stamp = str(int(time.time()))
        signature = sign(self.secret, stamp, self.method, self.target, self.body)
        signed = {"X-Timestamp": stamp, "X-Signature": signature}
        others = {name.replace("_", "-"): value for name, value in changed.items()}
        headers = list({**self.headers, **signed, **others}.items())
        return self.script.answer(self.method, self.target, headers, self.body)


def is_violation(response: Any) -> bool:
    return bool(response.get("body", {}).get("error_code") == "CONTRACT_VIOLATION")


def test_the_server_reports_a_wrong_signature_and_a_wrong_timestamp(server: Any) -> None:
    for changed in ({}, {"X_Signature": "0" * 64}, {"X_Timestamp": "1"}, {"X_API_Key": "test_x"}):
        request = SentRequest(server, "site-info", "/api/v1/site-info")
        assert is_violation(request.send(**changed)) == bool(changed)
        assert bool(request.script.report()["violations"]) == bool(changed)


@pytest.mark.parametrize("number", ["1500.5", "1500.500", '"1500.50"', "1500.50"])
def test_the_server_compares_the_exact_text_of_numbers(
    cases: Any, server: Any, number: str
) -> None:
    expected = cases["initiate-payment"]["exchanges"][0]["request"]
    body = server.encoded(expected["body"]).replace("1500.50", number)
    request = SentRequest(server, "initiate-payment", expected["path"], body)
    assert is_violation(request.send(Idempotency_Key="a key")) == (number != "1500.50")


def test_the_server_reports_a_changed_key_and_missing_and_additional_requests(
    cases: Any, server: Any
) -> None:
    name = "post-is-retried-after-500"
    expected = cases[name]["exchanges"][0]["request"]
    body = server.encoded(expected["body"])
    for keys, is_right in ((["a"], False), (["a", "a"], True), (["a", "b"], False)):
        request = SentRequest(server, name, expected["path"], body)
        responses = [request.send(Idempotency_Key=key) for key in keys]
        missing = any(line.startswith(f"{name}:") for line in request.script.report()["missing"])
        assert is_right == (not missing and not any(map(is_violation, responses)))
    assert is_violation(request.send(Idempotency_Key="a"))
