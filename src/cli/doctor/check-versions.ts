/** What is running here. */

import { type Finding, good, wrong } from "../../doctor/finding.ts";
import { VERSION } from "../../version.ts";

const OLDEST_NODE = [20, 12] as const;

export function checkVersions(node: string = process.versions.node): Finding {
  const found = `Everbeat ${VERSION} on Node ${node}`;
  const [major = 0, minor = 0] = node.split(".").map(Number);
  const isOld = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  if (!isOld) return good("versions", found);
  const advice = `Use Node ${OLDEST_NODE.join(".")} or newer.`;
  return wrong("versions", found, advice);
}
