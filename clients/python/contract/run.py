"""Runs the contract of all clients with the Python client: see `clients/contract/README.md`.

`python3 run.py Client` or `python3 run.py AsyncClient` chooses the class.
"""

import asyncio
import inspect
import json
import os
import sys
import time
import traceback
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import manilla_client as library
from manilla_client import AsyncClient, Client, Credentials, ManillaError, Retries
from manilla_client.credentials import sign
from manilla_client.errors import refusal_class

FOLDER = Path(__file__).parents[2] / "contract"
RECEIVE_SECONDS = 60


class Mismatch(Exception):
    """The client's behavior differs from the case."""


class Runner:
    """Runs cases with one of the two classes of clients, and collects the failures."""

    def __init__(self, kind: str, contract_url: str, values: Mapping[str, str]) -> None:
        self._kind = kind
        self._url = contract_url
        self._values = values
        self._saved: dict[str, Any] = {}
        self.count = 0
        self.failures: list[str] = []

    def run(self) -> None:
        for vector in read("signatures.json"):
            self._case(vector["name"], partial(check_signature, vector))
        for case in read("notifications.json"):
            self._case(case["name"], partial(check_notification, case))
        for case in read("connections.json"):
            self._case(case["name"], partial(check_connection, case))
        for case in read("waits.json"):
            self._case(f"wait {case}", partial(check_wait, case))
        self._case("error classes", partial(check_classes, read("errors.json")))
        for case in self._get("/cases"):
            self._case(case["name"], partial(self._check_scripted, case))
        self._case("report", self._check_report)
        if "MANILLA_URL" in self._values:
            for case in read("live.json"):
                self._case(case["name"], partial(self._check_live, case["steps"]))

    def _case(self, name: str, check: Callable[[], None]) -> None:
        self.count += 1
        try:
            check()
        except Mismatch as error:
            self.failures.append(f"{name}: {error}")
        except Exception:
            self.failures.append(f"{name}: {traceback.format_exc()}")

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=30) as response:
            return json.load(response)

    def _check_report(self) -> None:
        compare({"violations": [], "missing": []}, self._get("/report"))

    def _check_scripted(self, case: Mapping[str, Any]) -> None:
        keys = Credentials("test_" + case["name"], "test_api_key", "test_api_secret")
        retries = Retries(**case["retries"])
        check_outcome(case, lambda: self._call(case, self._url, keys, retries))

    def _check_live(self, steps: list[Any]) -> None:
        self._saved = {}
        for step in steps:
            if "let" in step:
                self._saved |= {name: self._value(value) for name, value in step["let"].items()}
            elif "receive" in step:
                self._check_received(step)
            else:
                self._check_step(step)

    def _check_step(self, step: Mapping[str, Any]) -> None:
        names = {
            "merchant_key": "MANILLA_MERCHANT_KEY",
            "api_key": "MANILLA_API_KEY",
            "api_secret": "MANILLA_API_SECRET",
        }
        own = {name: self._values[variable] for name, variable in names.items()}
        keys = Credentials(**{**own, **step.get("credentials", {})})
        url = self._values["MANILLA_URL"]
        case = {name: self._value(part) for name, part in step.items()}
        result = check_outcome(case, lambda: self._call(case, url, keys, Retries()))
        for name, path in step.get("save", {}).items():
            self._saved[name] = at_path(result, path)

    def _check_received(self, step: Mapping[str, Any]) -> None:
        verify, secret = getattr(library, step["function"]), self._value(step["secret"])
        trx_id, deadline = self._value(step["trx_id"]), time.monotonic() + RECEIVE_SECONDS
        while time.monotonic() < deadline:
            for message in self._get("/received" + step["receive"]):
                try:
                    found = verify(message["body"].encode(), message["headers"], secret)
                except library.BadNotification:
                    continue
                if found.trx_id == trx_id:
                    compare(self._value(step["returns"]), found)
                    return
            time.sleep(0.1)
        raise Mismatch(f"no notification about {trx_id} arrived")

    def _call(self, case: Mapping[str, Any], url: str, keys: Credentials, retries: Retries) -> Any:
        words = decoded(case.get("id", []))
        words = words if isinstance(words, list) else [words]
        named = decoded({**case.get("order", {}), **case.get("options", {})})
        if self._kind == "AsyncClient":
            return asyncio.run(call_async(case["call"], words, named, url, keys, retries))
        with Client(url, keys, retries=retries) as client:
            result = getattr(client, case["call"])(*words, **named)
            return list(result) if isinstance(result, Iterator) else result

    def _value(self, value: Any) -> Any:
        """Replaces the values that are only known while the live cases run."""
        if isinstance(value, list):
            return [self._value(part) for part in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"$saved": name}:
                return self._saved[name]
            case {"$unique": prefix}:
                return prefix + uuid.uuid4().hex[:20]
            case {"$receiver": path}:
                return f"{self._url}/receive{path}"
        if "$api_secret" in value:
            return self._values["MANILLA_API_SECRET"]
        return {name: self._value(part) for name, part in value.items()}


async def call_async(
    name: str,
    words: list[Any],
    named: Mapping[str, Any],
    url: str,
    keys: Credentials,
    retries: Retries,
) -> Any:
    async with AsyncClient(url, keys, retries=retries) as client:
        result = getattr(client, name)(*words, **named)
        return await result if inspect.isawaitable(result) else [item async for item in result]


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def decoded(value: Any) -> Any:
    """Returns a value of the neutral form as the client expects it."""
    match value:
        case {"$amount": text}:
            return Decimal(text)
        case {"$bytes": text}:
            return text.encode()
        case {"$float": number}:
            return float(number)
        case {"$time": text}:
            return datetime.fromisoformat(text)
        case dict():
            return {name: decoded(part) for name, part in value.items()}
        case list():
            return [decoded(part) for part in value]
    return value


