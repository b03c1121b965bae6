/** One call of the API, from the first attempt to the result. */

import type { Signer } from "./credentials.js";
import type { Bytes } from "./crypto.js";
import { ApiError, ManillaError, NoAnswer } from "./errors.js";
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
}

/** Returns the parsed body of the first successful response. */
export async function converse(
  call: Call,
  signer: Signer,
  retries: Retries,
  transport: Transport,
): Promise<unknown> {
  for (let attempts = 1; ; attempts += 1) {
    // Each attempt gets a new signature, because signatures expire.
    const signed = await signer.headers(call.method, call.target, call.body);
    let outcome = await transport.send({ ...call, headers: { ...call.headers, ...signed } });
    if (!(outcome instanceof Failure) && outcome.status === 200) {
      const parsed = parse(outcome.text);
      if (!(parsed instanceof Failure)) return parsed.document;
      outcome = parsed;
    }
    const wait = mayBeRepeated(outcome)
      ? waitSeconds(retries, attempts, retryAfterSeconds(outcome))
      : null;
    if (wait === null) throw errorOf(outcome, call.idempotencyKey);
    await pause(wait);
  }
}

function parse(text: string): { document: unknown } | Failure {
  try {
    return { document: parseExact(text) };
  } catch (error) {
    return new Failure(`The response cannot be parsed: ${(error as Error).message}`);
  }
}

function mayBeRepeated(outcome: Answer | Failure): boolean {
  return outcome instanceof Failure ? !outcome.isFinal : RETRIED_STATUSES.has(outcome.status);
}

function retryAfterSeconds(outcome: Answer | Failure): number | null {
  const given = outcome instanceof Failure ? null : outcome.headers.get("retry-after");
  return given !== null && /^[0-9]{1,9}$/.test(given) ? Number(given) : null;
}

function errorOf(outcome: Answer | Failure, idempotencyKey: string | null): ManillaError {
  if (outcome instanceof Failure) return new NoAnswer(outcome.reason, idempotencyKey);
  const parsed = parse(outcome.text);
  // A proxy may respond with a body that is not JSON.
  const document = parsed instanceof Failure ? {} : parsed.document;
  const fields = isObject(document) ? (plain(document) as Record<string, unknown>) : {};
  const Kind = errorClass(outcome.status, fields["error_code"]);
  return new Kind({
    status: outcome.status,
    document: fields,
    requestId: outcome.headers.get("x-request-id"),
    retryAfterSeconds: retryAfterSeconds(outcome),
    idempotencyKey,
  });
}

/** Finds the class by error code, or by HTTP status if there is no error code. */
export function errorClass(status: number, code: unknown): typeof ApiError {
  if (typeof code !== "string") {
    return CLASSES_BY_STATUS[status] ?? ApiError;
  }
  const own = ERROR_CLASSES.filter((kind) => Object.hasOwn(kind, "codes"));
  return own.find((kind) => kind.codes.includes(code)) ?? ApiError;
}
