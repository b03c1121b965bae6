/** Exact amounts and times, and how they are sent. */

/** An exact amount in major units, such as `1500.50`. */
export type Amount = string;

/** An amount to send: a decimal string, or whole minor units (with 2 decimals by default). */
export type AmountInput = string | { minor: bigint | number; decimals?: number };

/** A time to send. A string needs an offset, such as `2026-11-14T09:00:00Z`. */
export type TimeInput = string | Date;

/** A known value, or a value that a later version of the API adds. */
export type Open<Known extends string> = Known | (string & {});

const DECIMAL = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?$/;
const DIGITS_MAX = 30;
const DECIMALS_DEFAULT = 2;

/** Returns the whole minor units of an amount: `toMinor("1500.50")` is `150050n`. */
export function toMinor(amount: Amount, decimals: number = DECIMALS_DEFAULT): bigint {
  const [, sign = "", whole = "", fraction = ""] = matched(amount);
  if (fraction.length > decimals) {
    throw new RangeError(`${amount} has more than ${decimals} decimals.`);
  }
  const units = BigInt(whole + fraction.padEnd(decimals, "0"));
  return sign ? -units : units;
}

/** Returns the amount of whole minor units: `fromMinor(150050)` is `1500.50`. */
export function fromMinor(minor: bigint | number, decimals: number = DECIMALS_DEFAULT): Amount {
  if (typeof minor === "number" && !Number.isSafeInteger(minor)) {
    throw new RangeError("Minor units must be a whole number. Use a bigint above 2^53.");
  }
  if (!Number.isInteger(decimals) || decimals < 0 || decimals > DIGITS_MAX) {
    throw new RangeError("The number of decimals must not be negative.");
  }
  const units = BigInt(minor);
  const digits = (units < 0n ? -units : units).toString().padStart(decimals + 1, "0");
  const split = digits.length - decimals;
  const fraction = decimals > 0 ? `.${digits.slice(split)}` : "";
  return `${units < 0n ? "-" : ""}${digits.slice(0, split)}${fraction}`;
}

/** Returns the JSON number of an amount, with exactly the given digits. */
export function amountText(value: unknown): string {
  if (typeof value === "number") {
    throw new TypeError("Amounts must be decimal strings or minor units, not numbers.");
  }
  if (typeof value === "object" && value !== null && "minor" in value) {
    const { minor, decimals } = value as { minor: bigint | number; decimals?: number };
    return fromMinor(minor, decimals);
  }
  if (typeof value !== "string") {
    throw new TypeError("Amounts must be decimal strings or minor units.");
  }
  matched(value);
  return value;
}

/** Returns a time as a string. */
export function timeText(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== "string") throw new TypeError("Times must be strings or dates.");
  return value;
}

function matched(amount: string): RegExpExecArray {
  const found = DECIMAL.exec(amount);
  if (!found) throw new RangeError(`${amount} is not an amount.`);
  if (amount.length > DIGITS_MAX) throw new RangeError("The amount has too many digits.");
  return found;
}
