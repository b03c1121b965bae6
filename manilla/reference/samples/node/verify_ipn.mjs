import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Verifies that a notification is from Manilla. Pass the unparsed body as a Buffer. */
export function verify(rawBody, signatureHeader, secret) {
  if (!secret) return false;
  const expected = Buffer.from(createHmac("sha256", secret).update(rawBody).digest("hex"));
  const given = Buffer.from((signatureHeader ?? "").replace(/^sha256=/, ""));
  return expected.length === given.length && timingSafeEqual(expected, given);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [bodyFile, signature] = process.argv.slice(2);
  const secret = process.env.MANILLA_API_SECRET;
  process.exit(verify(readFileSync(bodyFile), signature, secret) ? 0 : 1);
}
