/** The exit of a process that its parent saw: what cannot be put right of it stops nothing else. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { refuse } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();

test("a task that is refused, and the alert about it that is refused too, do not keep the others from being put right", async () => {
  const task = defineTask({ name: "exiting", run: () => 1 });
  const ids = [await everbeat.enqueue(task), await everbeat.enqueue(task), await everbeat.enqueue(task)];
  const { replicaId, claim } = handClaimer(everbeat.database, ["exiting"]);
  await claim();
  await refuse(database, "ended", `new.task_id = '${ids[0]}'`);
  await refuse(database, "alert", "new.kind = 'sweep-passed-by'");
  const report = await everbeat.recovery.reportExit(replicaId, { exitCode: 1 });
  expect(report).toMatchObject({ verdict: "dead", recovered: [{ taskId: ids[1] }, { taskId: ids[2] }] });
  expect((await everbeat.tasks.show(ids[0] ?? "")).state).toBe("running");
});

test("the memory of its cgroup, as its parent has read it, is a part of the post-mortem and of the cause", async () => {
  const { replicaId, claim } = handClaimer(everbeat.database, ["exiting"]);
  await claim();
  const group = { used: 95, limit: 100, kills: 1 };
  await everbeat.recovery.reportExit(replicaId, { signal: "SIGKILL", group });
  const [told] = await everbeat.recovery.postMortems({ of: replicaId });
  expect(told).toMatchObject({ cause: "out-of-memory" });
  expect(told?.evidence).toContain("the kernel counted 1 kill for want of memory in its cgroup at that time");
  await expect(
    everbeat.recovery.reportExit(replicaId, { signal: "SIGKILL", group: { ...group, limit: 0 } }),
  ).rejects.toThrow("group.limit");
});
