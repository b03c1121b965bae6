import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Verifies that a webhook is from Manilla. Pass the body as a Buffer, and the webhook- headers. */
export function verify(rawBody, id, timestamp, signatures, secret) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (!key.length) return false;
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(rawBody);
  const expected = Buffer.from(`v1,${mac.digest("base64")}`);
  // There are two signatures after a rotation of the secret.
  const given = signatures.split(" ").map((each) => Buffer.from(each));
  const matches = (each) => each.length === expected.length && timingSafeEqual(each, expected);
  // A webhook that is older than five minutes could be a recording.
  return given.some(matches) && Math.abs(Date.now() / 1000 - timestamp) <= 300;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [bodyFile, ...headers] = process.argv.slice(2);
  const secret = process.env.MANILLA_WEBHOOK_SECRET;
  process.exit(verify(readFileSync(bodyFile), ...headers, secret) ? 0 : 1);
}
