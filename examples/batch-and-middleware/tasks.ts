import { AsyncLocalStorage } from "node:async_hooks";
import { defineBatchTask, defineTask, type Middleware } from "everbeat";
import { z } from "zod";

/** How many inputs each call of the handler got. */
export const callSizes: number[] = [];

/** One request to a service that takes many addresses at once, instead of one request each. */
export const geocode = defineBatchTask({
  name: "geocode",
  input: z.object({ address: z.string() }),
  batchSize: 50,
  async run(items) {
    callSizes.push(items.length);
    return items.map(({ input }) =>
      input.address === "Atlantis" ? new Error("Atlantis cannot be found") : { latitude: input.address.length },
    );
  },
});

const tenants = new AsyncLocalStorage<string>();

export const whoAmI = defineTask({
  name: "who-am-i",
  run: async () => tenants.getStore() ?? "nobody",
});

/** What the application wants around every handler: here, who the work is for. */
export const asTenant: Middleware = (context, next) => {
  const { tenant } = (context.task.metadata ?? {}) as { tenant?: string };
  return tenant === undefined ? next() : tenants.run(tenant, next);
};

export const blockTenant =
  (blocked: string): Middleware =>
  async (context, next) => {
    const { tenant } = (context.task.metadata ?? {}) as { tenant?: string };
    if (tenant === blocked) throw Object.assign(new Error(`${tenant} is blocked`), { code: "TENANT_BLOCKED" });
    return next();
  };

export const timings: { name: string; ms: number }[] = [];

export const timed: Middleware = async (context, next) => {
  const startedMs = performance.now();
  try {
    return await next();
  } finally {
    timings.push({ name: context.task.name, ms: performance.now() - startedMs });
  }
};
