import { describe, expect, test } from "vitest";
import { quoteIdentifier } from "../../src/database/identifiers.ts";
import { toParameter } from "../../src/database/parameters.ts";
import { toLists, toObjects } from "../../src/database/rows.ts";
import { parseTargets, withoutPassword } from "../../src/database/targets.ts";
import { isTransient } from "../../src/database/transient.ts";

describe("database addresses", () => {
  test("with several hosts become one address per host, and ask for the primary", () => {
    expect(parseTargets("postgres://u:p%40@a:1,b:2/db?sslmode=require&target_session_attrs=read-write")).toEqual({
      urls: ["postgres://u:p%40@a:1/db?sslmode=require", "postgres://u:p%40@b:2/db?sslmode=require"],
      role: "primary",
    });
    expect(parseTargets("postgresql://a/db?target_session_attrs=any")).toEqual({
      urls: ["postgresql://a/db"],
      role: "any",
    });
    expect(parseTargets({ urls: ["postgres://a/x", "postgres://b/x"], role: "any" }).role).toBe("any");
  });

  test("that are none are refused without giving the password away", () => {
    expect(() => parseTargets("mysql://u:secret@a/db")).toThrow(/must look like postgres:/);
    expect(() => parseTargets("mysql://u:secret@a/db")).not.toThrow(/secret/);
    expect(() => parseTargets({ urls: [] })).toThrow(/at least one address/);
  });

  test("are shown without their password", () => {
    expect(withoutPassword("postgres://me:secret@host/db")).toBe("postgres://me:***@host/db");
    expect(withoutPassword("postgres://me:p@ss:w@host:5432/db")).toBe("postgres://me:***@host:5432/db");
    expect(withoutPassword("postgres://host/db?user=me&password=secret")).toBe(
      "postgres://host/db?user=me&password=***",
    );
  });
});

test("identifiers are quoted, quotes included", () => {
  expect(quoteIdentifier('a"; drop table x; --')).toBe('"a""; drop table x; --"');
});

describe("errors that pass by themselves", () => {
  test.each([["57P01"], ["57P03"], ["08006"], ["40P01"], ["ECONNREFUSED"], ["25006"]])("%s does", (code) => {
    expect(isTransient(Object.assign(new Error("x"), { code }))).toBe(true);
  });
  test("a connection that ended under a query does", () => {
    expect(isTransient(new Error("Connection terminated unexpectedly"))).toBe(true);
  });
  test.each([["23505"], ["42P01"], ["28P01"], ["EB001"], ["42501"]])("%s does not", (code) => {
    expect(isTransient(Object.assign(new Error("x"), { code }))).toBe(false);
  });
  test("nothing at all does not", () => expect(isTransient(undefined)).toBe(false));
});

describe("parameters", () => {
  test("that are lists of whole numbers go as one text", () => {
    expect(toParameter(["9223372036854775807", "2", 3])).toBe("{9223372036854775807,2,3}");
    expect(toParameter([])).toBe("{}");
  });

  test("of every other kind are left to the driver, which quotes them", () => {
    for (const value of ["1", 1, null, ["1,2"], [""], ["-1"], ["a"], [null], [1.5], [["1"]], { a: 1 }])
      expect(toParameter(value)).toBe(value);
  });
});

describe("rows", () => {
  const result = (rows: unknown[], names: string[]) =>
    ({ rows, fields: names.map((name) => ({ name })) }) as unknown as Parameters<typeof toObjects>[0];

  test("come as arrays and are objects here, with a null where there is nothing", () => {
    const rows = result(
      [
        [1, "a"],
        [2, null],
      ],
      ["id", "name"],
    );
    expect(toObjects(rows)).toEqual([
      { id: 1, name: "a" },
      { id: 2, name: null },
    ]);
    expect(toObjects(result([], ["id"]))).toEqual([]);
  });

  test("of a driver that knows only objects stay as they are", () => {
    expect(toObjects(result([{ id: 1 }], ["id"]))).toEqual([{ id: 1 }]);
  });

  test("are lists in the order of the columns for whoever asks for lists, whatever the driver knows", () => {
    const lists = [["a", null, 1]];
    expect(toLists(result(lists, ["name", "key", "id"]))).toEqual(lists);
    expect(toLists(result([{ id: 1, key: null, name: "a" }], ["name", "key", "id"]))).toEqual(lists);
    expect(toLists(result([], ["id"]))).toEqual([]);
  });
});
