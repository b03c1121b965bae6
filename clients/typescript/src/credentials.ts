/** Credentials and request signing. */

import { bytes, hmac, joined, toHex, type Bytes } from "./crypto.js";

const SANDBOX_PREFIX = "test_";
const VALID = /^[!-~]+$/;

/** A merchant key, API key and API secret. Their prefix identifies the environment. */
export interface Credentials {
  merchantKey: string;
  apiKey: string;
  apiSecret: string;
}

/** Reads a variable of the environment. Throws if the variable is not set. */
export function fromEnvironment(name: string): string {
  const scope = globalThis as { process?: { env?: Record<string, string | undefined> } };
  const value = scope.process?.env?.[name];
  if (!value) throw new TypeError(`${name} is not set in the environment.`);
  return value;
}

/** Signs requests. Printing a signer shows no secret. */
export class Signer {
  readonly environment: "sandbox" | "production";
  readonly #keys: Credentials;

  constructor(keys: Credentials) {
    const given = [keys.merchantKey, keys.apiKey, keys.apiSecret];
    for (const name of ["merchantKey", "apiKey", "apiSecret"] as const) {
      // The message must not contain the value.
      if (typeof keys[name] !== "string" || !VALID.test(keys[name])) {
        throw new TypeError(`${name} must be printable ASCII characters without spaces.`);
      }
    }
    if (new Set(given.map((key) => key.startsWith(SANDBOX_PREFIX))).size !== 1) {
      throw new TypeError("The credentials belong to different environments.");
    }
    this.#keys = { ...keys };
    const isSandbox = keys.merchantKey.startsWith(SANDBOX_PREFIX);
    this.environment = isSandbox ? "sandbox" : "production";
  }

  async headers(method: string, target: string, body: Bytes): Promise<Record<string, string>> {
    const timestamp = Math.floor(Date.now() / 1000);
    return {
      "X-Environment": this.environment,
      "X-Merchant-Key": this.#keys.merchantKey,
      "X-API-Key": this.#keys.apiKey,
      "X-Timestamp": String(timestamp),
      "X-Signature": await signRequest(this.#keys.apiSecret, timestamp, method, target, body),
    };
  }
}

/** Signs the exact bytes that are sent: the path with its query string, and the body. */
export async function signRequest(
  secret: string,
  timestamp: number,
  method: string,
  target: string,
  body: Uint8Array,
): Promise<string> {
  const signed = joined(bytes(`${timestamp}.${method}.${target}.`), body);
  return toHex(await hmac(bytes(secret), signed));
}
