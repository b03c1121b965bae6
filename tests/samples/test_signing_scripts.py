"""The scripts for Postman and Bruno sign requests as the API expects. The tests mock both."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.samples.languages import SAMPLES, skip_without

PROGRAMS = ("postman", "bruno")

# Mocks the objects that Postman and Bruno pass to a script, and prints the signed request.
MOCKS = """
const crypto = require("node:crypto");
const given = JSON.parse(process.argv[1]);
const hashing = {
  enc: { Hex: "hex" },
  HmacSHA256: (text, key) => crypto.createHmac("sha256", key).update(text),
};
crypto.Hmac.prototype.toString = function (encoding) { return this.digest(encoding); };
const done = { headers: {}, body: given.body };
const replaceIn = (text) => text.replace(/{{(\\w+)}}/g, (_, name) => given.variables[name]);
const pm = {
  variables: { get: (name) => given.variables[name], replaceIn },
  request: {
    method: given.method,
    url: { getPathWithQuery: () => given.path },
    body: { mode: "raw", raw: given.body, update: (body) => { done.body = body.raw; } },
    headers: { upsert: ({ key, value }) => { done.headers[key] = value; } },
  },
};
const bru = { interpolate: replaceIn };
const req = {
  getUrl: () => given.path,
  setUrl: (url) => { given.path = url; },
  getPath: () => given.path.split("?")[0],
  getMethod: () => given.method,
  getBody: () => given.body,
  setBody: (body) => { done.body = body; },
  setHeader: (name, value) => { done.headers[name] = value; },
};
Date.now = () => given.timestamp * 1000;
new Function("require", "pm", "req", "bru", given.script)(() => hashing, pm, req, bru);
console.log(JSON.stringify(done));
"""


def script(program: str) -> str:
    return (SAMPLES / program / "sign.js").read_text()


def run(program: str, **given: Any) -> Any:
    skip_without("node")
    given["script"] = script(program)
    ran = subprocess.run(
        ["node", "-e", MOCKS, json.dumps(given)], capture_output=True, check=True, timeout=60
    )
    return json.loads(ran.stdout)


def bruno_can_send(vector: Any) -> bool:
    """Bruno encodes the URL itself, sends no lone question mark, and trims the body."""
    path, body = vector["path"], vector["body"]
    return "%" not in path and not path.endswith("?") and body == body.strip()


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_script_signs_as_the_test_vectors_do(program: str, project: Path) -> None:
    for vector in json.loads((project / "clients/contract/signatures.json").read_bytes()):
        if program == "bruno" and not bruno_can_send(vector):
            continue
        keys = {"merchant_key": "test_m", "api_key": "test_k", "api_secret": vector["secret"]}
        request = {name: vector[name] for name in ("method", "path", "timestamp", "body")}
        headers = run(program, **request, variables=keys)["headers"]
        assert headers.pop("X-Environment", "sandbox") == "sandbox"
        assert headers == {
            "X-Merchant-Key": "test_m",
            "X-API-Key": "test_k",
            "X-Timestamp": vector["timestamp"],
            "X-Signature": vector["signature"],
        }


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_variables_are_replaced_before_the_body_is_signed_and_sent(program: str) -> None:
    keys = {"merchant_key": "m", "api_key": "k", "api_secret": "s", "ref": "ORDER-1"}
    request = {"method": "POST", "path": "/api/v1/initiate-payment", "timestamp": "1767323045"}
    bodies = ('{"ref_trx":"ORDER-1"}', '{"ref_trx":"{{ref}}"}')
    plain, replaced = (run(program, **request, body=body, variables=keys) for body in bodies)
    assert replaced == plain


def test_the_postman_script_declares_no_name_that_postman_declares() -> None:
    """Declaring a name twice would be an error, and the script would sign no request."""
    declared = set(re.findall(r"\b(?:const|let|class|function) (\w+)", script("postman")))
    assert declared.isdisjoint({"CryptoJS", "crypto", "pm", "postman", "request", "_", "xml2Json"})
