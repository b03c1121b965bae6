"""Serves the scripted cases of the contract, and receives notifications for the live cases.

Run `python3 clients/contract/server.py`. The program prints its URL, and ends when its standard
input is closed. The README beside this file describes the cases and the URLs.
"""

import hashlib
import hmac
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

KEY_HEADER = "Idempotency-Key"
FOLDER = Path(__file__).parent
PREFIX = "test_"  # A client uses the sandbox if its keys start with this prefix.
API_KEY, API_SECRET = "test_api_key", "test_api_secret"
RETRIES = {"attempts_max": 3, "first_wait_seconds": 0}
CLOCK_SECONDS = 300
FOR_RUNNERS = ("name", "call", "id", "order", "options", "retries", "returns", "fields", "error")


class Number(str):
    """A JSON number as it was written, because 1500.5 and 1500.50 are different bytes."""


def load() -> dict[str, Any]:
    """Returns the scripted cases by name. No case refers to another case any more."""
    written = [
        case
        for file in sorted((FOLDER / "scripted").glob("*.json"))
        for case in json.loads(file.read_text())
    ]
    cases = {case["name"]: case for case in written}
    assert len(cases) == len(written), "Two cases have the same name."
    return {name: expanded(case, cases) for name, case in cases.items()}


def expanded(case: Mapping[str, Any], cases: Mapping[str, Any]) -> dict[str, Any]:
    if "like" in case:
        model = cases[case["like"]]
        taken = {name: model[name] for name in ("call", "id", "order", "options") if name in model}
        case = merged(taken, {name: part for name, part in case.items() if name != "like"})
    exchanges = [
        {part: like(part, exchange[part], cases) for part in ("request", "response")}
        for exchange in case["exchanges"]
    ]
    result = {"retries": RETRIES, **case, "exchanges": exchanges}
    if case.get("returns") == "response":
        result["returns"] = exchanges[-1]["response"]["body"]
    elif case.get("returns") == "items":
        result["returns"] = [
            item for each in exchanges for item in each["response"]["body"]["data"]
        ]
    return result


def like(part: str, given: Mapping[str, Any], cases: Mapping[str, Any]) -> Any:
    """Completes a request or response that is like the one in the first exchange of a case."""
    if "like" not in given:
        return given
    model = cases[given["like"]]["exchanges"][0][part]
    return merged(model, {name: value for name, value in given.items() if name != "like"})


def merged(model: Any, changes: Any) -> Any:
    if not isinstance(model, Mapping) or not isinstance(changes, Mapping) or is_tagged(changes):
        return changes
    result = {**model}
    for name, value in changes.items():
        result[name] = merged(model[name], value) if name in model else value
    return result


def is_tagged(value: Any) -> bool:
    return isinstance(value, Mapping) and any(name.startswith("$") for name in value)


def encoded(value: Any) -> str:
    """Encodes a value of the neutral form as JSON."""
    if isinstance(value, Mapping):
        if "$amount" in value:
            return str(value["$amount"])
        if "$time" in value:
            return json.dumps(value["$time"])
        return "{" + ",".join(f"{json.dumps(k)}:{encoded(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encoded, value)) + "]"
    return json.dumps(value)


def differences(expected: Any, found: Any, where: str) -> list[str]:
    """Compares a value of the neutral form with a value that a client sent."""
    if isinstance(expected, Mapping) and "$amount" in expected:
        fine = isinstance(found, Number) and found == expected["$amount"]
    elif isinstance(expected, Mapping) and "$time" in expected:
        fine = same_time(expected["$time"], found)
    elif isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or expected.keys() != found.keys():
            return [f"{where} is {found!r}, not {expected!r}"]
        return [
            fault
            for name in expected
            for fault in differences(expected[name], found[name], f"{where}.{name}")
        ]
    elif isinstance(expected, list):
        fine = isinstance(found, list) and len(found) == len(expected)
        if fine:
            pairs = enumerate(zip(expected, found, strict=True))
            return [f for n, (a, b) in pairs for f in differences(a, b, f"{where}.{n}")]
    elif isinstance(expected, int) and not isinstance(expected, bool):
        fine = isinstance(found, Number) and found == str(expected)
    else:
        fine = type(found) is type(expected) and found == expected
    return [] if fine else [f"{where} is {found!r}, not {expected!r}"]


