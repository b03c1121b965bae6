// Runs oidc-provider, a certified OpenID Connect provider: `node provider.mjs PORT`.
//
// Tests control it at /control. They can rotate its keys, and replace the ID token of its next
// response, as an attacker between Manilla and the provider, or a faulty provider, would.

import { createServer } from "node:http";
import { SignJWT, UnsecuredJWT, decodeJwt, exportJWK, generateKeyPair } from "jose";
import Provider from "oidc-provider";

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const accounts = new Map();
let keys = [];
let provider;
let forgery = null;
let isDown = false;
let lastToken = null;

// The state outlives a rotation of the keys, for which the provider is created again.
const stored = new Map();
class Storage {
  constructor(name) {
    this.name = name;
  }
  key(id) {
    return `${this.name}:${id}`;
  }
  async upsert(id, payload) {
    stored.set(this.key(id), payload);
  }
  async find(id) {
    return stored.get(this.key(id));
  }
  async findByUid(uid) {
    return [...stored.values()].find((payload) => payload.uid === uid);
  }
  async consume(id) {
    stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    stored.delete(this.key(id));
  }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of stored) if (payload.grantId === grantId) stored.delete(key);
  }
}

async function newKey(kid) {
  const pair = await generateKeyPair("RS256", { extractable: true });
  const jwk = await exportJWK(pair.privateKey);
  return { ...jwk, kid, use: "sig", alg: "RS256" };
}

async function start() {
  provider = new Provider(issuer, {
    adapter: Storage,
    jwks: { keys },
    cookies: { keys: ["a key for the tests"] },
    claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
    scopes: ["openid", "profile", "email", "groups"],
    features: {
      registration: { enabled: true },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      devInteractions: { enabled: true },
    },
    clientDefaults: { grant_types: ["authorization_code"], response_types: ["code"] },
    pkce: { required: () => true },
    // The provider calls only public addresses, but Manilla runs on this machine.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...accounts.get(id) }),
    }),
    // The user has already agreed that the company's application gets the claims.
    async loadExistingGrant(context) {
      const grant = new context.oidc.provider.Grant({
        clientId: context.oidc.client.clientId,
        accountId: context.oidc.session.accountId,
      });
      grant.addOIDCScope("openid profile email groups");
      await grant.save();
      return grant;
    },
  });
  provider.on("server_error", (_, error) => console.error(error));
  provider.on("backchannel.error", (_, error) => console.error(error));
}

async function forge(token) {
  const { claims = {}, without = [], alg = "RS256", key = "current", kid } = forgery;
  const found = { ...decodeJwt(token), ...claims };
  for (const name of without) delete found[name];
  if (forgery.replay) return forgery.replay;
  if (alg === "none") return new UnsecuredJWT(found).encode();
  const header = { alg, kid: kid ?? keys[0].kid };
  if (alg === "HS256") {
    // The public key as a shared secret: the classic confusion of algorithms.
    const secret = new TextEncoder().encode(JSON.stringify({ n: keys[0].n, e: keys[0].e }));
    return new SignJWT(found).setProtectedHeader(header).sign(secret);
  }
  const signing = key === "current" ? keys[0] : await newKey("unknown");
  return new SignJWT(found).setProtectedHeader(header).sign(await imported(signing));
}

async function imported(jwk) {
  const { importJWK } = await import("jose");
  return importJWK(jwk, "RS256");
}

function tamper(response) {
  const end = response.end.bind(response);
  response.end = (body, ...rest) => {
    let text = String(body ?? "");
    if (!text.includes("id_token")) return end(body, ...rest);
    const reply = JSON.parse(text);
    (async () => {
      lastToken = reply.id_token;
      if (forgery) reply.id_token = await forge(reply.id_token);
      forgery = null;
      text = JSON.stringify(reply);
      response.setHeader("content-length", Buffer.byteLength(text));
      end(text);
    })();
  };
}

async function control(request, response) {
  let body = "";
  for await (const part of request) body += part;
  const wanted = JSON.parse(body || "{}");
  for (const [id, claims] of Object.entries(wanted.accounts ?? {})) accounts.set(id, claims);
  if ("forgery" in wanted) forgery = wanted.forgery;
  if ("down" in wanted) isDown = wanted.down;
  if (wanted.rotate) {
    keys = [await newKey(`key-${Date.now()}`)];
    await start();
  }
  let signed = null;
  if (wanted.sign) {
    const header = { alg: "RS256", kid: keys[0].kid, typ: "logout+jwt" };
    signed = await new SignJWT(wanted.sign).setProtectedHeader(header).sign(await imported(keys[0]));
  }
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ last_token: lastToken, signed }));
}

keys = [await newKey("first")];
await start();
createServer((request, response) => {
  if (request.url === "/control") return control(request, response);
  if (isDown) return request.socket.destroy();
  if (request.url === "/token") tamper(response);
  return provider.callback()(request, response);
}).listen(port, "127.0.0.1", () => console.log("ready"));
