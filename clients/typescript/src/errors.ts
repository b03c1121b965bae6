/** The base classes of the errors. The class of each error code is generated. */

/** What a request may have done. */
export interface Outcome {
  outcomeUnknown?: boolean;
  idempotencyKey?: string | null;
}

/**
 * Base class of every error that the client raises.
 *
 * If `outcomeUnknown` is true, a request with this `idempotencyKey` may have taken effect. Call the
 * method again with the same arguments and the same idempotency key.
 */
export class ManillaError extends Error {
  readonly outcomeUnknown: boolean;
  /** The idempotency key of a POST request. Use it to repeat the request. */
  readonly idempotencyKey: string | null;

  constructor(message: string, { outcomeUnknown = false, idempotencyKey = null }: Outcome = {}) {
    super(message);
    this.name = new.target.name;
    this.outcomeUnknown = outcomeUnknown;
    this.idempotencyKey = idempotencyKey;
  }
}

/** There was no readable response after all attempts. */
export class NoAnswer extends ManillaError {}

/** The response does not match the API's specification. */
export class BadAnswer extends ManillaError {}

/** The timeout was reached before the transaction had a final status. */
export class StillPending extends ManillaError {
  constructor(readonly trxId: string) {
    super(`${trxId} is still pending.`);
  }
}

/** The request is not a notification from Manilla. Respond with 401 and ignore it. */
export class BadNotification extends ManillaError {}

/** The signature is missing, or was computed from another body or with another secret. */
export class SignatureMismatch extends BadNotification {}

/** The signature is valid but too old. An attacker may be replaying a recorded notification. */
export class NotificationTooOld extends BadNotification {}

/** What is known about a response with an error. */
export interface ApiErrorFacts {
  status: number;
  document: Record<string, unknown>;
  requestId: string | null;
  retryAfterSeconds: number | null;
  location: string | null;
  outcome: Outcome;
}

/** The API rejected the request. This class is used for error codes without a separate class. */
export class ApiError extends ManillaError {
  static readonly codes: readonly string[] = [];
  static readonly advice: string | null = null;

  /** The API's text about the error. `message` also has the invalid fields, code and request id. */
  readonly apiMessage: string;
  /** The HTTP status. */
  readonly status: number;
  /** The stable code for error handling, or null if the response has none. */
  readonly code: string | null;
  /** The error for each invalid field or header. */
  readonly errors: Readonly<Record<string, string>>;
  /** What to do about the error. */
  readonly guidance: string | null;
  /** The id with which the operator finds the request. */
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(facts: ApiErrorFacts) {
    const apiMessage = ApiError.text(facts.document, "error") ?? withoutText(facts);
    super(`${apiMessage}${details(facts)}`, facts.outcome);
    this.apiMessage = apiMessage;
    this.status = facts.status;
    this.code = ApiError.text(facts.document, "error_code");
    this.errors = texts(facts.document["errors"]);
    this.guidance = ApiError.text(facts.document, "guidance") ?? new.target.advice;
    this.requestId = facts.requestId;
    this.retryAfterSeconds = facts.retryAfterSeconds;
  }

  /** Returns a field of the response if it is a text. */
  protected static text(document: Record<string, unknown>, name: string): string | null {
    const value = document[name];
    return typeof value === "string" ? value : null;
  }
}

function withoutText({ status, location }: ApiErrorFacts): string {
  const redirect = location ? ` The client does not follow the redirect to ${location}.` : "";
  return `The API responded with status ${status}.${redirect}`;
}

function details({ status, document, requestId }: ApiErrorFacts): string {
  const faults = Object.entries(texts(document["errors"]));
  const code = document["error_code"];
  const facts = [`${status} ${typeof code === "string" ? code : "without a code"}`];
  if (requestId) facts.push(`request ${requestId}`);
  return `${faults.map(([name, text]) => ` ${name}: ${text}`).join("")} (${facts.join(", ")})`;
}

function texts(value: unknown): Record<string, string> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, String(text)]));
}
