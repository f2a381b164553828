/** What followers are told, and how far they have read: pure decisions. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { isPosition, isSeenIn, readPosition, writePosition } from "../../src/following/position.ts";
import { ReplicaView } from "../../src/following/replica-updates.ts";
import { TaskView } from "../../src/following/task-updates.ts";
import { UpdateQueue } from "../../src/following/update-queue.ts";
import type { Happening, Standing } from "../../src/sql/following.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";

const standing = (some: Partial<Standing> = {}): Standing => ({
  ...{ taskId: "t" as TaskId, state: "pending", attempt: null, claimId: null, replicaId: null, isCancelling: false },
  ...{ phase: null, details: null, share: null, done: null, total: null, note: null, endedAt: null, error: null },
  ...some,
});
const running = (claim: string, some: Partial<Standing> = {}) =>
  standing({ state: "running", claimId: claim as ClaimId, attempt: 1, replicaId: "r" as ReplicaId, ...some });
const happening = (kind: string, claim: string | null = null, details: Happening["details"] = null): Happening => ({
  ...{ id: "1", xact: "1", topic: "task t", at: "2026-01-01T00:00:00Z", kind, details, error: null },
  claimId: claim as ClaimId | null,
});

const coded = (text: string) => Buffer.from(`6c ${text}`).toString("base64url");

describe("a position", () => {
  const position = {
    epoch: "6c6e2949867330",
    before: "748:760:748,752",
    until: "760:760:",
    id: "17",
    told: "running,5,1,,,x-_",
  };

  test("is read back as it was written", () => {
    expect(readPosition(writePosition(position))).toEqual(position);
    const ofReplicas = { ...position, until: position.before, id: "9223372036854775807", told: "" };
    expect(readPosition(writePosition(ofReplicas))).toEqual(ofReplicas);
  });

  test.each([
    "",
    "nonsense",
    ...["760:748: 760:760: 1 ", "748:760:752,748 760:760: 1 ", "748:760:761 760:760: 1 ", "748:760: 760:760:"].map(
      coded,
    ),
    ...["748:760: 748:760: 1; ", "748:760: 748:760: 9223372036854775808 ", "748:760: 748:760: 1 a;b"].map(coded),
    7,
  ])("that nobody has written is refused: %s", (text) => {
    const problems = new Problems();
    isPosition(text, "from", problems);
    expect(problems.list).toEqual(["from: must be the `position` of an update that was told before"]);
  });

  test("of any text is refused or read, and never thrown at", () => {
    fc.assert(fc.property(fc.string(), (text) => void readPosition(text)));
  });

  test("has seen what had ended by then, and not what was under way or came later", () => {
    expect(["747", "748", "749", "752", "759", "760"].map((xact) => isSeenIn("748:760:748,752", xact))).toEqual([
      true,
      false,
      true,
      false,
      true,
      false,
    ]);
    expect(isSeenIn("760:760:", "759")).toBe(true);
  });
});

describe("a follower of a task is told", () => {
  test("how it stands, then what happens", () => {
    const view = new TaskView();
    expect(view.begin(standing(), false)?.kind).toBe("state");
    expect(view.happened(happening("running", "5", { attempt: 2, replicaId: "r" }), undefined)).toEqual({
      ...{ kind: "running", claimId: "5", attempt: 2, replicaId: "r" },
    });
    expect(view.happened(happening("progress", "5", { phase: "one" }), undefined)?.kind).toBe("progress");
    expect(view.compare(running("5", { phase: "one" }))).toBeUndefined();
    expect(view.happened(happening("ended", "5", { state: "completed" }), undefined)?.kind).toBe("ended");
    expect(view.isOver).toBe(true);
  });

  test("whatever nobody has told, from how it stands", () => {
    const view = new TaskView();
    view.begin(standing(), false);
    expect(view.compare(running("5", { phase: "one" }))).toMatchObject({
      ...{ kind: "state", state: "running", phase: "one" },
    });
    expect(view.compare(running("5", { phase: "one" }))).toBeUndefined();
    expect(view.compare(running("5", { phase: "two" }))?.kind).toBe("state");
    expect(view.compare(running("5", { phase: "two", isCancelling: true }))?.kind).toBe("state");
    expect(view.compare(running("6"))?.kind).toBe("state");
    const error = { code: "WORKER_CRASHED", message: "it died" };
    expect(view.compare(standing({ state: "failed", attempt: 2, error }))).toEqual({
      ...{ kind: "ended", state: "failed", attempt: 2, error },
    });
    expect(view.compare(standing({ state: "failed" }))).toBeUndefined();
  });

  test("how it stands, instead of what an attempt says of which nobody has told that it runs", () => {
    const view = new TaskView();
    view.begin(standing(), false);
    const now = running("5", { attempt: 3, phase: "one" });
    expect(view.happened(happening("progress", "5", { phase: "one" }), now)).toBeUndefined();
    expect(view.compare(now)).toMatchObject({ kind: "state", state: "running", attempt: 3, phase: "one" });
    expect(view.happened(happening("progress", "5", { phase: "two" }), undefined)?.kind).toBe("progress");
  });

  test("nothing that an attempt has said which is over, and nothing after the end", () => {
    const view = new TaskView();
    view.begin(running("5"), false);
    view.happened(happening("pending", "5", { because: "failed" }), undefined);
    expect(view.happened(happening("progress", "5", { phase: "late" }), undefined)).toBeUndefined();
    view.happened(happening("running", "6", { attempt: 2 }), undefined);
    expect(view.happened(happening("progress", "5", { phase: "late" }), undefined)).toBeUndefined();
    view.happened(happening("ended", "6", { state: "completed" }), undefined);
    expect(view.compare(running("7"))).toBeUndefined();
  });

  test.each([
    ["", (view: TaskView) => view],
    [
      ", nor to who comes back",
      (view: TaskView) => {
        const resumed = new TaskView();
        resumed.resume(view.told);
        return resumed;
      },
    ],
  ])("nothing twice%s", (_, goOn) => {
    const first = new TaskView();
    first.begin(running("5", { phase: "one", isCancelling: true }), false);
    const view = goOn(first);
    for (const one of [
      happening("running", "5"),
      happening("progress", "5", { phase: "one" }),
      happening("cancelling"),
    ]) {
      expect(view.happened(one, undefined)).toBeUndefined();
    }
    expect(view.compare(running("5", { phase: "one", isCancelling: true }))).toBeUndefined();
    const end = standing({ state: "failed", claimId: "5" as ClaimId, endedAt: "2026-01-01T00:00:00Z" });
    expect(view.compare(end)?.kind).toBe("ended");
    const after = goOn(view);
    expect(after.begin(end, true)).toBeUndefined();
    expect(after.isOver).toBe(true);
  });

  test("who comes back: what nobody has told meanwhile, and that a task which had ended was started over", () => {
    const view = new TaskView();
    view.begin(running("5", { phase: "one" }), false);
    const resumed = new TaskView();
    resumed.resume(view.told);
    expect(resumed.compare(running("5", { phase: "one", isCancelling: true }))).toMatchObject({
      ...{ kind: "state", isCancelling: true },
    });
    view.compare(standing({ state: "failed", endedAt: "2026-01-01T00:00:00Z" }));
    const late = new TaskView();
    late.resume(view.told);
    expect(late.happened(happening("pending", null, { because: "retried" }), undefined)?.kind).toBe("pending");
    expect(late.isOver).toBe(false);
  });

  test("what happens, also with a position that says nonsense of what was told", () => {
    fc.assert(
      fc.property(fc.string(), (told) => {
        const view = new TaskView();
        view.resume(told);
        // Of a claim that is later than any that the position may name.
        expect(view.happened(happening("running", "1000000000000000000"), undefined)?.kind).toBe("running");
      }),
    );
  });

  test("the end with its error, as it is on record", () => {
    const view = new TaskView();
    view.begin(running("5"), false);
    const error = { code: "BOOM", message: "no" };
    const ended = standing({ state: "failed", claimId: "5" as ClaimId, attempt: 1, error });
    expect(view.happened(happening("ended", "5", { state: "failed" }), ended)).toEqual({
      ...{ kind: "ended", state: "failed", attempt: 1, error },
    });
  });

  test("the end that it came to, and not the one after it was started over", () => {
    const view = new TaskView();
    view.begin(running("5"), false);
    const again = standing({ state: "completed", claimId: "6" as ClaimId, attempt: 2 });
    const error = { code: "BOOM", message: "no" };
    expect(view.happened({ ...happening("ended", "5", { state: "failed" }), error }, again)).toEqual({
      ...{ kind: "ended", state: "failed", attempt: 1, error },
    });
    const late = new TaskView();
    late.resume(view.told);
    expect(late.compare(again)).toMatchObject({ kind: "ended", state: "completed" });
  });

  test("nothing of a kind that a newer release has", () => {
    const view = new TaskView();
    view.begin(standing(), false);
    expect(view.happened(happening("teleported"), undefined)).toBeUndefined();
    expect(new ReplicaView().happened(happening("teleported", null, {}))).toBeUndefined();
  });
});

describe("updates that wait for a reader", () => {
  const queue = (limit = 3) => new UpdateQueue<string>(limit, (count, last) => `${count} lost up to ${last}`);
  const read = async (from: UpdateQueue<string>) => {
    const items: string[] = [];
    for (let next = await from.take(); !next.done; next = await from.take()) items.push(next.value);
    return items;
  };

  test("are read in order, before and after they come", async () => {
    const some = queue();
    const first = some.take();
    some.put("a");
    some.put("b");
    some.close();
    expect(await first).toEqual({ done: false, value: "a" });
    expect(await read(some)).toEqual(["b"]);
  });

  test("are lost from the oldest on, with their number, and the last never is", async () => {
    const some = queue();
    for (const item of ["a", "b", "c", "d", "e"]) some.put(item);
    some.put("end");
    some.close();
    expect(await read(some)).toEqual(["3 lost up to c", "d", "e", "end"]);
  });

  test("end for everybody who waits", async () => {
    const some = queue();
    const waiting = [some.take(), some.take()];
    some.close();
    some.put("too late");
    expect(await Promise.all(waiting)).toEqual(
      [{ done: true }, { done: true }].map((one) => ({ ...one, value: undefined })),
    );
  });

  test("fail once: for who waits, or for who asks next", async () => {
    const some = queue();
    const waiting = some.take();
    some.fail(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    expect(await read(some)).toEqual([]);
    const other = queue();
    other.put("a");
    other.fail(new Error("gone"));
    await expect(other.take()).rejects.toThrow("gone");
    expect(await read(other)).toEqual([]);
  });
});
