"""The Postman script signs requests as the API expects. The tests mock Postman."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.samples.languages import SAMPLES, skip_without

SCRIPT = SAMPLES / "postman" / "sign.js"

# The script mocks the objects that Postman passes to a script, and prints the signed request.
POSTMAN = """
const crypto = require("node:crypto");
const given = JSON.parse(process.argv[1]);
const hashing = {
  enc: { Hex: "hex" },
  HmacSHA256: (text, key) => crypto.createHmac("sha256", key).update(text),
};
crypto.Hmac.prototype.toString = function (encoding) { return this.digest(encoding); };
const done = { headers: {}, body: given.body };
const pm = {
  variables: {
    get: (name) => given.variables[name],
    replaceIn: (text) => text.replace(/{{(\\w+)}}/g, (_, name) => given.variables[name]),
  },
  request: {
    method: given.method,
    url: { getPathWithQuery: () => given.path },
    body: { mode: "raw", raw: given.body, update: (body) => { done.body = body.raw; } },
    headers: { upsert: ({ key, value }) => { done.headers[key] = value; } },
  },
};
Date.now = () => given.timestamp * 1000;
new Function("require", "pm", given.script)(() => hashing, pm);
console.log(JSON.stringify(done));
"""


def run(**given: Any) -> Any:
    skip_without("node")
    given["script"] = SCRIPT.read_text()
    ran = subprocess.run(
        ["node", "-e", POSTMAN, json.dumps(given)], capture_output=True, check=True, timeout=60
    )
    return json.loads(ran.stdout)


@pytest.mark.long
def test_the_script_signs_as_the_test_vectors_do(project: Path) -> None:
    for vector in json.loads((project / "clients/contract/signatures.json").read_bytes()):
        keys = {"merchant_key": "test_m", "api_key": "test_k", "api_secret": vector["secret"]}
        request = {name: vector[name] for name in ("method", "path", "timestamp", "body")}
        assert run(**request, variables=keys)["headers"] == {
            "X-Merchant-Key": "test_m",
            "X-API-Key": "test_k",
            "X-Timestamp": vector["timestamp"],
            "X-Signature": vector["signature"],
        }


@pytest.mark.long
def test_variables_are_replaced_before_the_body_is_signed_and_sent() -> None:
    keys = {"merchant_key": "m", "api_key": "k", "api_secret": "s"}
    request = {"method": "POST", "path": "/api/v1/initiate-payment", "timestamp": "1767323045"}
    plain = run(**request, body='{"ref_trx":"ORDER-1"}', variables=keys)
    replaced = run(**request, body='{"ref_trx":"{{ref}}"}', variables={**keys, "ref": "ORDER-1"})
    assert replaced == plain


def test_the_script_declares_no_name_that_postman_declares() -> None:
    """Declaring a name twice would be an error, and the script would sign no request."""
    declared = set(re.findall(r"\b(?:const|let|class|function) (\w+)", SCRIPT.read_text()))
    assert declared.isdisjoint({"CryptoJS", "crypto", "pm", "postman", "request", "_", "xml2Json"})
