/**
 * Names for statements that are asked over and over: the server keeps what it has made of them and reads them once per
 * connection, which for a short statement is a third of its cost.
 *
 * A name is made from the text, so the same name is the same statement whoever gave it. Behind a pooler that passes every
 * transaction to another connection and does not look after names, they are unknown or taken there: then we do without.
 */
import { createHash } from "node:crypto";

/** invalid_sql_statement_name, duplicate_prepared_statement, and a function whose result has changed since. */
const TROUBLE_WITH_NAMES = new Set(["26000", "42P05", "0A000"]);

export class PreparedNames {
  readonly #names = new Map<string, string>();
  #isWithout = false;

  of(text: string): string | undefined {
    if (this.#isWithout) return undefined;
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    const name = `everbeat_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
    this.#names.set(text, name);
    return name;
  }

  /** Whether a statement failed on account of its name. Such a one has done nothing yet. */
  isToBlameFor(error: unknown): boolean {
    return TROUBLE_WITH_NAMES.has((error as { code?: string }).code ?? "");
  }

  doWithout(): void {
    this.#isWithout = true;
  }
}
