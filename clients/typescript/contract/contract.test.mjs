// Runs the contract of all clients with the TypeScript client: see `clients/contract/README.md`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import * as library from "../dist/index.js";
import { errorClass } from "../dist/conversation.js";
import { completeRetries, waitSeconds } from "../dist/retries.js";

const RECEIVE_SECONDS = 60;
const FOLDER = new URL("../../contract/", import.meta.url);
const CONTRACT_URL = process.env.MANILLA_CONTRACT_URL;
const FUNCTIONS = { verify_ipn: library.verifyIpn, verify_webhook: library.verifyWebhook };

const read = (name) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
const get = async (path) => (await fetch(CONTRACT_URL + path)).json();
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const camelKeys = (object) =>
  Object.fromEntries(Object.entries(object ?? {}).map(([name, value]) => [camel(name), value]));
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns a value of the neutral form as the client expects it. */
function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (!isObject(value)) return value;
  if ("$bytes" in value) return new TextEncoder().encode(value.$bytes);
  for (const tag of ["$amount", "$float", "$time"]) if (tag in value) return value[tag];
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, decoded(part)]));
}

/** Compares the fields that the case names. */
function compare(expected, found, where = "") {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(found), `${where} is not a list`);
    assert.equal(found.length, expected.length, `the length of ${where}`);
    expected.forEach((part, number) => compare(part, found[number], `${where}.${number}`));
  } else if (isObject(expected) && "$amount" in expected) {
    assert.equal(found, expected.$amount, where);
  } else if (isObject(expected) && "$bytes" in expected) {
    assert.deepEqual(found, new TextEncoder().encode(expected.$bytes), where);
  } else if (isObject(expected) && "$time" in expected) {
    assert.equal(Date.parse(found), Date.parse(expected.$time), where);
  } else if (isObject(expected)) {
    assert.ok(isObject(found), `${where} is ${found}`);
    for (const [name, part] of Object.entries(expected)) compare(part, found[name], `${where}.${name}`);
  } else {
    assert.equal(found, expected, where);
  }
}

async function checkOutcome(outcome, act) {
  let result;
  try {
    result = await act();
  } catch (error) {
    if (!outcome.error) throw error;
    checkError(outcome.error, error);
    return undefined;
  }
  assert.equal(outcome.error, undefined, `no error, but ${JSON.stringify(result)}`);
  if ("returns" in outcome) compare(outcome.returns, result);
  if ("fields" in outcome) compare(outcome.fields, result);
  return result;
}

function checkError(expected, error) {
  const { class: name, parents = [], error_names: names, shown, message, ...attributes } = expected;
  if (name === "$argument") {
    assert.ok(error instanceof TypeError || error instanceof RangeError, String(error));
    return;
  }
  assert.equal(error.constructor.name, name, String(error));
  assert.equal(error.name, name);
  for (const parent of parents) assert.ok(error instanceof library[parent], parent);
  if (names) assert.deepEqual(Object.keys(error.errors).sort(), names);
  if (shown) assert.equal(error.message, shown);
  if (message) assert.equal(error.apiMessage, message);
  compare(camelKeys(attributes), error);
}

async function call(client, { call: name, id, order, options }) {
  const words = [decoded(id), decoded(order), options && camelKeys(options)].flat();
  const result = client[camel(name)](...words.filter((word) => word !== undefined));
  return Symbol.asyncIterator in result ? collected(result) : result;
}

