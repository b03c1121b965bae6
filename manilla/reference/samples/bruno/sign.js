// Import /api/openapi.json into Bruno, and use this as the collection's pre-request script.
// It needs the variables merchant_key, api_key and api_secret.
const hashing = require("crypto-js");
const timestamp = Math.floor(Date.now() / 1000).toString();
// The signed string must match what is sent, so variables are replaced before signing.
req.setUrl(bru.interpolate(req.getUrl()));
// Bruno encodes the URL after this script, because the requests have the setting "URL Encoding".
const path = bru.interpolate(req.getPath()).split("/").map(decodeURIComponent);
let target = path.map(encodeURIComponent).join("/");
const query = req.getUrl().split(/\?(.*)/)[1];
if (query) {
  const pairs = query.split("&").map((pair) => encodeURIComponent(pair).replace("%3D", "="));
  target += "?" + pairs.join("&").replace(/'/g, "%27");
}
const raw = req.getBody({ raw: true }) || "";
if (typeof raw !== "string") throw new Error("Bruno cannot sign forms: use a client library.");
const body = bru.interpolate(raw).trim(); // Bruno trims it too
if (body) req.setBody(body, { raw: true });
const signed = [timestamp, req.getMethod(), target, body].join(".");
const signature = hashing.HmacSHA256(signed, bru.interpolate("{{api_secret}}"));
const merchantKey = bru.interpolate("{{merchant_key}}");
req.setHeader("X-Environment", merchantKey.startsWith("test_") ? "sandbox" : "production");
req.setHeader("X-Merchant-Key", merchantKey);
req.setHeader("X-API-Key", bru.interpolate("{{api_key}}"));
req.setHeader("X-Timestamp", timestamp);
req.setHeader("X-Signature", signature.toString(hashing.enc.Hex));
