import { describe, expect, test } from "vitest";
import {
  beginForSharedSession,
  changesForOwnSession,
  connectionCheck,
  frameForSharedSession,
} from "../../src/database/session-settings.ts";

const USUAL = {
  isolation: "read committed",
  isReadOnly: false,
  forms: { datestyle: "ISO, DMY", extra_float_digits: "0" },
  limitsMs: { statement_timeout: 0, lock_timeout: 0, idle_session_timeout: 0 },
};

test("how often the server looks for its client is said where nobody has said it, and the server knows of it", () => {
  expect(connectionCheck({ ...USUAL, connectionCheckMs: 0 })).toEqual([["client_connection_check_interval", "5000"]]);
  expect(connectionCheck({ ...USUAL, connectionCheckMs: 1_000 })).toEqual([]);
  expect(connectionCheck(USUAL)).toEqual([]);
});

describe("a session with the usual settings", () => {
  test("is used as it is, whoever it belongs to", () => {
    expect(changesForOwnSession(USUAL)).toEqual([]);
    expect(frameForSharedSession(USUAL)).toBeUndefined();
  });
});

describe("a session of our own", () => {
  test("is made read committed", () => {
    expect(changesForOwnSession({ ...USUAL, isolation: "serializable" })).toEqual([
      ["default_transaction_isolation", "read committed"],
    ]);
  });

  test("may write, and writes times and numbers as we read them", () => {
    const forms = { datestyle: "German, DMY", extra_float_digits: "-3" };
    expect(changesForOwnSession({ ...USUAL, isReadOnly: true, forms })).toEqual([
      ["default_transaction_read_only", "off"],
      ["datestyle", "ISO"],
      ["extra_float_digits", "1"],
    ]);
  });

  test("has its limits raised to a minute, and longer ones left as they are", () => {
    const limitsMs = { statement_timeout: 59_999, lock_timeout: 60_000, transaction_timeout: 5 };
    expect(changesForOwnSession({ ...USUAL, limitsMs })).toEqual([
      ["statement_timeout", "60000"],
      ["transaction_timeout", "60000"],
    ]);
  });

  test("is never ended for being idle", () => {
    const changes = changesForOwnSession({ ...USUAL, limitsMs: { idle_session_timeout: 3_600_000 } });
    expect(changes).toEqual([["idle_session_timeout", "0"]]);
  });
});

describe("a session that is not ours alone", () => {
  test("brings each statement in a transaction of its own where its level is another", () => {
    expect(frameForSharedSession({ ...USUAL, isolation: "repeatable read" })).toBe(
      "begin isolation level read committed; set local idle_in_transaction_session_timeout = 5000",
    );
  });

  test("brings each statement in a transaction that may write, where others may not", () => {
    expect(frameForSharedSession({ ...USUAL, isReadOnly: true })).toBe(
      "begin isolation level read committed read write; set local idle_in_transaction_session_timeout = 5000",
    );
    expect(beginForSharedSession({ ...USUAL, isReadOnly: true })).toBe(
      "begin isolation level read committed read write",
    );
  });

  test("brings each statement in a transaction that writes times as we read them", () => {
    const settings = { ...USUAL, forms: { datestyle: "SQL, DMY", extra_float_digits: "1" } };
    expect(frameForSharedSession(settings)).toBe(
      "begin isolation level read committed; set local datestyle = ISO; set local idle_in_transaction_session_timeout = 5000",
    );
    expect(beginForSharedSession(settings)).toBe("begin isolation level read committed; set local datestyle = ISO");
  });

  test.each([
    [999, "; set local idle_in_transaction_session_timeout = 5000"],
    [1_000, ""],
    [5_000, ""],
    [5_001, "; set local idle_in_transaction_session_timeout = 5000"],
  ])("has the frame of a process that was stopped ended within five seconds: with a limit of %i ms", (ms, change) => {
    const settings = { ...USUAL, isolation: "serializable", limitsMs: { idle_in_transaction_session_timeout: ms } };
    expect(frameForSharedSession(settings)).toBe(`begin isolation level read committed${change}`);
  });

  test("leaves an application time between the statements of its transaction", () => {
    expect(beginForSharedSession({ ...USUAL, isolation: "serializable" })).toBe("begin isolation level read committed");
    expect(beginForSharedSession({ ...USUAL, limitsMs: { idle_in_transaction_session_timeout: 999 } })).toBe(
      "begin isolation level read committed; set local idle_in_transaction_session_timeout = 60000",
    );
  });

  test("is asked as usual where its limits are those of an ordinary application", () => {
    expect(frameForSharedSession({ ...USUAL, limitsMs: { statement_timeout: 1_000 } })).toBeUndefined();
  });

  test("has limits below a second raised for the statement; that of the transaction, which has begun, is taken away", () => {
    const limitsMs = { statement_timeout: 999, transaction_timeout: 999, idle_session_timeout: 5 };
    expect(frameForSharedSession({ ...USUAL, limitsMs })).toBe(
      "begin isolation level read committed; set local statement_timeout = 60000; set local transaction_timeout = 0; " +
        "set local idle_in_transaction_session_timeout = 5000",
    );
  });
});
