/** Sends one request with fetch. */

import { joined, type Bytes } from "./crypto.js";

const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
const TIMEOUT_SECONDS_LIMIT = 86_400; // A longer timer would end immediately.

export interface Request {
  method: string;
  target: string;
  headers: Record<string, string>;
  body: Bytes;
}

export interface Answer {
  status: number;
  headers: Headers;
  content: Bytes;
}

/** The request got no response. If `isFinal` is true, a retry would not help. */
export class Failure {
  constructor(
    readonly reason: string,
    readonly isFinal: boolean = false,
  ) {}
}

export class Transport {
  readonly #origin: string;

  constructor(
    url: string,
    readonly timeoutSeconds: number,
    readonly fetch: typeof globalThis.fetch,
  ) {
    this.#origin = origin(url);
    if (!(timeoutSeconds > 0 && timeoutSeconds <= TIMEOUT_SECONDS_LIMIT)) {
      throw new RangeError(`timeoutSeconds must be above 0, up to ${TIMEOUT_SECONDS_LIMIT}.`);
    }
  }

  async send(request: Request): Promise<Answer | Failure> {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), this.timeoutSeconds * 1000);
    try {
      const response = await this.fetch.call(globalThis, this.#origin + request.target, {
        method: request.method,
        headers: request.headers,
        redirect: "manual",
        signal: limit.signal,
        ...(request.body.length > 0 ? { body: request.body } : {}),
      });
      const content = await limited(response);
      return content instanceof Failure
        ? content
        : { status: response.status, headers: response.headers, content };
    } catch (error) {
      if (limit.signal.aborted) {
        return new Failure(`No response within ${this.timeoutSeconds} seconds.`);
      }
      return new Failure(`No response: ${reason(error)}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

function origin(url: string): string {
  let parts: URL;
  try {
    parts = new URL(url);
  } catch {
    throw new TypeError("The URL must start with https:// or http://, followed by a host.");
  }
  if (parts.protocol !== "https:" && parts.protocol !== "http:") {
    throw new TypeError("The URL must start with https:// or http://, followed by a host.");
  }
  // The signature covers the path that the API receives, so no path prefix is allowed.
  if (parts.pathname !== "/" || parts.search || parts.hash || parts.username) {
    throw new TypeError("The URL must have only a host, without a path.");
  }
  return parts.origin;
}

async function limited(response: Response): Promise<Bytes | Failure> {
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > ANSWER_BYTES_MAX) {
      await reader.cancel();
      return new Failure("The response is too large.", true);
    }
    parts.push(value);
  }
  return joined(...parts);
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return `${error.name}: ${error.message}${cause}`;
}
