// The signature calculator. It runs only in the browser: no input is sent or stored.
"use strict";
(() => {
  const root = document.querySelector("[data-calculator]");
  if (!root) return;
  const part = (name) => root.querySelector(`[data-${name}]`);
  const [method, path, timestamp, secret, body, file] = ["method", "path", "timestamp", "secret", "body", "file"].map((name) => document.getElementById(`c-${name}`));
  const INVISIBLE = { "\n": "⏎\n", "\r": "␍", "\t": "⇥", " ": "·" };
  let round = 0;

  const hex = (buffer) => [...new Uint8Array(buffer)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  async function bytesOfBody() {
    return file.files.length ? new Uint8Array(await file.files[0].arrayBuffer()) : new TextEncoder().encode(body.value);
  }

  function joined(head, tail) {
    const whole = new Uint8Array(head.length + tail.length);
    whole.set(head);
    whole.set(tail, head.length);
    return whole;
  }

  // Marks newlines, tabs and spaces, because they change the signature but are invisible.
  function showString(bytes) {
    const text = new TextDecoder().decode(bytes);
    const pieces = text.split(/([\n\r\t ])/).filter(Boolean).map((piece) => {
      if (!(piece in INVISIBLE)) return document.createTextNode(piece);
      const mark = document.createElement("mark");
      mark.textContent = INVISIBLE[piece];
      return mark;
    });
    part("string").replaceChildren(...pieces);
    part("size").textContent = `${bytes.length} bytes`;
  }

  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

  function curl(signature) {
    const lines = [`curl -sS -X ${method.value} ${quoted(root.dataset.baseUrl + path.value)}`,
      "-H 'X-Environment: sandbox'", "-H \"X-Merchant-Key: $MANILLA_MERCHANT_KEY\"", "-H \"X-API-Key: $MANILLA_API_KEY\"",
      `-H 'X-Timestamp: ${timestamp.value}'`, `-H 'X-Signature: ${signature}'`];
    const hasFile = file.files.length > 0;
    if (hasFile || body.value) lines.push("-H 'Content-Type: application/json'", hasFile ? `--data-binary @${quoted(file.files[0].name)}` : `--data-binary ${quoted(body.value)}`);
    return lines.join(" \\\n  ");
  }

  async function compute() {
    const mine = ++round;
    const head = new TextEncoder().encode(`${timestamp.value}.${method.value}.${path.value}.`);
    const bytes = joined(head, await bytesOfBody());
    const digest = hex(await crypto.subtle.digest("SHA-256", bytes));
    let signature = "Enter your API secret.";
    if (secret.value) {
      const key = await crypto.subtle.importKey("raw", new TextEncoder().encode(secret.value), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
      signature = hex(await crypto.subtle.sign("HMAC", key, bytes));
    }
    if (mine !== round) return; // the input has changed since
    showString(bytes);
    part("digest").textContent = digest;
    part("signature").textContent = signature;
    part("curl").textContent = curl(secret.value ? signature : "...");
  }

  if (!window.crypto?.subtle) {
    part("signature").textContent = "Browsers compute signatures only on secure pages. Open this page over https.";
    return;
  }
  part("inputs").addEventListener("submit", (event) => event.preventDefault());
  root.addEventListener("input", compute);
  root.addEventListener("change", compute);
  part("now").addEventListener("click", () => { timestamp.value = String(Math.floor(Date.now() / 1000)); compute(); });
  compute();
})();
