/**
 * libpq's `require_auth=scram-sha-256`, which the driver does not know: only a server that proves that it knows the password is talked to.
 *
 * The driver itself answers whatever it is asked, also for the password in clear text, and takes a server that asks for nothing. Whoever
 * listens on the port of a server that has died would get the password, or our statements.
 */
import type pg from "pg";
import type { Problems } from "../config/problems.ts";
import { EverbeatError } from "../errors.ts";

const SCRAM = "scram-sha-256";

class ServerUnprovenError extends EverbeatError {
  readonly code = "SERVER_UNPROVEN";
  readonly kind = "refused";

  constructor(what: string) {
    super(
      `The server ${what}. Only SCRAM is accepted here (require_auth=${SCRAM}), by which a server proves that it ` +
        "knows the password: this may be a stranger on the server's address.",
    );
  }
}

export function requiresScram({ connectionString }: pg.ClientConfig): boolean {
  return requiredIn(connectionString).length > 0;
}

/** libpq knows other methods, lists of them and what must not be used: to pass over one of these would promise more than is kept. */
export function checkRequireAuth(url: string | undefined, problems: Problems): void {
  for (const method of requiredIn(url).filter((name) => name !== SCRAM)) {
    const given = JSON.stringify(method);
    problems.add("require_auth", `must be ${SCRAM}, the only method that can be required here, not ${given}`);
  }
}

function requiredIn(url = ""): string[] {
  const [, query = ""] = /\?([^#]*)/.exec(url) ?? [];
  return new URLSearchParams(query).getAll("require_auth");
}

/** Connects, or fails before anything secret has left. */
export async function connectByScram(client: pg.Client): Promise<void> {
  const { connection } = client;
  let hasProof = false;
  // The driver's own listeners come after ours, and write nothing to a stream that is destroyed.
  const refuse = (what: string) => connection.stream.destroy(new ServerUnprovenError(what));
  connection.on("authenticationCleartextPassword", () => refuse("asks for the password in clear text"));
  connection.on("authenticationMD5Password", () => refuse("asks for the password as an MD5 hash"));
  connection.on("authenticationSASLFinal", () => {
    hasProof = true;
  });
  connection.on("authenticationOk", () => void (hasProof || refuse("asks for no proof of who we are, and gives none")));
  // A wrong signature is such an error, after which the driver would go on to read.
  connection.on("error", () => connection.stream.destroy());
  await client.connect();
  if (!hasProof) throw new ServerUnprovenError("does not say who it is");
}
