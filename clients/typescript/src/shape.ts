/**
 * Converts JSON documents to the API's objects and back, as the generated shapes describe them.
 *
 * A shape maps the name of each field to its type: `string`, `integer`, `boolean`, `time`, `amount`
 * or the name of another shape. `[]` is a list, `|null` may be null, `?` may be missing. `A|B` is
 * an object of one of two shapes, which differ in their status. `=pending,failed` is a text with
 * one of these values. `any` is not checked.
 */

import { BadAnswer } from "./errors.js";
import { ExactNumber } from "./exact-json.js";
import { SHAPES } from "./generated/shapes.js";
import { amountText, timeText } from "./values.js";

type Fields = Record<string, unknown>;

/** Returns an object of this type, without unknown fields. Throws BadAnswer if it does not match. */
export function readAs(type: string, value: unknown, where: string = type): unknown {
  if (type.endsWith("|null")) {
    return value === null ? null : readAs(type.slice(0, -"|null".length), value, where);
  }
  if (type.endsWith("[]")) {
    if (!Array.isArray(value)) throw new BadAnswer(`${where} is not a list.`);
    const inner = type.slice(0, -"[]".length);
    return value.map((item: unknown) => readAs(inner, item, where));
  }
  if (type.startsWith("=")) {
    if (isOneOf(type, value)) return value;
    throw new BadAnswer(`${where} has a value that this version does not know.`);
  }
  const scalar = SCALARS[type];
  return scalar ? scalar(value, where) : readObject(variant(type, value, where), value, where);
}

const SCALARS: Record<string, (value: unknown, where: string) => unknown> = {
  string: (value, where) => expected(typeof value === "string", value, where),
  time: (value, where) => {
    const isTime = typeof value === "string" && !Number.isNaN(Date.parse(value));
    return expected(isTime, value, where);
  },
  boolean: (value, where) => expected(typeof value === "boolean", value, where),
  amount: (value, where) => {
    const decimal = value instanceof ExactNumber ? value.decimal : null;
    if (decimal !== null) return decimal;
    throw new BadAnswer(`${where} is not an amount.`);
  },
  integer: (value, where) => {
    const number = value instanceof ExactNumber && value.isInteger ? Number(value.text) : NaN;
    return expected(Number.isSafeInteger(number), number, where);
  },
  any: (value) => plain(value),
};

function expected(isRight: boolean, value: unknown, where: string): unknown {
  if (!isRight) throw new BadAnswer(`${where} does not have the expected type.`);
  return value;
}

function isOneOf(type: string, value: unknown): boolean {
  return typeof value === "string" && type.slice(1).split(",").includes(value);
}

function variant(type: string, value: unknown, where: string): string {
  const names = type.split("|");
  const status = isObject(value) ? value["status"] : undefined;
  const found = names.length === 1
    ? names[0]
    : names.find((name) => isOneOf(SHAPES[name]?.["status"] ?? "", status));
  if (!found) throw new BadAnswer(`${where} has a status that this version does not know.`);
  return found;
}

function readObject(name: string, value: unknown, where: string): Fields {
  if (!isObject(value)) throw new BadAnswer(`${where} is not an object.`);
  const found: Fields = {};
  for (const [field, described] of Object.entries(SHAPES[name] ?? {})) {
    const isOptional = described.endsWith("?");
    const type = isOptional ? described.slice(0, -1) : described;
    if (field in value) found[field] = readAs(type, value[field], `${where}.${field}`);
    else if (!isOptional) throw new BadAnswer(`${where}.${field} is missing.`);
  }
  return found;
}

export function isObject(value: unknown): value is Fields {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof ExactNumber)
  );
}

/**
 * Converts parsed JSON of which not every field is known. Numbers become decimal texts, except
 * fields that the shape declares as integers.
 */
export function plain(value: unknown, shape: Record<string, string> = {}): unknown {
  if (value instanceof ExactNumber) return value.decimal ?? value.text;
  if (Array.isArray(value)) return value.map((item: unknown) => plain(item));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, part]) => {
    // A field can have the name of a method of all objects, such as `constructor`.
    const type = Object.hasOwn(shape, name) ? shape[name]! : "";
    const isInteger = type.startsWith("integer") && part instanceof ExactNumber && part.isInteger;
    return [name, isInteger ? Number(part.text) : plain(part, SHAPES[type])];
  });
  return Object.fromEntries(entries) as Fields;
}

/** Returns the request as JSON, with exact amounts. Fields that are undefined are not sent. */
export function encode(name: string, request: object, keepsNull: boolean): string {
  const shape = SHAPES[name] ?? {};
  const parts: string[] = [];
  for (const [field, value] of Object.entries(request) as [string, unknown][]) {
    const type = Object.hasOwn(shape, field) ? shape[field] : undefined;
    // The API ignores unknown fields and would not report a misspelled name.
    if (type === undefined) throw new TypeError(`${name} has no field ${field}.`);
    if (value === undefined || (value === null && !keepsNull)) continue;
    parts.push(`${JSON.stringify(field)}:${encodeField(type, value)}`);
  }
  return `{${parts.join(",")}}`;
}

function encodeField(type: string, value: unknown): string {
  if (value === null) return "null";
  if (type.startsWith("amount")) return amountText(value);
  if (type.startsWith("time")) return JSON.stringify(timeText(value));
  return JSON.stringify(value);
}