def same_time(expected: str, found: Any) -> bool:
    try:
        sent = datetime.fromisoformat(found)
    except (TypeError, ValueError):
        return False
    return sent.tzinfo is not None and sent == datetime.fromisoformat(expected)


class Script:
    """Checks each request of a case, and chooses the response."""

    def __init__(self) -> None:
        self.cases = load()
        self.counts: dict[str, int] = defaultdict(int)
        self.violations: list[str] = []
        self.received: dict[str, list[Any]] = defaultdict(list)
        self._keys: dict[str, str] = {}
        self._lock = threading.Lock()

    def answer(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes
    ) -> dict[str, Any]:
        with self._lock:
            sent = {name.lower(): value for name, value in headers}
            name = sent.get("x-merchant-key", "").removeprefix(PREFIX)
            faults, response = self._checked(name, method, target, headers, body)
            if not faults:
                return response
            self.violations += [f"{name}: {fault}" for fault in faults]
            violation = {"error": "; ".join(faults), "error_code": "CONTRACT_VIOLATION"}
            return {"status": 400, "body": violation}

    def _checked(
        self, name: str, method: str, target: str, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[list[str], dict[str, Any]]:
        case = self.cases.get(name)
        if case is None:
            return [f"X-Merchant-Key does not name a case: {target}"], {}
        number = self.counts[name]
        self.counts[name] += 1
        if number >= len(case["exchanges"]):
            return [f"request {number + 1} is one too many"], {}
        exchange = case["exchanges"][number]
        sent = {key.lower(): value for key, value in headers}
        faults = [
            *([] if len(sent) == len(headers) else ["a header was sent twice"]),
            *signature_faults(method, target, sent, body),
            *request_faults(
                exchange["request"], method, target, sent.get("content-type", ""), body
            ),
            *self._header_faults(name, exchange["request"], sent),
        ]
        return faults, exchange["response"]

    def _header_faults(
        self, name: str, request: Mapping[str, Any], sent: Mapping[str, str]
    ) -> list[str]:
        faults = []
        # A request that is safe to repeat by itself has no key.
        has_key = request["method"] == "POST" and KEY_HEADER not in request.get("absent", ())
        needed = {KEY_HEADER: {"$same": True}} if has_key else {}
        for header, expected in {**needed, **request.get("headers", {})}.items():
            found = sent.get(header.lower())
            if expected in ({"$any": True}, {"$same": True}):
                faults += self._key_faults(name, found)
            elif found != expected:
                faults.append(f"{header} is {found!r}, not {expected!r}")
        absent = request.get("absent", ())
        return faults + [f"{header} was sent" for header in absent if header.lower() in sent]

    def _key_faults(self, name: str, found: str | None) -> list[str]:
        """A generated idempotency key is the same in one call, and another in each other call."""
        if not found:
            return ["Idempotency-Key is missing"]
        if self._keys.setdefault(name, found) != found:
            return ["Idempotency-Key changed between two attempts"]
        if list(self._keys.values()).count(found) > 1:
            return ["Idempotency-Key was used for another call"]
        return []

    def report(self) -> dict[str, Any]:
        missing = [
            f"{name}: {self.counts[name]} of {len(case['exchanges'])} requests"
            for name, case in self.cases.items()
            if self.counts[name] < len(case["exchanges"])
        ]
        return {"violations": self.violations, "missing": missing}


def signature_faults(method: str, target: str, sent: Mapping[str, str], body: bytes) -> list[str]:
    stamp = sent.get("x-timestamp", "")
    signed = f"{stamp}.{method}.{target}.".encode() + body
    faults = []
    if not (stamp.isdigit() and abs(time.time() - int(stamp)) <= CLOCK_SECONDS):
        faults.append(f"X-Timestamp is {stamp!r}")
    expected = hmac.new(API_SECRET.encode(), signed, hashlib.sha256).hexdigest()
    fixed = {
        "x-signature": expected,
        "x-api-key": API_KEY,
        "x-environment": "sandbox",
        "accept": "application/json",
    }
    return faults + [
        f"{name} is {sent.get(name)!r}, not {value!r}"
        for name, value in fixed.items()
        if sent.get(name) != value
    ]


def read_file(content_type: str, body: bytes) -> dict[str, Any] | str:
    """Returns the name and content of the only file in a form, or what was sent instead."""
    message = BytesParser(policy=default).parsebytes(
        f"Content-Type: {content_type}\r\n\r\n".encode() + body
    )
    parts = [] if message.defects or not message.is_multipart() else list(message.iter_parts())
    if [each.get_param("name", header="content-disposition") for each in parts] != ["file"]:
        return f"{content_type}: {body!r}"
    content = parts[0].get_payload(decode=True)
    if not isinstance(content, bytes):
        return f"{content_type}: {body!r}"
    return {"name": parts[0].get_filename(), "content": content.decode()}


def request_faults(
    request: Mapping[str, Any], method: str, target: str, content_type: str, body: bytes
) -> list[str]:
    path, _, query = target.partition("?")
    faults = []
    if (method, path) != (request["method"], request["path"]):
        faults.append(f"{method} {path} instead of {request['method']} {request['path']}")
    pairs = parse_qsl(query, keep_blank_values=True)
    faults += differences(request.get("query", {}), dict(pairs), "query")
    if "file" in request:
        return faults + differences(request["file"], read_file(content_type, body), "file")
    if "body" not in request:
        return faults + ([f"a body was sent: {body!r}"] if body else [])
    try:
        document = json.loads(body, parse_int=Number, parse_float=Number)
    except ValueError:
        return [*faults, f"the body is not JSON: {body!r}"]
    return faults + differences(request["body"], document, "body")


class Handler(BaseHTTPRequestHandler):
    script: Script

    def do_GET(self) -> None:
        if self.path == "/cases":
            cases = self.script.cases.values()
            self._send(200, [{k: c[k] for k in FOR_RUNNERS if k in c} for c in cases])
        elif self.path == "/report":
            self._send(200, self.script.report())
        elif self.path.startswith("/received/"):
            self._send(200, self.script.received[self.path.removeprefix("/received")])
        else:
            self._scripted()

    def do_POST(self) -> None:
        if not self.path.startswith("/receive/"):
            self._scripted()
            return
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        message = {"headers": dict(self.headers.items()), "body": body}
        self.script.received[self.path.removeprefix("/receive")].append(message)
        self._send(200, {})

    def do_PATCH(self) -> None:
        self._scripted()

    def do_PUT(self) -> None:
        self._scripted()

    def do_DELETE(self) -> None:
        self._scripted()

    def _scripted(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = list(self.headers.items())
        response = self.script.answer(self.command, self.path, headers, body)
        self.close_connection = True
        if "raw" in response:
            self.wfile.write(response["raw"].encode())
        elif "status" in response:
            text = response["text"] if "text" in response else encoded(response["body"])
            self._write(response["status"], text, response.get("headers", {}))

    def _send(self, status: int, document: Any) -> None:
        self._write(status, json.dumps(document), {})

    def _write(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        content = text.encode()
        if "Date" in headers:
            self.send_response_only(status)
        else:
            self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


def main() -> None:
    Handler.script = Script()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()
        thread.join()


if __name__ == "__main__":
    main()
