/**
 * Parses JSON without rounding numbers. `JSON.parse` would turn 90071992547409.93 into another
 * amount, because a number in JavaScript is a binary floating-point number.
 */

/** A number in JSON, as it was written. */
export class ExactNumber {
  constructor(readonly text: string) {}

  /** The number as a decimal string without an exponent, or null if that has too many digits. */
  get decimal(): string | null {
    const [digits = "", power] = this.text.toLowerCase().split("e");
    if (power === undefined) return digits;
    return Math.abs(Number(power)) > SHIFT_MAX ? null : shifted(digits, Number(power));
  }

  get isInteger(): boolean {
    return /^-?[0-9]+$/.test(this.text);
  }
}

const DEPTH_MAX = 200;
const SHIFT_MAX = 1000;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const CONSTANTS: readonly (readonly [string, true | false | null])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/** Parses JSON. Numbers become instances of `ExactNumber`. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  const parser = new Parser(text);
  const value = parser.value(0);
  parser.end();
  return value;
}

class Parser {
  #position = 0;

  constructor(readonly text: string) {}

  value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw new SyntaxError("The JSON is nested too deeply.");
    this.#match(SPACE);
    const next = this.text[this.#position];
    if (next === "{") return this.#object(depth);
    if (next === "[") return this.#array(depth);
    if (next === '"') return this.#string();
    for (const [word, constant] of CONSTANTS) {
      if (this.text.startsWith(word, this.#position)) {
        this.#position += word.length;
        return constant;
      }
    }
    const number = this.#match(NUMBER);
    if (!number) throw this.#unexpected();
    return new ExactNumber(number);
  }

  end(): void {
    this.#match(SPACE);
    if (this.#position < this.text.length) throw this.#unexpected();
  }

  #object(depth: number): Record<string, unknown> {
    // Without a prototype, a field named __proto__ is a field like any other.
    const found = Object.create(null) as Record<string, unknown>;
    this.#items("}", () => {
      this.#match(SPACE);
      const name = this.#string();
      if (!this.#take(":")) throw this.#unexpected();
      found[name] = this.value(depth + 1);
    });
    return found;
  }

  #array(depth: number): unknown[] {
    const found: unknown[] = [];
    this.#items("]", () => found.push(this.value(depth + 1)));
    return found;
  }

  #items(closing: string, read: () => void): void {
    this.#position += 1;
    if (this.#take(closing)) return;
    do read();
    while (this.#take(","));
    if (!this.#take(closing)) throw this.#unexpected();
  }

  #string(): string {
    const quoted = this.#match(STRING);
    if (!quoted) throw this.#unexpected();
    return JSON.parse(quoted) as string;
  }

  #take(sign: string): boolean {
    this.#match(SPACE);
    if (this.text[this.#position] !== sign) return false;
    this.#position += 1;
    return true;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#position;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.#position += found.length;
    return found;
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`Unexpected text at position ${this.#position}.`);
  }
}

function shifted(digits: string, power: number): string {
  const sign = digits.startsWith("-") ? "-" : "";
  const [whole = "", fraction = ""] = digits.slice(sign.length).split(".");
  const all = whole + fraction;
  const point = whole.length + power;
  const padded = point > 0 ? all.padEnd(point, "0") : "0".repeat(1 - point) + all;
  const at = Math.max(point, 1);
  const left = padded.slice(0, at).replace(/^0+(?=[0-9])/, "");
  const right = padded.slice(at);
  return `${sign}${left}${right ? `.${right}` : ""}`;
}
