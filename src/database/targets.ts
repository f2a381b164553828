/** Where the database may be: one address, or several of which one is the primary. */
import { Problems } from "../config/problems.ts";
import { checkRequireAuth } from "./require-auth.ts";

export interface Targets {
  /** As of now: asked anew for each connection, since an embedded server can come back at another address. */
  readonly urls: readonly string[];
  /** "primary": a server that only follows another is passed over. */
  readonly role: "primary" | "any";
}

/** A URL as libpq takes it, also with several hosts (`postgres://user@a:5432,b:5432/db`), becomes one URL per host. */
export function parseTargets(given: string | { urls: readonly string[]; role?: "primary" | "any" }): Targets {
  const problems = new Problems();
  const list = typeof given === "string" ? [given] : given.urls;
  const urls = list.flatMap((url) => expandHosts(url, problems));
  for (const url of list) checkRequireAuth(String(url), problems);
  if (list.length === 0) problems.add("urls", "must name at least one address");
  const asked = typeof given === "string" ? undefined : given.role;
  if (asked !== undefined && asked !== "primary" && asked !== "any") problems.add("role", `must be "primary" or "any"`);
  problems.throwIfAny("The database address");
  return { urls, role: asked ?? (urls.length > 1 ? "primary" : "any") };
}

function expandHosts(url: string, problems: Problems): string[] {
  const match = /^(postgres(?:ql)?:\/\/)([^/?#]*)(.*)$/.exec(String(url));
  if (!match) {
    problems.add(
      "",
      `must look like postgres://user:password@host:5432/name, not ${JSON.stringify(withoutPassword(String(url)))}`,
    );
    return [];
  }
  const [, scheme = "", authority = "", rest = ""] = match;
  const cut = authority.lastIndexOf("@") + 1;
  const credentials = authority.slice(0, cut);
  // The role is asked for by `role`; libpq's own word for it is not known to the driver.
  const cleaned = rest.replace(/([?&])target_session_attrs=[^&]*&?/, "$1").replace(/[?&]$/, "");
  return authority
    .slice(cut)
    .split(",")
    .map((host) => `${scheme}${credentials}${host}${cleaned}`);
}

/** For a line that is to be typed again: the server asks for the password, or it comes from elsewhere. */
export function withoutCredential(url: string): string {
  return url
    .replace(/(:\/\/[^:/@]*):[^/?#]*@/, "$1@")
    .replace(/([?&])password=[^&#]*&?/, "$1")
    .replace(/[?&](?=#|$)/, "");
}

/** For messages: an address never takes its password with it. */
export function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^:/@]*):[^/?#]*@/, "$1:***@").replace(/([?&]password=)[^&]*/, "$1***");
}
