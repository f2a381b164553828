/** A task: what it is called, what it takes, what it does, and what happens when that goes wrong. */
import { defineTask } from "everbeat";
import { z } from "zod";

export const greet = defineTask({
  name: "greet",
  input: z.object({ name: z.string().min(1) }),
  retry: { attempts: 3, delay: "100ms" },
  async run({ name }, { task }) {
    if (name === "Grace" && task.attempt === 1) throw new Error("the first try fails");
    return { greeting: `Hello, ${name}!`, attempt: task.attempt };
  },
});
