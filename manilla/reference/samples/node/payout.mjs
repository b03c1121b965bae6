// Finds a method and sends a payout. Needs Node 18 or newer, no packages.
import { createHmac, randomUUID } from "node:crypto";

const { MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY, MANILLA_API_SECRET } = process.env;

function sign(timestamp, method, target, body) {
  const signed = `${timestamp}.${method}.${target}.${body}`;
  return createHmac("sha256", MANILLA_API_SECRET).update(signed).digest("hex");
}

async function call(method, target, body = "", more = {}) {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json",
    "X-Environment": "sandbox",
    "X-Merchant-Key": MANILLA_MERCHANT_KEY,
    "X-API-Key": MANILLA_API_KEY,
    "X-Timestamp": timestamp,
    "X-Signature": sign(timestamp, method, target, body),
    ...more,
  };
  const response = await fetch(MANILLA_URL + target, {
    method,
    headers,
    body: body || undefined,
    signal: AbortSignal.timeout(30_000),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return answer;
}

// Identify methods by their code, because ids differ between installations.
const { methods } = JSON.parse(await call("GET", "/api/v1/payout-methods?currency=NGN"));
const method = methods.find((each) => each.method_code === "providera_ngn_transfer");

const shop = process.env.SHOP_URL ?? "https://shop.example";
const amount = "5000.25"; // from your books, as text: a Number would round large amounts
const order = {
  currency_code: "NGN",
  ref_trx: `PAYOUT-${randomUUID()}`,
  ipn_url: `${shop}/ipn`,
  withdraw_method_id: method.id,
  beneficiary: { bank_code: "058", account_number: "0000000000" },
};
// JSON.stringify cannot write exact decimals, so the amount is inserted as text.
const body = `{"payout_amount": ${amount}, ${JSON.stringify(order).slice(1)}`;
// The Idempotency-Key makes it safe to retry this request after a timeout.
console.log(await call("POST", "/api/v1/initiate-payout", body, { "Idempotency-Key": order.ref_trx }));