async function collected(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

test("signatures", async (t) => {
  for (const vector of read("signatures.json")) {
    await t.test(vector.name, async () => {
      const { secret, timestamp, method, path, body, signature } = vector;
      const raw = new TextEncoder().encode(body);
      const made = await library.signRequest(secret, Number(timestamp), method, path, raw);
      assert.equal(made, signature);
    });
  }
});

test("notifications", async (t) => {
  for (const each of read("notifications.json")) {
    await t.test(each.name, () =>
      checkOutcome(each, () => {
        const options = { toleranceSeconds: each.tolerance_seconds };
        const raw = new TextEncoder().encode(each.body);
        return FUNCTIONS[each.function](raw, each.headers, each.secret, options);
      }),
    );
  }
});

test("waits", async (t) => {
  for (const each of read("waits.json")) {
    await t.test(JSON.stringify(each), () => {
      const retries = completeRetries(camelKeys(each.retries));
      const waits = Array.from({ length: 50 }, () =>
        waitSeconds(retries, each.attempts, each.retry_after_seconds),
      );
      if (each.wait_seconds === null) return assert.ok(waits.every((wait) => wait === null));
      const [shortest, longest] = each.wait_seconds;
      assert.ok(waits.every((wait) => shortest <= wait && wait <= longest), String(waits));
      return assert.ok(new Set(waits).size > 1, "the waits are not random");
    });
  }
});

test("amounts", () => {
  const { minor, formatted, rejected } = read("amounts.json");
  for (const each of minor) {
    assert.equal(library.toMinor(each.amount, each.decimals), BigInt(each.minor));
  }
  for (const each of formatted) {
    assert.equal(library.fromMinor(BigInt(each.minor), each.decimals), each.amount);
  }
  for (const each of rejected) {
    assert.throws(() => library.toMinor(each.amount, each.decimals), RangeError, each.amount);
  }
});

test("connections", () => {
  for (const { text, returns } of read("connections.json")) {
    if (!returns) {
      assert.throws(() => library.readShopConnection(text), TypeError, text);
      continue;
    }
    const found = library.readShopConnection(text);
    assert.deepEqual(returns, {
      url: found.url,
      environment: found.environment,
      merchant_key: found.credentials.merchantKey,
      webhook_endpoint: found.webhookEndpoint,
      webhook_secret: found.webhookSecret,
    });
  }
});

test("error classes", () => {
  const described = read("errors.json");
  for (const { class: name, parent, codes = [], advice } of described.classes) {
    const kind = library[name];
    if (parent) assert.equal(Object.getPrototypeOf(kind), library[parent]);
    for (const code of codes) assert.equal(errorClass(422, code), kind);
    if (advice) assert.equal(kind.advice, advice);
  }
  for (const [status, name] of Object.entries(described.by_status)) {
    assert.equal(errorClass(Number(status), undefined), library[name]);
  }
});

test("scripted cases", async (t) => {
  for (const each of await get("/cases")) {
    await t.test(each.name, () => {
      const credentials = {
        merchantKey: `test_${each.name}`,
        apiKey: "test_api_key",
        apiSecret: "test_api_secret",
      };
      const retries = camelKeys(each.retries);
      const client = new library.Client(CONTRACT_URL, credentials, { retries });
      return checkOutcome(each, () => call(client, each));
    });
  }
  await t.test("report", async () => {
    assert.deepEqual(await get("/report"), { violations: [], missing: [] });
  });
});

const skip = process.env.MANILLA_URL ? false : "MANILLA_URL is not set";

test("live cases", { skip }, async (t) => {
  for (const { name, steps } of read("live.json")) {
    await t.test(name, async () => {
      const saved = {};
      for (const step of steps) {
        if (step.let) Object.assign(saved, resolved(step.let, saved));
        else if (step.receive) await checkReceived(resolved(step, saved));
        else await checkStep(resolved(step, saved), saved);
      }
    });
  }
});

async function checkStep(step, saved) {
  const credentials = {
    merchantKey: process.env.MANILLA_MERCHANT_KEY,
    apiKey: process.env.MANILLA_API_KEY,
    apiSecret: process.env.MANILLA_API_SECRET,
    ...camelKeys(step.credentials),
  };
  const client = new library.Client(process.env.MANILLA_URL, credentials);
  const result = await checkOutcome(step, () => call(client, step));
  for (const [name, path] of Object.entries(step.save ?? {})) saved[name] = atPath(result, path);
}

async function checkReceived(step) {
  const deadline = Date.now() + RECEIVE_SECONDS * 1000;
  while (Date.now() < deadline) {
    for (const message of await get(`/received${step.receive}`)) {
      const found = await FUNCTIONS[step.function](message.body, message.headers, step.secret).catch(
        (error) => {
          if (error instanceof library.BadNotification) return null;
          throw error;
        },
      );
      if (found?.trx_id === step.trx_id) return compare(step.returns, found);
    }
    await pause(100);
  }
  return assert.fail(`no notification about ${step.trx_id} arrived`);
}

/** Replaces the values that are only known while the live cases run. */
function resolved(value, saved) {
  if (Array.isArray(value)) return value.map((part) => resolved(part, saved));
  if (!isObject(value)) return value;
  if ("$saved" in value) return saved[value.$saved];
  if ("$unique" in value) return value.$unique + randomUUID().replaceAll("-", "").slice(0, 20);
  if ("$receiver" in value) return `${CONTRACT_URL}/receive${value.$receiver}`;
  if ("$api_secret" in value) return process.env.MANILLA_API_SECRET;
  const entries = Object.entries(value).map(([name, part]) => [name, resolved(part, saved)]);
  return Object.fromEntries(entries);
}

function atPath(value, path) {
  return path.split(".").reduce((found, segment) => {
    const [name, wanted] = segment.split("=");
    return wanted === undefined ? found[name] : found.find((item) => item[name] === wanted);
  }, value);
}
