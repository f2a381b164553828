/** An application with two workers in its process that makes a mistake of its own, outside of any handler. */
import { defineTask, Everbeat } from "../../dist/index.js";

const [url] = process.argv.slice(2);
const add = defineTask({ name: "add", run: async (n) => n + 1 });
for (let nth = 0; nth < 2; nth++) {
  const everbeat = await Everbeat.open({ database: url, log: "silent" });
  await everbeat.work([add], { handleSignals: false });
}
Promise.reject(new Error("the application's own mistake"));
