// Refunds a payment and verifies the refund: refund.mjs TRX_ID. Needs Node 18 or newer.
import { createHmac } from "node:crypto";

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

const payment = process.argv[2];
const reference = `REFUND-${payment}`; // one for each refund: a retry never refunds twice
// If `amount` is omitted, the remaining amount is refunded.
const body = JSON.stringify({ trx_id: payment, ref_trx: reference });
const key = { "Idempotency-Key": reference };
const refund = JSON.parse(await call("POST", "/api/v1/initiate-refund", body, key));

const answer = await call("GET", `/api/v1/verify-refund/${refund.trx_id}`);
console.log(answer);
// If the refund is still pending, wait for the notification, or verify it again later.
if (JSON.parse(answer).status === "failed") process.exitCode = 1;
