import { defineTask, type Everbeat } from "everbeat";
import { z } from "zod";

/** Reads the order it is about: which is there, because both came with the same commit. */
export const sendReceipt = (everbeat: Everbeat) =>
  defineTask({
    name: "send-receipt",
    input: z.object({ orderId: z.uuid() }),
    async run({ orderId }) {
      const [order] = await everbeat.database.query<{ item: string }>("select item from example_order where id = $1", [
        orderId,
      ]);
      if (!order) throw new Error(`there is no order ${orderId}`);
      return `a receipt for one ${order.item}`;
    },
  });
