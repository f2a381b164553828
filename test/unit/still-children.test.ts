/** Which children stand still: dead on record, and without an answer for many looks. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Child } from "../../src/supervisor/child.ts";
import { StillChildren } from "../../src/supervisor/still-children.ts";
import type { ReplicaId } from "../../src/task/ids.ts";

const MANY = 40;

interface FakeChild {
  replicaId: ReplicaId | undefined;
  answers: number;
  hasExited: boolean;
  isAwake: boolean;
  asked: number;
}

let child: FakeChild & Pick<Child, "wantAnswer">;
let dead: Set<string>;
let ended: unknown[];
let still: StillChildren;

beforeEach(() => {
  dead = new Set();
  ended = [];
  child = {
    ...{ replicaId: "a" as ReplicaId, answers: 0, hasExited: false, isAwake: true, asked: 0 },
    wantAnswer() {
      this.asked++;
      if (this.isAwake) this.answers++;
    },
  };
  still = new StillChildren({
    store: {
      schema: "everbeat",
      query: async <Row>(_: string, [ids]: readonly unknown[] = []) =>
        (ids as string[]).filter((id) => dead.has(id)).map((id) => ({ id })) as Row[],
    },
    children: () => [child as unknown as Child],
    onStill: (each) => ended.push(each),
  });
});

const look = async (times: number) => {
  for (let each = 0; each < times; each++) await still.look();
};

describe("a child", () => {
  test("that is alive on record is never asked, whether it answers or not", async () => {
    child.isAwake = false;
    await look(MANY);
    expect([child.asked, ended]).toEqual([0, []]);
  });

  test("that is dead on record and answers stays, however long it takes to come back", async () => {
    dead.add("a");
    await look(MANY);
    expect(ended).toEqual([]);
  });

  test("that is dead on record and does not answer is ended, once", async () => {
    dead.add("a");
    child.isAwake = false;
    await look(MANY);
    expect(ended).toEqual([child]);
  });

  test("that is slow, and answers after some looks, stays", async () => {
    dead.add("a");
    for (let round = 0; round < 5; round++) {
      child.isAwake = false;
      await look(10);
      child.isAwake = true;
      await look(1);
    }
    expect(ended).toEqual([]);
  });

  test("that has come back under another id is not ended for the silence of the one before", async () => {
    dead.add("a");
    child.isAwake = false;
    await look(10);
    child.replicaId = "b" as ReplicaId;
    await look(MANY);
    expect(ended).toEqual([]);
  });

  test("that has never joined, or has ended, is left alone", async () => {
    dead.add("a");
    child.isAwake = false;
    child.hasExited = true;
    await look(MANY);
    child.hasExited = false;
    child.replicaId = undefined;
    await look(MANY);
    expect(ended).toEqual([]);
  });
});
