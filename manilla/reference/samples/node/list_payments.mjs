// Lists payments page by page: list_payments.mjs QUERY, such as limit=100. Needs Node 18 or newer.
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
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return answer;
}

const target = `/api/v1/payments?${process.argv[2]}`;
let cursor = "";
while (cursor !== null) { // on the last page, next_cursor is null
  const page = JSON.parse(await get(target + (cursor && `&cursor=${cursor}`)));
  for (const payment of page.data) console.log(payment.created_at, payment.trx_id, payment.status);
  cursor = page.next_cursor;
}
