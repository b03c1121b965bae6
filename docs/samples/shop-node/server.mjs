// A shop that takes payments with Manilla. See ../README.md for how to start it.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

// In an application, install the package and import from "manilla-client".
import { BadNotification, Client, toMinor, verifyIpn } from "../../../clients/typescript/dist/index.js";

const { MANILLA_URL, MANILLA_API_SECRET, PORT = "9000" } = process.env;
const SHOP_URL = process.env.SHOP_URL ?? `http://127.0.0.1:${PORT}`;
const PRICE = "7250.50";
const CURRENCY = "NGN";
const BODY_BYTES_MAX = 100_000;

const client = Client.fromEnvironment();
// Maps order references to transaction ids, as a database would: null before the id is known.
const orders = new Map();
const delivered = new Set();

// Creates an order and its payment. The price comes from the server, not from the browser.
async function buy() {
  const reference = `ORDER-${randomBytes(8).toString("hex")}`;
  const orderUrl = `${SHOP_URL}/orders/${reference}`;
  orders.set(reference, null); // Before the call: a notification can arrive before the response.
  const session = await client.initiatePayment({
    payment_amount: PRICE,
    currency_code: CURRENCY,
    ref_trx: reference,
    description: "A calabash lamp",
    success_redirect: orderUrl,
    cancel_redirect: orderUrl,
    ipn_url: `${SHOP_URL}/ipn`,
  }, { idempotencyKey: reference });
  orders.set(reference, session.trx_id);
  return { order_url: `/orders/${reference}`, payment_url: session.payment_url };
}

// Asks Manilla whether the order is paid, and delivers a paid order exactly once.
async function isPaid(reference, trxId) {
  if (delivered.has(reference) || trxId === null) return delivered.has(reference);
  const payment = await client.verifyPayment(trxId);
  // Only success is final: money that arrives late can still turn a failed payment into success.
  if (payment.status !== "success" || payment.currency !== CURRENCY) return false;
  if (toMinor(payment.amount) !== toMinor(PRICE)) return false;
  // Another request may have delivered the order during the call.
  if (!delivered.has(reference)) {
    delivered.add(reference);
    console.log("Deliver", reference);
  }
  return true;
}

async function receiveNotification(request) {
  const body = await read(request);
  try {
    const ipn = await verifyIpn(body, request.headers, MANILLA_API_SECRET);
    if (ipn.event !== "payment") return 200;
    // Manilla retries after a 404, and shows the failed notification.
    if (!orders.has(ipn.ref_trx)) return 404;
    await isPaid(ipn.ref_trx, ipn.trx_id);
    return 200;
  } catch (error) {
    if (error instanceof BadNotification) return 401;
    throw error;
  }
}

async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX) throw new Error("The body is too large.");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function show(response, name, values) {
  let text = readFileSync(new URL(`../shop-pages/${name}`, import.meta.url), "utf8");
  for (const [key, value] of Object.entries({ price: `${CURRENCY} ${PRICE}`, ...values })) {
    text = text.replaceAll(`{{ ${key} }}`, value);
  }
  response.writeHead(200, { "Content-Type": "text/html" }).end(text);
}

async function respond(request, response) {
  // Checkout appends ?trx_id=… to the path. The shop does not use it, because anybody can.
  const path = request.url.split("?")[0];
  const reference = path.replace("/orders/", "");
  const route = `${request.method} ${path}`;
  if (route === "GET /") show(response, "product.html", { manilla_url: MANILLA_URL });
  else if (route === "POST /buy") response.end(JSON.stringify(await buy()));
  else if (route === "POST /ipn") response.writeHead(await receiveNotification(request)).end();
  else if (request.method === "GET" && orders.has(reference)) {
    const status = (await isPaid(reference, orders.get(reference))) ? "paid" : "not paid yet";
    show(response, "order.html", { reference, status });
  } else response.writeHead(404).end();
}

createServer((request, response) => respond(request, response).catch((error) => {
  console.error(error);
  response.writeHead(500).end();
})).listen(Number(PORT), "127.0.0.1", () => console.log(`The shop is open at ${SHOP_URL}.`));
