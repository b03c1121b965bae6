/** One call of the API, from the first attempt to the result. */

import type { Signer } from "./credentials.js";
import type { Bytes } from "./crypto.js";
import { ApiError, BadAnswer, ManillaError, NoAnswer, type Outcome } from "./errors.js";
import { parseExact } from "./exact-json.js";
import { CLASSES_BY_STATUS, ERROR_CLASSES } from "./generated/errors.js";
import { pause, RETRIED_STATUSES, waitSeconds, type Retries } from "./retries.js";
import { isObject, plain } from "./shape.js";
import { Failure, type Answer, type Transport } from "./transport.js";

export interface Call {
  method: string;
  target: string;
  headers: Record<string, string>;
  body: Bytes;
  /** Every attempt has the same key, so the request takes effect only once. */
  idempotencyKey: string | null;
  /** Whether the caller chose the idempotency key. */
  hasOwnKey: boolean;
  /** The media type of a response that is a file, or null for a JSON document. */
  fileType: string | null;
}

// The API returns these errors before it looks for an earlier request with the idempotency key.
const EARLY_CODES: ReadonlySet<string> = new Set([
  "RATE_LIMIT_EXCEEDED",
  "INVALID_CREDENTIALS",
  "INSUFFICIENT_PERMISSION",
]);
const SECONDS = /^[0-9]{1,9}$/;
const DATE = /^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$/;

/** Reads the body of the first successful response. */
export async function converse<Result>(
  call: Call,
  read: (document: unknown) => Result,
  signer: Signer,
  retries: Retries,
  transport: Transport,
): Promise<Result> {
  let outcomeUnknown = false;
  for (let attempts = 1; ; attempts += 1) {
    // Each attempt gets a new signature, because signatures expire.
    const signed = await signer.headers(call.method, call.target, call.body);
    let outcome = await transport.send({ ...call, headers: { ...call.headers, ...signed } });
    outcomeUnknown ||= mayHaveTakenEffect(call, outcome);
    const facts = { outcomeUnknown, idempotencyKey: call.idempotencyKey };
    if (!(outcome instanceof Failure) && outcome.status === 200) {
      const parsed = call.fileType === null ? parse(outcome) : file(outcome, call.fileType);
      if (!(parsed instanceof Failure)) return readResult(read, parsed.document, facts);
      outcome = parsed;
    }
    const wait = mayBeRepeated(outcome)
      ? waitSeconds(retries, attempts, retryAfterSeconds(outcome))
      : null;
    if (wait === null) throw errorOf(outcome, facts);
    await pause(wait);
  }
}

function readResult<Result>(
  read: (document: unknown) => Result,
  document: unknown,
  facts: Outcome,
): Result {
  try {
    return read(document);
  } catch (error) {
    throw new BadAnswer((error as Error).message, facts);
  }
}

/**
 * Returns true unless the API itself has rejected the request.
 *
 * An error without an error code can be from a proxy, after the API has processed the request. If
 * the caller chose the idempotency key, this request can be the repetition of an earlier one.
 */
function mayHaveTakenEffect(call: Call, outcome: Answer | Failure): boolean {
  if (call.method === "GET") return false;
  if (outcome instanceof Failure || outcome.status >= 500) return true;
  const code = fieldsOf(outcome)["error_code"];
  return typeof code !== "string" || (call.hasOwnKey && EARLY_CODES.has(code));
}

function parse(answer: Answer): { document: unknown } | Failure {
  try {
    return { document: parseExact(new TextDecoder().decode(answer.content)) };
  } catch (error) {
    return new Failure(`The response cannot be parsed: ${(error as Error).message}`);
  }
}

function file(answer: Answer, fileType: string): { document: unknown } | Failure {
  const found = answer.headers.get("content-type")?.split(";")[0]?.trim();
  if (found === fileType) return { document: answer.content };
  return new Failure(`The response is ${found} instead of ${fileType}.`);
}

function mayBeRepeated(outcome: Answer | Failure): boolean {
  return outcome instanceof Failure ? !outcome.isFinal : RETRIED_STATUSES.has(outcome.status);
}

/** Returns the value of Retry-After, which is a number of seconds or a date. */
function retryAfterSeconds(outcome: Answer | Failure): number | null {
  if (outcome instanceof Failure) return null;
  const given = outcome.headers.get("retry-after");
  if (given !== null && SECONDS.test(given)) return Number(given);
  const ends = date(given);
  if (ends === null) return null;
  // The local clock is only used without the server's time, because it can be minutes off.
  const now = date(outcome.headers.get("date")) ?? Date.now();
  return Math.max(0, Math.ceil((ends - now) / 1000));
}

function date(text: string | null): number | null {
  const found = text !== null && DATE.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(found) ? null : found;
}

function errorOf(outcome: Answer | Failure, facts: Outcome): ManillaError {
  if (outcome instanceof Failure) return new NoAnswer(outcome.reason, facts);
  const document = fieldsOf(outcome);
  const Kind = errorClass(outcome.status, document["error_code"]);
  return new Kind({
    status: outcome.status,
    document,
    requestId: outcome.headers.get("x-request-id"),
    retryAfterSeconds: retryAfterSeconds(outcome),
    location: outcome.headers.get("location"),
    outcome: facts,
  });
}

/** Returns the body. It is empty if it is not a JSON object, but for example a proxy's page. */
function fieldsOf(answer: Answer): Record<string, unknown> {
  const parsed = parse(answer);
  if (parsed instanceof Failure || !isObject(parsed.document)) return {};
  return plain(parsed.document) as Record<string, unknown>;
}

/** Finds the class by error code, or by HTTP status if there is no error code. */
export function errorClass(status: number, code: unknown): typeof ApiError {
  if (typeof code !== "string") {
    return CLASSES_BY_STATUS[status] ?? ApiError;
  }
  const own = ERROR_CLASSES.filter((kind) => Object.hasOwn(kind, "codes"));
  return own.find((kind) => kind.codes.includes(code)) ?? ApiError;
}
