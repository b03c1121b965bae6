// Import /api/openapi.json into Postman, and use this as the collection's pre-request script.
// It needs the variables merchant_key, api_key and api_secret.
const hashing = require("crypto-js"); // not CryptoJS: Postman already declares that name
const timestamp = Math.floor(Date.now() / 1000).toString();
const target = pm.variables.replaceIn(pm.request.url.getPathWithQuery());
const raw = pm.request.body && pm.request.body.mode === "raw" ? pm.request.body.raw || "" : "";
// The signed string must match what is sent, so variables are replaced before signing.
const body = pm.variables.replaceIn(raw);
if (body !== raw) {
  pm.request.body.update({ mode: "raw", raw: body, options: { raw: { language: "json" } } });
}
const signed = [timestamp, pm.request.method, target, body].join(".");
const signature = hashing.HmacSHA256(signed, pm.variables.get("api_secret"));
pm.request.headers.upsert({ key: "X-Merchant-Key", value: pm.variables.get("merchant_key") });
pm.request.headers.upsert({ key: "X-API-Key", value: pm.variables.get("api_key") });
pm.request.headers.upsert({ key: "X-Timestamp", value: timestamp });
pm.request.headers.upsert({ key: "X-Signature", value: signature.toString(hashing.enc.Hex) });
