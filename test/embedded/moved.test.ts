/** Project folders that are renamed, copied and deleted while their server runs, or after. */
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import {
  keepersOf,
  oneKeeperAtWork,
  processesWith,
  query,
  temporaryProject,
  until,
} from "../support/embedded-project.ts";

// Real servers, several at once, on a machine that has other work too.
vi.setConfig({ testTimeout: 180_000 });

test.concurrent("a project that is renamed while its server runs has its data at the next start, at once", async (context) => {
  const project = await temporaryProject(context, { inside: "before" });
  const joined = await (await project.client()).join();
  await query(joined.url, "create table kept as select 42 as answer");
  await oneKeeperAtWork(project.folder, joined.url);
  await rename(join(project.root, "before"), join(project.root, "after"));
  const folder = join(project.root, "after", ".everbeat");
  const beganAt = performance.now();
  const again = await (await project.client({ folder })).join();
  // It used to be locked for a minute.
  expect(performance.now() - beganAt).toBeLessThan(30_000);
  expect(again).toMatchObject({ dataFolder: join(folder, "data"), adopted: false });
  expect(await query(again.url, "select * from kept")).toEqual([{ answer: 42 }]);
  await until("the end of what ran there before", async () => {
    const left = [...(await keepersOf(project.folder)), ...(await processesWith("postgres", joined.dataFolder))];
    return left.length === 0;
  });
});

test.concurrent("a server whose project was renamed is stopped after the last process has left", async (context) => {
  const project = await temporaryProject(context, { inside: "before" });
  const client = await project.client();
  const joined = await client.join();
  await oneKeeperAtWork(project.folder, joined.url);
  await rename(join(project.root, "before"), join(project.root, "after"));
  await client.close();
  await until("its end", async () => (await processesWith("postgres", joined.dataFolder)).length === 0);
  await until("the keeper's end", async () => (await keepersOf(project.folder)).length === 0);
});
