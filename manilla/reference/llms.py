"""The API as text for language models: a summary at /llms.txt, everything at /llms-full.txt."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from manilla.reference.operations import DocumentedBody, Operation, notices, operations

WHAT_IT_IS = """\
# {title}

> {summary} JSON over HTTPS. A merchant sends customers to a hosted checkout page to pay (pay-in),
> and sends money from its wallet to Nigerian bank accounts (pay-out). Every outcome is sent to its
> `ipn_url`. The sandbox has its own credentials and wallets.

Base URL: {base_url}

"""

HOW_TO_SIGN = """\
## Signing

Every call, except to the legacy endpoint, has these headers:

- `X-Environment`: `sandbox` or `production`; defaults to `production`.
- `X-Merchant-Key`, `X-API-Key`: the keys of that environment. Sandbox values start with `test_`.
- `X-Timestamp`: Unix time in seconds, at most 300 seconds from the server's time.
- `X-Signature`: hex HMAC-SHA256, keyed with the API secret of that environment, of
  `<timestamp>.<METHOD>.<path_with_query>.<raw_body>`. The body is the exact bytes sent;
  for a GET it is empty, and the string ends with a dot.

```python
import hashlib, hmac, json, time, urllib.request

def call(method, target, body=None):
    raw = b"" if body is None else json.dumps(body).encode()
    timestamp = str(int(time.time()))
    signed = f"{{timestamp}}.{{method}}.{{target}}.".encode() + raw
    headers = {{
        "X-Environment": "sandbox",
        "X-Merchant-Key": MERCHANT_KEY,
        "X-API-Key": API_KEY,
        "X-Timestamp": timestamp,
        "X-Signature": hmac.new(API_SECRET.encode(), signed, hashlib.sha256).hexdigest(),
        "Content-Type": "application/json",
    }}
    request = urllib.request.Request("{base_url}" + target, raw or None, headers, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)
```

Test vector: secret `test_secret_for_vectors`, timestamp `1767323045`, `GET /api/v1/site-info`:
`0146e30fc38f263c364823bb24da3e786d5c5a34d63716f6326185c419607314`

"""

USAGE = """\
## Usage

1. Payment: `POST /api/v1/initiate-payment`, redirect the customer to `payment_url`, then call
   `GET /api/v1/verify-payment/{{trxId}}` or wait for the notification. The `trx_id` is the part of
   `payment_url`'s path after `/checkout/`. Fulfill the order on `success` only, and once.
2. Payout: `GET /api/v1/payout-methods?currency=NGN` for the method's `id`,
   `GET /api/v1/payout/bank-list?method_code=...` for bank codes (each provider has its own), then
   `POST /api/v1/initiate-payout`. The wallet is debited immediately. `pending` means that
   the result is not known yet: do not retry with another `ref_trx`. A failed payout is refunded.
3. Amounts are JSON numbers in major units, exact to the minor unit: parse them as decimals.
4. `ref_trx` is your reference, up to 60 characters, unique per kind and environment.
   After a timeout, retry with the same `Idempotency-Key`: you get the first response again, with
   `Idempotent-Replayed: true`.
5. The default limit is 120 requests per minute per merchant and IP address, for both
   environments together. `RateLimit` has the remaining quota; 429 and 503 have `Retry-After`.

"""

SANDBOX = """\
## Sandbox

No real money. Payments and payouts succeed automatically 5 seconds after initiation. The
wallet starts with 1,000,000.00 NGN.

`X-Sandbox-Scenario` on either POST: `success`, `failed`, or `pending` (stays pending).

Account numbers, on any automatic method:

| account_number | Outcome |
|---|---|
| `0000000000` | delivered |
| `0000000001` | accepted, then failed: `gateway_payout_failed`, refunded |
| `0000000002` | 422 `invalid_beneficiary` |
| `0000000003` | stays pending |
| `0000000004` | 422 `provider_insufficient_balance` |
| any other | delivered |

Bank codes for Guaranty Trust Bank: `058` (provider A), `000013` (provider B), `C058` (provider C).

"""

NOTIFICATIONS = """\
## Notifications

A POST with a JSON body to your `ipn_url` when a payment or payout is final, or a refund completes.
`X-Signature` is the hex HMAC-SHA256 of the raw body, keyed with the API secret of `X-Environment`.
It also has the Standard Webhooks headers (`webhook-id`, `webhook-timestamp`,
`webhook-signature`), whose key is `whsec_` followed by the base64-encoded API secret. Respond
with 2xx within 10 seconds, or we retry, up to 3 attempts in total. Process each notification once.

"""

MORE = """\
## More

- [OpenAPI 3.1]({base_url}/api/openapi.json): every field, response and error, with examples;
  imports into Postman
- [The full text version]({base_url}/llms-full.txt)
"""


ERRORS = """\
## Errors

Always `{"error": text, "error_code": code}`; if fields are invalid, `errors` lists them. Check \
the status and `error_code`.

| HTTP | error_code | Meaning |
|---|---|---|
ROWS

"""

# How the OpenAPI document lists error codes in a response's description.
REFUSAL = re.compile(r"`([A-Za-z_]+)`: (.+?)(?=; `[A-Za-z_]+`: |$)")


def short(document: Mapping[str, Any]) -> str:
    info = document["info"]
    values = {**info, "base_url": document["servers"][0]["url"]}
    first = (WHAT_IT_IS + HOW_TO_SIGN + USAGE).format_map(values)
    last = (SANDBOX + NOTIFICATIONS + MORE).format_map(values)
    return first + _endpoints(operations(document)) + _errors(document) + last


def full(document: Mapping[str, Any]) -> str:
    """The summary, followed by every field and example."""
    return "".join(
        [
            short(document),
            "\n## Endpoints in detail\n\n",
            *map(_operation, operations(document)),
            "## Notifications in detail\n\n",
            *map(_notice, notices(document)),
        ]
    )


def _endpoints(known: Sequence[Operation]) -> str:
    lines = [f"- `{one.method} {one.path}`: {one.description}" for one in known]
    return "\n".join(["## Endpoints", "", *lines, "", ""])


def _errors(document: Any) -> str:
    found: dict[tuple[str, str], dict[str, None]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                for code, text in REFUSAL.findall(response["description"]):
                    found.setdefault((status, code), {})[text] = None
    rows = "\n".join(
        f"| {status} | `{code}` | {' Or: '.join(texts)} |"
        for (status, code), texts in sorted(found.items())
    )
    return ERRORS.replace("ROWS", rows)


def _operation(operation: Operation) -> str:
    lines = [f"### {operation.method} {operation.path}", "", operation.description, ""]
    if operation.body is not None:
        lines += _fields(operation.body)
    for name, text in operation.requests.items():
        lines += [f"Request, {name}:", "", *_code(text)]
    for name, text in operation.examples.items():
        lines += [f"Response, {name}:", "", *_code(text)]
    return "\n".join([*lines, ""])


def _notice(notice: Operation) -> str:
    lines = [f"### {notice.slug}", "", f"{notice.title}.", ""]
    for name, text in notice.requests.items():
        lines += [f"{name}:", "", *_code(text)]
    return "\n".join([*lines, ""])


def _fields(body: DocumentedBody) -> list[str]:
    rows = [
        f"| `{field.name}` | {'yes' if field.is_required else 'no'} | {field.description} |"
        for field in body.fields
        if field.depth == 0
    ]
    return ["| Field | Required | |", "|---|---|---|", *rows, ""]


def _code(text: str) -> list[str]:
    return ["```json", text, "```", ""]
