// Checks the signature of a notification. It runs only in the browser: no input is sent or stored.
"use strict";
(() => {
  const root = document.querySelector("[data-signature-check]");
  if (!root) return;
  const { notificationId, timestamp, body, signature, xSignature } = root.dataset;
  const part = (name) => root.querySelector(`[data-${name}]`);
  const [secret, own] = ["secret", "own"].map((name) => document.getElementById(`s-${name}`));
  const encode = (text) => new TextEncoder().encode(text);
  const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));
  const toHex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const content = fromBase64(body);
  const head = encode(`${notificationId}.${timestamp}.`);
  const whole = new Uint8Array(head.length + content.length);
  whole.set(head);
  whole.set(content, head.length);
  // A notification to an ipn_url is signed with the API secret, and its X-Signature covers only the body.
  const isBodyOnly = Boolean(xSignature), signed = isBodyOnly ? content : whole;
  let round = 0;

  async function hmac(key, bytes) {
    const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    return new Uint8Array(await crypto.subtle.sign("HMAC", imported, bytes));
  }

  function keyOf(text) {
    if (isBodyOnly) return encode(text);
    try { return fromBase64(text.replace(/^whsec_/, "")); } catch { return null; }
  }

  const standard = (bytes) => `v1,${toBase64(bytes)}`;
  const format = isBodyOnly ? toHex : standard;
  const sent = isBodyOnly ? [xSignature] : signature.split(" ");

  // Returns which mistake leads to the signature that the user's code has computed, or "".
  async function mistake(text, key, given) {
    const all = [
      [encode(text), whole, "the whole text of the secret as the key. Remove whsec_ and decode the rest from base64."],
      [key, content, "only the body. Sign the id, the timestamp and the body, joined with dots."],
      [encode(text), content, "only the body, and the whole text of the secret as the key."],
    ];
    for (const [other, bytes, cause] of isBodyOnly ? [[encode(text), whole, "the id and the timestamp too. X-Signature covers only the body."]] : all) {
      const made = await hmac(other, bytes);
      if ([standard(made), toBase64(made), toHex(made)].includes(given)) return `Your code signs with ${cause}`;
    }
    return "";
  }

  async function verdict(text, key, expected) {
    if (!sent.includes(expected)) return ["danger", `This is not the secret that signed this notification.${isBodyOnly ? "" : " Each endpoint has its own secret, and a rotation changes it."}`];
    const given = own.value.trim();
    if (!given) return ["success", "The notification was signed with this secret. If your server rejects it, enter the signature that your code computes."];
    if (sent.includes(given) || sent.includes(`v1,${given}`)) return ["success", "Your code's signature is correct. Check how your code compares it with the header."];
    return ["danger", (await mistake(text, key, given)) || "Your code's signature differs. Compare the bytes that your code signs with the signed string: your framework may change the body before your code reads it."];
  }

  async function check() {
    const mine = ++round, text = secret.value.trim(), key = text ? keyOf(text) : null;
    const expected = key && key.length ? format(await hmac(key, signed)) : "";
    let shown = ["", ""];
    if (text) shown = expected ? await verdict(text, key, expected) : ["danger", "This is not an endpoint secret. It starts with whsec_."];
    if (mine !== round) return; // the input has changed since
    part("computed").textContent = expected || "Enter the secret.";
    part("verdict").className = shown[0] ? `notice notice-${shown[0]}` : "";
    part("verdict").textContent = shown[1];
  }

  part("string").textContent = new TextDecoder().decode(signed);
  if (!window.crypto?.subtle) {
    part("computed").textContent = "Browsers compute signatures only on secure pages. Open this page over https.";
    return;
  }
  root.addEventListener("submit", (event) => event.preventDefault());
  root.addEventListener("input", check);
})();
