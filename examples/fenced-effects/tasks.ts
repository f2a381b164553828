import { once } from "node:events";
import { defineTask, type Everbeat } from "everbeat";
import { z } from "zod";

export interface Parts {
  readonly everbeat: Everbeat;
  /** Who runs it, for the story. */
  readonly by: string;
  /** Called when all is written and only the commit is left. */
  readonly beforeCommit?: () => Promise<void>;
  /** Called with what the database said instead of committing. */
  readonly onRefused?: (error: unknown) => void;
}

/** Books a payment and completes the task in the same transaction: both commit, or neither does. */
export const bookPayment = ({ everbeat, by, beforeCommit, onRefused }: Parts) =>
  defineTask({
    name: "book-payment",
    input: z.object({ payment: z.uuid(), cents: z.int() }),
    onCrash: "retry",
    async run({ payment, cents }, { claim }) {
      const booking = everbeat.database.transaction(async (tx) => {
        await tx.query("insert into example_ledger (payment, cents, booked_by) values ($1, $2, $3)", [
          payment,
          cents,
          by,
        ]);
        await claim.completeIn(tx, { bookedBy: by });
        await beforeCommit?.();
      });
      await booking.catch((error: unknown) => {
        onRefused?.(error);
        throw error;
      });
    },
  });

/** The next message from the parent process. */
export async function told(word: string): Promise<void> {
  for (;;) {
    const [message] = await once(process, "message");
    if (message === word) return;
  }
}
