/** A client for Manilla's merchant API, without dependencies. */

export * from "./client.js";
export type { PaymentSession } from "./client.js";
export type { Credentials } from "./credentials.js";
export { signRequest } from "./credentials.js";
export * from "./errors.js";
export * from "./generated/errors.js";
export type * from "./generated/types.js";
export * from "./notifications.js";
export * from "./shop-connection.js";
export type { Retries } from "./retries.js";
export { fromMinor, toMinor } from "./values.js";
export type { Amount, AmountInput, Open, TimeInput } from "./values.js";
