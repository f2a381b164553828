/** A process of a test that could run some services of the cluster, started by services.ts: its own list, as a version of Everbeat would have it. */
import { Everbeat } from "../../src/everbeat.ts";
import { ClusterServices } from "../../src/services/cluster-services.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import type { ServiceProcessOptions } from "./service-processes.ts";

const { url, services } = JSON.parse(process.argv[2] as string) as ServiceProcessOptions;
const say = (message: object) => process.connected && process.send?.(message);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
let release = () => {};
const released = new Promise<void>((resolve) => {
  release = resolve;
});
process.on("message", () => release());

const everbeat = await Everbeat.open({ database: url, log: "silent", replyTimeout: "2s" });
const { database } = everbeat;
const id = newReplicaId();
const cluster = new ClusterServices({
  ...{ database, taker: { id } },
  onError: (error) => say({ error: String(error) }),
  services: services.map(({ name, everyMs, isHeldUp }) => ({
    ...{ name, everyMs, doing: name },
    async runOnce({ signal }) {
      signal.addEventListener("abort", () => say({ aborted: name }));
      await database.query("insert into public.run (service, by, began_at) values ($1, $2, clock_timestamp())", [
        name,
        id,
      ]);
      say({ begun: name });
      if (isHeldUp) await Promise.race([released, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
      await database.query(
        "update public.run set ended_at = clock_timestamp() where service = $1 and by = $2 and ended_at is null",
        [name, id],
      );
    },
  })),
});
cluster.start();
say({ ready: id });
