// Rules of the TypeScript client that the contract of all clients does not cover.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { inspect } from "node:util";

import {
  BadNotification,
  Client,
  fromMinor,
  NoAnswer,
  signIpn,
  toMinor,
  verifyIpn,
} from "manilla-client";
import { ExactNumber, parseExact } from "../dist/exact-json.js";

const KEYS = { merchantKey: "test_key", apiKey: "test_api", apiSecret: "test_secret" };
const ORDER = {
  payment_amount: "1500.50",
  currency_code: "NGN",
  ref_trx: "ORDER-1",
  success_redirect: "https://shop.example/paid",
  cancel_redirect: "https://shop.example/basket",
  ipn_url: "https://shop.example/ipn",
};

/** Runs a server that answers each request with the next of these functions. */
async function serving(t, ...answers) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push({ url: request.url, headers: request.headers, body });
    answers.shift()(response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

const json = (document) => (response) => response.end(JSON.stringify(document));

test("an amount can be given in minor units", async (t) => {
  const answer = json({ error: "No.", error_code: "NO" });
  const refuse = (response) => answer(response.writeHead(422));
  const { url, requests } = await serving(t, refuse, refuse);
  const client = new Client(url, KEYS);
  for (const [given, sent] of [
    [{ minor: 150050 }, "1500.50"],
    [{ minor: 9007199254740993n, decimals: 3 }, "9007199254740.993"],
  ]) {
    await assert.rejects(client.initiatePayment({ ...ORDER, payment_amount: given }));
    assert.match(requests.pop().body, new RegExp(`"payment_amount":${sent.replace(".", "\\.")},`));
  }
});

test("a number is never an amount", async () => {
  const fetch = () => assert.fail("a request was sent");
  const client = new Client("https://pay.example", KEYS, { fetch });
  for (const wrong of [1500.5, 1500, Number.NaN, 1500n, true, { minor: 0.5 }, { minor: 2 ** 53 }]) {
    const act = client.initiatePayment({ ...ORDER, payment_amount: wrong });
    await assert.rejects(act, (error) => error instanceof TypeError || error instanceof RangeError);
  }
  assert.equal(toMinor(fromMinor(-9007199254740993n)), -9007199254740993n);
});

test("every list has an iterator that requests all pages", async (t) => {
  const link = {
    ...{ id: "PL1", url: "https://pay.example/pay/1", status: "active", title: "Donation" },
    ...{ amount: null, currency_code: "NGN", description: null, expires_at: null },
    ...{ single_use: false, success_redirect: null, paid_count: 0, paid_amount: 0 },
    created_at: "2026-11-14T10:27:14.567000Z",
  };
  const { url, requests } = await serving(
    t,
    json({ data: [link], next_cursor: "next" }),
    json({ data: [{ ...link, id: "PL2" }], next_cursor: null }),
    json({ data: [], next_cursor: null }),
    json({ data: [], next_cursor: null }),
  );
  const client = new Client(url, KEYS);
  const found = [];
  for await (const each of client.paymentLinks({ status: "active" })) found.push(each.id);
  for await (const each of client.events({ since: new Date(0) })) found.push(each.id);
  for await (const each of client.webhookEndpoints()) found.push(each.id);
  assert.deepEqual(found, ["PL1", "PL2"]);
  assert.deepEqual(
    requests.map((each) => each.url),
    [
      "/api/v1/payment-links?limit=100&status=active",
      "/api/v1/payment-links?limit=100&status=active&cursor=next",
      "/api/v1/events?limit=100&since=1970-01-01T00%3A00%3A00.000Z",
      "/api/v1/webhook-endpoints?limit=100",
    ],
  );
});

test("an iterator that is left early requests no more pages", async (t) => {
  const line = {
    ...{ trx_id: "TXN1", ref_trx: null, kind: "funding", amount: 1, balance_after: 1 },
    ...{ currency_code: "NGN", created_at: "2026-11-14T10:27:14.567000Z" },
  };
  const { url, requests } = await serving(t, json({ data: [line], next_cursor: "next" }));
  for await (const each of new Client(url, KEYS).balanceTransactions()) {
    assert.equal(each.amount, "1");
    break;
  }
  assert.equal(requests.length, 1);
});

test("a server that does not respond is a NoAnswer", async (t) => {
  const { url } = await serving(t, () => {});
  const client = new Client(url, KEYS, { timeoutSeconds: 0.2, retries: { attemptsMax: 1 } });
  await assert.rejects(client.siteInfo(), (error) => {
    assert.ok(error instanceof NoAnswer);
    return assert.match(error.message, /within 0\.2 seconds/) ?? true;
  });
});

test("incomplete or mixed credentials and impossible URLs are rejected", () => {
  const url = "https://pay.example";
  assert.equal(new Client(url, KEYS).environment, "sandbox");
  const production = { merchantKey: "key", apiKey: "api", apiSecret: "secret" };
  assert.equal(new Client(url, production).environment, "production");
  for (const wrong of [{ ...KEYS, apiKey: "" }, { ...KEYS, apiSecret: "secret" }]) {
    assert.throws(() => new Client(url, wrong), TypeError);
  }
  for (const wrong of ["", "pay.example", "ftp://pay.example", "https://pay.example/v1"]) {
    assert.throws(() => new Client(wrong, KEYS), TypeError);
  }
  assert.throws(() => new Client(url, KEYS, { retries: { attemptsMax: 0 } }), RangeError);
});

test("credentials that cannot be a header are rejected and not shown", () => {
  for (const name of Object.keys(KEYS)) {
    for (const added of ["\n", "\r\nX-Other: 1", " ", "é"]) {
      const credentials = { ...KEYS, [name]: `test_hidden${added}` };
      assert.throws(() => new Client("https://pay.example", credentials), (error) => {
        assert.ok(error instanceof TypeError);
        return assert.doesNotMatch(error.message, /hidden/) ?? true;
      });
    }
  }
});

test("impossible times are rejected", async () => {
  const url = "https://pay.example";
  for (const seconds of [-1, Infinity, NaN]) {
    for (const retries of [{ waitSecondsMax: seconds }, { firstWaitSeconds: seconds }]) {
      assert.throws(() => new Client(url, KEYS, { retries }), RangeError);
    }
  }
  for (const timeoutSeconds of [0, -1, Infinity, NaN]) {
    assert.throws(() => new Client(url, KEYS, { timeoutSeconds }), RangeError);
  }
  const fetch = () => assert.fail("a request was sent");
  for (const timeoutSeconds of [-1, NaN]) {
    const act = new Client(url, KEYS, { fetch }).waitForPayment("TXN1", { timeoutSeconds });
    await assert.rejects(act, RangeError);
  }
});

test("impossible options, keys and ids are not sent", async () => {
  const fetch = () => assert.fail("a request was sent");
  const client = new Client("https://pay.example", KEYS, { fetch });
  for (const options of [
    { idempotencyKey: null },
    { idempotencyKey: { toString: () => "key" } },
    { idempotencyKey: 7 },
    { idempotency_key: "key" },
    null,
  ]) {
    await assert.rejects(client.initiatePayment(ORDER, options), TypeError);
  }
  for (const id of [undefined, null, "", ".", "..", 7]) {
    await assert.rejects(client.getPaymentLink(id), TypeError);
  }
});

test("a printed client shows no secret", () => {
  const client = new Client("https://pay.example", KEYS);
  const printed = inspect(client, { depth: 9, showHidden: true }) + JSON.stringify(client);
  assert.doesNotMatch(printed, /test_secret|test_api/);
});

test("notifications can be signed to test a receiver, with headers of any kind", async () => {
  const body = '{"event":"payment","status":"completed","data":{"trx_id":"TXN1","amount":1.10}}';
  const sent = await signIpn(body, "test_secret", { id: "msg_1", environment: "sandbox" });
  const lowered = Object.fromEntries(
    Object.entries(sent).map(([name, value]) => [name.toLowerCase(), [value]]),
  );
  for (const headers of [sent, new Headers(sent), Object.entries(sent), lowered]) {
    const found = await verifyIpn(new TextEncoder().encode(body), headers, "test_secret");
    assert.deepEqual([found.id, found.amount, found.is_sandbox], ["msg_1", "1.10", true]);
  }
});

test("a signed notification with an odd body is a BadNotification or a notification", async () => {
  const accepted = [
    '{"event":"payment","status":"completed","data":{"trx_id":"TXN1","constructor":1,"later":1e99999}}',
    '{"event":"toString","status":"completed","data":{"trx_id":"TXN1","__proto__":{"a":1}}}',
    '{"event":"","status":"completed","timestamp":1e3,"data":{"trx_id":"TXN1","refund_trx_id":[]}}',
    '{"event":"payout","status":"completed","data":{"trx_id":"TXN1","withdraw_method_id":1.5}}',
  ];
  const rejected = [
    "[]",
    "1e99999",
    '{"event":"payment","status":"completed","data":{"trx_id":"TXN1","amount":1e99999}}',
    '{"event":"payment","status":"completed","data":[]}',
    '{"event":{},"status":"completed","data":{"trx_id":"TXN1"}}',
    `{"event":"payment","status":"${"\\x"}","data":{"trx_id":"TXN1"}}`,
    `${"[".repeat(100_000)}`,
  ];
  for (const body of [...accepted, ...rejected]) {
    const sent = await signIpn(body, "test_secret", { id: "msg_1", environment: "sandbox" });
    const act = verifyIpn(body, sent, "test_secret");
    if (accepted.includes(body)) assert.equal((await act).trx_id, "TXN1", body);
    else await assert.rejects(act, BadNotification, body);
  }
});

test("integers in a notification are numbers, and all other numbers are texts", async () => {
  const data = '{"trx_id":"TXN1","payout_amount":5,"withdraw_method_id":6,"later":[1.50,{"a":2}]}';
  const body = `{"event":"payout","status":"completed","data":${data}}`;
  const sent = await signIpn(body, "test_secret", { id: "msg_1", environment: "sandbox" });
  const found = await verifyIpn(body, sent, "test_secret");
  assert.deepEqual(found.data, {
    trx_id: "TXN1",
    payout_amount: "5",
    withdraw_method_id: 6,
    later: ["1.50", { a: "2" }],
  });
});

test("JSON is parsed as JSON.parse does, but with exact numbers", () => {
  const rounded = (value) => {
    if (value instanceof ExactNumber) return Number(value.text);
    if (Array.isArray(value)) return value.map(rounded);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, rounded(part)]));
  };
  const valid = [
    "{}",
    " [ ] ",
    "null",
    '"\\u00e9\\n\\ud83c\\udf89 \\"\\\\/"',
    '{"a":[1,-0,0.5,1e3,1E-2,true,false,null,"x"],"b":{"c":{}},"a":2}',
    "-12.50",
  ];
  for (const text of valid) assert.deepEqual(rounded(parseExact(text)), JSON.parse(text), text);
  const invalid = ["", "{", "[1,]", "{,}", '{"a"}', "01", "1.", ".5", "+1", "NaN", "nul", "'a'"];
  for (const text of [...invalid, '"\n"', '"\\x"', "[1] 2", "1e", '{"a":1,}', "-", "[".repeat(300)]) {
    assert.throws(() => parseExact(text), SyntaxError, text);
  }
  assert.equal(parseExact('{"__proto__":{"a":1}}').a, undefined);
});

test("a number with an exponent is a decimal text", () => {
  const decimals = { "1e3": "1000", "1.5E+1": "15", "-25e-1": "-2.5", "5e-3": "0.005", "1.50": "1.50" };
  for (const [text, decimal] of Object.entries(decimals)) {
    assert.equal(parseExact(text).decimal, decimal);
  }
  assert.equal(parseExact("1e999999999").decimal, null);
});
