/** What is kept of the errors behind an error, and how they are told in one line. */
import { expect, test } from "vitest";
import { carryError, reviveError } from "../../src/runner/carried-error.ts";
import { inOneLine, toErrorRecord } from "../../src/task/error-record.ts";

const line = (thrown: unknown) => inOneLine(toErrorRecord(thrown));

test("a line of text has the causes of an error", () => {
  expect(line(new Error("alone"))).toBe("alone");
  expect(line(new Error("fetch failed", { cause: new Error("bad port") }))).toBe("fetch failed (cause: bad port)");
  const deep = new Error("a", { cause: new Error("b", { cause: new Error("c") }) });
  expect(line(deep)).toBe("a (cause: b (cause: c))");
  expect(line(new Error("outer", { cause: "just text" }))).toBe('outer (cause: "just text")');
});

test("a cause that the message repeats is not told twice, and a long one is cut", () => {
  expect(line(new Error("failed: bad port", { cause: new Error("bad port") }))).toBe("failed: bad port");
  expect(line(new Error("outer", { cause: new Error("x".repeat(10_000)) })).length).toBeLessThan(600);
});

test("the errors of an AggregateError are kept", () => {
  const both = new AggregateError([new Error("one"), Object.assign(new Error("two"), { code: "E_TWO" })], "both");
  expect(toErrorRecord(both)).toMatchObject({
    name: "AggregateError",
    message: "both",
    errors: [
      { message: "one", stack: expect.stringContaining("at ") },
      { code: "E_TWO", message: "two" },
    ],
  });
  expect(line(both)).toBe("both (errors: one; two)");
  expect(line(new Error("outer", { cause: both }))).toBe("outer (cause: both (errors: one; two))");
});

test("of many errors, and of errors within errors, a bounded number is kept, and it is said how many there were", () => {
  const many = new AggregateError(Array.from({ length: 1_000 }, (_, n) => new Error(`no ${n}`)));
  const record = toErrorRecord(many);
  expect(record.errors).toHaveLength(5);
  expect(record.errorsLeftOff).toBe(995);
  expect(inOneLine(record)).toBe("AggregateError (errors: no 0; no 1; no 2; no 3; no 4; 995 more)");
  const wide = (depth: number): AggregateError =>
    new AggregateError(
      Array.from({ length: 9 }, () => (depth === 0 ? new Error("x".repeat(50_000)) : wide(depth - 1))),
    );
  expect(JSON.stringify(toErrorRecord(wide(4))).length).toBeLessThan(500_000);
  const cyclic = new AggregateError([], "round");
  cyclic.errors.push(cyclic, cyclic);
  cyclic.cause = cyclic;
  expect(JSON.stringify(toErrorRecord(cyclic)).length).toBeLessThan(50_000);
  const hostile = new AggregateError([]);
  Object.defineProperty(hostile, "errors", { value: 7 });
  expect(toErrorRecord(hostile).errors).toBeUndefined();
});

test("a record is the same after another look, and after its way from a runner", () => {
  const error = new Error("outer", {
    cause: new AggregateError(
      Array.from({ length: 7 }, (_, n) => new Error(`no ${n}`)),
      "inner",
    ),
  });
  const record = toErrorRecord(error);
  expect(toErrorRecord(record)).toEqual(record);
  expect(inOneLine(toErrorRecord(reviveError(carryError(error))))).toBe(inOneLine(record));
});
