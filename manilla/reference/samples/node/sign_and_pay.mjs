// Signs a request and creates a payment. Needs Node 18 or newer, no packages.
import { createHmac, randomUUID } from "node:crypto";

const { MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY, MANILLA_API_SECRET } = process.env;

function sign(timestamp, method, target, body) {
  const signed = `${timestamp}.${method}.${target}.${body}`;
  return createHmac("sha256", MANILLA_API_SECRET).update(signed).digest("hex");
}

async function post(target, body, idempotencyKey) {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json",
    "X-Environment": "sandbox",
    "X-Merchant-Key": MANILLA_MERCHANT_KEY,
    "X-API-Key": MANILLA_API_KEY,
    "X-Timestamp": timestamp,
    "X-Signature": sign(timestamp, "POST", target, body),
    "Idempotency-Key": idempotencyKey, // makes a retry safe
  };
  const signal = AbortSignal.timeout(30_000);
  const response = await fetch(MANILLA_URL + target, { method: "POST", headers, body, signal });
  if (!response.ok) process.exitCode = 1;
  return response.text();
}

const shop = process.env.SHOP_URL ?? "https://shop.example";
const amount = "1500.50"; // from your books, as text: a Number would round large amounts
const order = {
  currency_code: "NGN",
  ref_trx: `ORDER-${randomUUID()}`,
  success_redirect: `${shop}/paid`,
  cancel_redirect: `${shop}/basket`,
  ipn_url: `${shop}/ipn`,
};
// JSON.stringify cannot write exact decimals, so the amount is inserted as text.
const body = `{"payment_amount": ${amount}, ${JSON.stringify(order).slice(1)}`;
console.log(await post("/api/v1/initiate-payment", body, order.ref_trx));
