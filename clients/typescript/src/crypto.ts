/** HMAC-SHA256 with WebCrypto, which Node, Deno, Bun and edge runtimes have. */

const HMAC = { name: "HMAC", hash: "SHA-256" } as const;
const encoder = new TextEncoder();

export type Bytes = Uint8Array<ArrayBuffer>;

export function bytes(text: string): Bytes {
  return encoder.encode(text) as Bytes;
}

export function joined(...parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export async function hmac(secret: Bytes, data: Bytes): Promise<Bytes> {
  const { subtle } = await webCrypto();
  const key = await subtle.importKey("raw", secret, HMAC, false, ["sign"]);
  return new Uint8Array(await subtle.sign(HMAC.name, key, data));
}

/** Compares in constant time, because WebCrypto does. */
export async function hmacMatches(secret: Bytes, data: Bytes, signature: Bytes): Promise<boolean> {
  const { subtle } = await webCrypto();
  const key = await subtle.importKey("raw", secret, HMAC, false, ["verify"]);
  return subtle.verify(HMAC.name, key, signature, data);
}

export async function sha256(data: Bytes): Promise<Bytes> {
  const { subtle } = await webCrypto();
  return new Uint8Array(await subtle.digest("SHA-256", data));
}

export async function randomKey(): Promise<string> {
  return (await webCrypto()).randomUUID();
}

let found: Promise<Crypto> | undefined;

/** Node 18 has WebCrypto only in a module, not in the global scope. */
function webCrypto(): Promise<Crypto> {
  const name = "node:crypto";
  found ??= globalThis.crypto
    ? Promise.resolve(globalThis.crypto)
    : import(name).then((module: { webcrypto: Crypto }) => module.webcrypto);
  return found;
}

export function toHex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function toBase64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

/** Throws if the text is not base64. */
export function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
