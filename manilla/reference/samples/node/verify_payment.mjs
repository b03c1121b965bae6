// Verifies a payment: verify_payment.mjs TRX_ID. Needs Node 18 or newer, no packages.
import { createHmac } from "node:crypto";

const { MANILLA_URL, MANILLA_MERCHANT_KEY, MANILLA_API_KEY, MANILLA_API_SECRET } = process.env;

function sign(timestamp, method, target, body) {
  const signed = `${timestamp}.${method}.${target}.${body}`;
  return createHmac("sha256", MANILLA_API_SECRET).update(signed).digest("hex");
}

async function get(target) {
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const headers = {
    Accept: "application/json",
    "X-Environment": "sandbox",
    "X-Merchant-Key": MANILLA_MERCHANT_KEY,
    "X-API-Key": MANILLA_API_KEY,
    "X-Timestamp": timestamp,
    "X-Signature": sign(timestamp, "GET", target, ""),
  };
  const response = await fetch(MANILLA_URL + target, { headers, signal: AbortSignal.timeout(30_000) });
  return response.text();
}

const answer = await get(`/api/v1/verify-payment/${process.argv[2]}`);
console.log(answer);
// Fulfill the order only on success, and only if amount and currency match your order.
if (JSON.parse(answer).status !== "success") process.exitCode = 1;
