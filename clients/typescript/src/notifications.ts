/** Verifies that a notification (IPN) or a webhook was sent by Manilla, and parses it. */

import {
  bytes,
  fromBase64,
  fromHex,
  hmac,
  hmacMatches,
  joined,
  toBase64,
  toHex,
  type Bytes,
} from "./crypto.js";
import { BadNotification, NotificationTooOld, SignatureMismatch } from "./errors.js";
import { ExactNumber, parseExact } from "./exact-json.js";
import { SHAPES } from "./generated/shapes.js";
import { isObject, plain } from "./shape.js";
import type { Amount } from "./values.js";

const STANDARD_PREFIX = "whsec_";
const TOLERANCE_SECONDS = 300;
const PLAIN = /^(?:sha256=)?([0-9a-f]{64})$/;
// The base64 form of 32 bytes. Other last letters would be a second form of the same bytes.
const STANDARD = /^v1,([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)$/;

/** The headers of a request: an instance of `Headers`, or an object as Node has it. */
export type HeadersInput =
  | Headers
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A notification about a status change. `data` has all fields of the body, with exact amounts. */
export interface Notification {
  event: string;
  /** The event's type, such as `payment.success`. Only webhooks have a type. */
  type: string | null;
  status: string;
  trx_id: string;
  ref_trx: string | null;
  amount: Amount | null;
  currency_code: string | null;
  environment: string | null;
  /** True for sandbox notifications. Do not deliver goods for a sandbox payment. */
  is_sandbox: boolean;
  message: string | null;
  error_code: string | null;
  timestamp: number | null;
  /** The same for every delivery attempt, and null if only X-Signature was sent. */
  id: string | null;
  /** A unique key. Store it, and ignore a notification whose key is already stored. */
  handled_once_by: [event: string, trx_id: string, status: string, refund_trx_id: string];
  data: Record<string, unknown>;
}

export interface VerifyOptions {
  /** The largest difference from this machine's clock. Null accepts any age. */
  toleranceSeconds?: number | null;
}

/**
 * Returns the notification if it is from Manilla, and otherwise throws BadNotification.
 *
 * `body` is the raw request body. `secret` is the environment's API secret, as it is or in the form
 * `whsec_...`. If the Standard Webhooks signature is present, it is verified, because it covers the
 * time of the attempt. If only X-Signature is present, the timestamp in the body must be within the
 * tolerance. Otherwise an attacker could remove the other headers and replay a notification.
 */
export async function verifyIpn(
  body: Uint8Array | string,
  headers: HeadersInput,
  secret: string,
  options: VerifyOptions = {},
): Promise<Notification> {
  const raw = rawBytes(body);
  const sent = lowered(headers);
  const key = keyOf(secret);
  const isStandard = sent.has("webhook-signature");
  let sentAt: number | null = null;
  if (isStandard) sentAt = await checkStandard(raw, sent, key);
  else await checkPlain(raw, sent, key);
  const notification = read(raw, sent, isStandard ? (sent.get("webhook-id") ?? null) : null);
  checkAge(isStandard ? sentAt : notification.timestamp, options.toleranceSeconds);
  return notification;
}

/**
 * Returns the event if Manilla sent it to a webhook endpoint, and otherwise throws BadNotification.
 *
 * `secret` is the endpoint's own secret, `whsec_...`. X-Signature is not sufficient, because Manilla
 * signs messages to webhook endpoints only as Standard Webhooks specifies.
 */
export async function verifyWebhook(
  body: Uint8Array | string,
  headers: HeadersInput,
  secret: string,
  options: VerifyOptions = {},
): Promise<Notification & { type: string }> {
  if (!lowered(headers).has("webhook-signature")) {
    throw new SignatureMismatch("webhook-signature is missing.");
  }
  const notification = await verifyIpn(body, headers, secret, options);
  const { type } = notification;
  if (type === null) throw new BadNotification("`type` is missing.");
  return { ...notification, type };
}

/** Returns the headers of a notification with Manilla's signatures, for testing a receiver. */
export async function signIpn(
  body: Uint8Array | string,
  secret: string,
  options: { id: string; environment: string; timestamp?: number },
): Promise<Record<string, string>> {
  const raw = rawBytes(body);
  const key = keyOf(secret);
  const sentAt = String(options.timestamp ?? Math.floor(Date.now() / 1000));
  const standard = await hmac(key, standardContent(raw, options.id, sentAt));
  return {
    "Content-Type": "application/json",
    "X-Signature": toHex(await hmac(key, raw)),
    "X-Environment": options.environment,
    "X-Timestamp": sentAt,
    "webhook-id": options.id,
    "webhook-timestamp": sentAt,
    "webhook-signature": `v1,${toBase64(standard)}`,
  };
}

function rawBytes(body: Uint8Array | string): Bytes {
  return typeof body === "string" ? bytes(body) : joined(body);
}

function lowered(headers: HeadersInput): Map<string, string> {
  const pairs = Symbol.iterator in headers
    ? [...(headers as Iterable<readonly [string, string]>)]
    : Object.entries(headers);
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    const text = typeof value === "string" ? value : value?.join(", ");
    // Some servers rename headers: HTTP_X_SIGNATURE.
    const plain = name.toLowerCase().replaceAll("_", "-").replace(/^http-/, "");
    if (text !== undefined) found.set(plain, text);
  }
  return found;
}

