// What can be asked of an embedded server, and waited for.
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import { Client } from "pg";
import { eventually } from "./eventually.ts";

export interface Joined {
  readonly kind: "joined";
  readonly url: string;
  readonly dataFolder: string;
  readonly adopted: boolean;
}
/** Servers take their time on a machine that has other work. */
export function until<T>(what: string, look: () => T | Promise<T>): Promise<NonNullable<T>> {
  return eventually(look, { what, within: 45_000 }) as Promise<NonNullable<T>>;
}

export async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  try {
    await client.connect();
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** Stopped in good order: PostgreSQL removes its postmaster.pid as the last thing that it does. */
export async function untilStopped({ dataFolder, url }: Pick<Joined, "dataFolder" | "url">): Promise<void> {
  await until("the server to stop", async () => !(await readdir(dataFolder)).includes("postmaster.pid"));
  const port = Number(new URL(url).port);
  await until("the port to be closed", async () => !(await accepts(port)));
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy() && resolve(true));
  });
}
