// A process that has a channel for alerts, or none, and that can be told to raise one and to be killed in that moment.
import { Everbeat } from "../../dist/index.js";

const { url, target, name } = JSON.parse(process.argv[2]);
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"));
const webhook = {
  name: "webhook",
  async deliver({ id, change, alert, tries }) {
    const body = JSON.stringify({ id, change, subject: alert.subject, tries, from: name });
    const { ok, status } = await fetch(target, { method: "POST", body });
    if (!ok) throw new Error(`the receiver answered ${status}`);
  },
};
const everbeat = await Everbeat.open({ database: url, log: "silent", ...(target ? { alertChannels: [webhook] } : {}) });
process.on("message", async ({ subject }) => {
  await everbeat.database.query("select everbeat.raise_alert('queue-locked', $1, 'it is locked', null)", [subject]);
  process.kill(process.pid, "SIGKILL");
});
process.send("ready");