function keyOf(secret: string): Bytes {
  const key = secret.startsWith(STANDARD_PREFIX)
    ? decodedKey(secret.slice(STANDARD_PREFIX.length))
    : bytes(secret);
  // With an empty secret, anyone could compute a valid signature.
  if (key.length === 0) throw new TypeError("The secret is empty.");
  return key;
}

function decodedKey(text: string): Bytes {
  try {
    return fromBase64(text);
  } catch {
    throw new TypeError("The secret after whsec_ is not base64.");
  }
}

function standardContent(body: Bytes, id: string, sentAt: string): Bytes {
  return joined(bytes(`${id}.${sentAt}.`), body);
}

async function checkStandard(body: Bytes, sent: Map<string, string>, key: Bytes): Promise<number> {
  const sentAt = sent.get("webhook-timestamp") ?? "";
  const content = standardContent(body, sent.get("webhook-id") ?? "", sentAt);
  let isValid = false;
  for (const given of (sent.get("webhook-signature") ?? "").split(" ")) {
    const signature = STANDARD.exec(given)?.[1];
    if (signature && (await hmacMatches(key, content, fromBase64(signature)))) isValid = true;
  }
  if (!isValid) throw new SignatureMismatch("webhook-signature does not match.");
  if (!/^[0-9]{1,12}$/.test(sentAt)) {
    throw new BadNotification("webhook-timestamp is not a Unix time.");
  }
  return Number(sentAt);
}

async function checkPlain(body: Bytes, sent: Map<string, string>, key: Bytes): Promise<void> {
  const given = sent.get("x-signature");
  if (given === undefined) throw new SignatureMismatch("X-Signature is missing.");
  const signature = PLAIN.exec(given)?.[1];
  if (!signature || !(await hmacMatches(key, body, fromHex(signature)))) {
    throw new SignatureMismatch("X-Signature does not match.");
  }
}

function checkAge(
  sentAt: number | null,
  toleranceSeconds: number | null = TOLERANCE_SECONDS,
): void {
  if (toleranceSeconds === null) return;
  if (sentAt === null) {
    throw new NotificationTooOld("The signed part of the notification has no time.");
  }
  if (Math.abs(Date.now() / 1000 - sentAt) > toleranceSeconds) {
    throw new NotificationTooOld(
      `Its time differs from this clock by more than ${toleranceSeconds} s.`,
    );
  }
}

function read(body: Bytes, sent: Map<string, string>, id: string | null): Notification {
  const document = parsed(body);
  if (!isObject(document)) throw new BadNotification("The body is not an object.");
  // A notification about a payment created through the legacy endpoint has no field `data`.
  const data = document["data"] ?? document;
  if (!isObject(data)) throw new BadNotification("`data` is not an object.");
  const event = required(document, "event");
  const status = required(document, "status");
  const trxId = required(data, "trx_id");
  const environment = text(data["environment"]) ?? sent.get("x-environment") ?? null;
  return {
    event,
    type: text(document["type"]),
    status,
    trx_id: trxId,
    ref_trx: text(data["ref_trx"]),
    amount: amount(data["amount"] ?? data["payout_amount"]),
    currency_code: text(data["currency_code"] ?? data["currency"]),
    environment,
    is_sandbox: environment === "sandbox",
    message: text(document["message"]),
    error_code: text(document["error_code"]),
    timestamp: timestamp(document["timestamp"]),
    id,
    // A dispute or share can return to an earlier status, so the message's id distinguishes its
    // events.
    handled_once_by: [
      ...[event, trxId, status] as const,
      (event === "dispute" || event === "split" ? id : text(data["refund_trx_id"])) ?? "",
    ],
    data: plain(data, noticeShape(event)) as Record<string, unknown>,
  };
}

function parsed(body: Bytes): unknown {
  try {
    return parseExact(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (error) {
    throw new BadNotification(`The body cannot be parsed: ${(error as Error).message}`);
  }
}

function noticeShape(event: string): Record<string, string> {
  const name = `${event.charAt(0).toUpperCase()}${event.slice(1)}NoticeData`;
  return SHAPES[name] ?? {};
}

function required(document: Record<string, unknown>, name: string): string {
  const value = text(document[name]);
  if (value === null) throw new BadNotification(`\`${name}\` is missing.`);
  return value;
}

function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function amount(value: unknown): Amount | null {
  if (!(value instanceof ExactNumber)) return null;
  if (value.decimal === null) throw new BadNotification("The amount has too many digits.");
  return value.decimal;
}

function timestamp(value: unknown): number | null {
  if (!(value instanceof ExactNumber) || !value.isInteger) return null;
  const number = Number(value.text);
  if (!Number.isSafeInteger(number)) throw new BadNotification("`timestamp` is not a Unix time.");
  return number;
}