def check_outcome(case: Mapping[str, Any], act: Callable[[], Any]) -> Any:
    expected = case.get("error")
    try:
        result = act()
    except (ManillaError, ValueError, TypeError) as error:
        if expected is None:
            raise
        check_error(expected, error)
        return None
    if expected is not None:
        raise Mismatch(f"no error, but {result!r}")
    for part in ("returns", "fields"):
        if part in case:
            compare(case[part], result)
    return result


def check_error(expected: Mapping[str, Any], error: Exception) -> None:
    if expected["class"] == "$argument":
        if isinstance(error, ManillaError):
            raise Mismatch(f"{error!r} is not an error about an argument")
        return
    if type(error).__name__ != expected["class"]:
        raise Mismatch(f"{error!r} is not a {expected['class']}")
    for parent in expected.get("parents", ()):
        if not isinstance(error, getattr(library, parent)):
            raise Mismatch(f"{type(error).__name__} is not a {parent}")
    if "error_names" in expected:
        compare(expected["error_names"], sorted(error.errors))  # type: ignore[attr-defined]
    if "shown" in expected:
        compare(expected["shown"], str(error))
    known = ("class", "parents", "error_names", "shown")
    compare({name: value for name, value in expected.items() if name not in known}, error)


def compare(expected: Any, found: Any, where: str = "") -> None:
    match expected:
        case {"$amount": text}:
            if not isinstance(found, Decimal) or format(found, "f") != text:
                raise Mismatch(f"{where} is {found!r}, not {text}")
        case {"$bytes": text} | {"$time": text}:
            if found != decoded(expected):
                raise Mismatch(f"{where} is {found!r}, not {text}")
        case dict():
            for name, part in expected.items():
                compare(part, field(found, name, where), f"{where}.{name}")
        case list():
            if not isinstance(found, list | tuple) or len(found) != len(expected):
                raise Mismatch(f"{where} is {found!r}, not {expected!r}")
            for number, (part, own) in enumerate(zip(expected, found, strict=True)):
                compare(part, own, f"{where}.{number}")
        case _:
            if type(found) is not type(expected) or found != expected:
                raise Mismatch(f"{where} is {found!r}, not {expected!r}")


def field(found: Any, name: str, where: str) -> Any:
    missing = object()
    value = (
        found.get(name, missing) if isinstance(found, Mapping) else getattr(found, name, missing)
    )
    if value is missing:
        raise Mismatch(f"{where}.{name} is missing in {found!r}")
    return value


def at_path(value: Any, path: str) -> Any:
    for segment in path.split("."):
        if segment.isdigit():
            value = value[int(segment)]
        elif "=" in segment:
            name, _, wanted = segment.partition("=")
            value = next(item for item in value if field(item, name, path) == wanted)
        else:
            value = field(value, segment, path)
    return value


def check_signature(vector: Mapping[str, Any]) -> None:
    secret, method, path = vector["secret"], vector["method"], vector["path"]
    made = sign(secret, int(vector["timestamp"]), method, path, vector["body"].encode())
    compare(vector["signature"], made)


def check_notification(case: Mapping[str, Any]) -> None:
    verify = getattr(library, case["function"])
    arguments = (case["body"].encode(), case["headers"], case["secret"])
    check_outcome(case, lambda: verify(*arguments, tolerance_seconds=case["tolerance_seconds"]))


def check_connection(case: Mapping[str, Any]) -> None:
    try:
        found = library.ShopConnection.read(case["text"])
    except ValueError:
        compare(case.get("returns"), None)
        return
    shown = {
        "url": found.url,
        "environment": found.credentials.environment,
        "merchant_key": found.credentials.merchant_key,
        "webhook_endpoint": found.webhook_endpoint,
        "webhook_secret": found.webhook_secret,
    }
    compare(case.get("returns"), shown)


def check_wait(case: Mapping[str, Any]) -> None:
    retries = Retries(**case["retries"])
    waits = [retries.wait_seconds(case["attempts"], case["retry_after_seconds"]) for _ in range(50)]
    if case["wait_seconds"] is None:
        compare([None] * 50, waits)
        return
    shortest, longest = case["wait_seconds"]
    if not all(wait is not None and shortest <= wait <= longest for wait in waits):
        raise Mismatch(f"the waits are {waits}")
    if longest > shortest and len(set(waits)) == 1:
        raise Mismatch("the waits are not random")


def check_classes(described: Mapping[str, Any]) -> None:
    for each in described["classes"]:
        kind = getattr(library, each["class"])
        if each["parent"] is not None and kind.__base__ is not getattr(library, each["parent"]):
            raise Mismatch(f"{each['class']} is not a direct subclass of {each['parent']}")
        for code in each.get("codes", ()):
            compare(each["class"], refusal_class(422, code).__name__)
        if "advice" in each:
            compare(each["advice"], kind.advice)
    for status, name in described["by_status"].items():
        compare(name, refusal_class(int(status), None).__name__)


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "Client"
    runner = Runner(kind, os.environ["MANILLA_CONTRACT_URL"], os.environ)
    runner.run()
    print(*runner.failures, sep="\n", end="\n" if runner.failures else "")
    print(f"{kind}: {runner.count} cases, {len(runner.failures)} failed")
    raise SystemExit(1 if runner.failures else 0)


if __name__ == "__main__":
    main()
