/** Reads the text of "Connect a shop" in the dashboard. */

import { Signer, type Credentials } from "./credentials.js";
import { fromBase64 } from "./crypto.js";

const PREFIX = "manilla_shop_1_";

/** What a shop needs to take payments. Treat the text like a password. */
export interface ShopConnection {
  url: string;
  environment: "sandbox" | "production";
  credentials: Credentials;
  webhookEndpoint: string;
  /** For `verifyWebhook`. */
  webhookSecret: string;
}

/** Throws a TypeError if the text is incomplete or something else. */
export function readShopConnection(text: string): ShopConnection {
  const given = decoded(text.trim());
  const field = (name: string): string => {
    const value = given[name];
    // The message must not contain the text.
    if (typeof value !== "string" || !value) throw new TypeError(NOT_WHOLE);
    return value;
  };
  const credentials = {
    merchantKey: field("merchant_key"),
    apiKey: field("api_key"),
    apiSecret: field("api_secret"),
  };
  const { environment } = new Signer(credentials);
  if (environment !== field("environment")) {
    throw new TypeError("The credentials belong to another environment.");
  }
  return {
    url: field("url"),
    environment,
    credentials,
    webhookEndpoint: field("webhook_endpoint"),
    webhookSecret: field("webhook_secret"),
  };
}

const NOT_WHOLE = "This is not the whole text of a shop's connection.";

function decoded(text: string): Record<string, unknown> {
  if (!text.startsWith(PREFIX)) throw new TypeError(NOT_WHOLE);
  const encoded = text.slice(PREFIX.length).replaceAll("-", "+").replaceAll("_", "/");
  try {
    const padded = encoded + "=".repeat((4 - (encoded.length % 4)) % 4);
    return Object(JSON.parse(new TextDecoder().decode(fromBase64(padded)))) as Record<
      string,
      unknown
    >;
  } catch {
    throw new TypeError(NOT_WHOLE);
  }
}
