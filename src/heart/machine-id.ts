/** Which host this is: the same for all of its processes and across restarts, where the system tells. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

export function machineId(): string {
  const given = process.env["EVERBEAT_MACHINE_ID"];
  if (given) return given;
  for (const file of ["/etc/machine-id", "/var/lib/dbus/machine-id"]) {
    try {
      const id = readFileSync(file, "utf8").trim();
      // Containers share their image's id but not their name.
      if (id !== "") return `${id}/${hostname()}`;
    } catch {
      // Not on this system.
    }
  }
  return hostname();
}
