// PostgreSQL refuses to run as root. Under root, this decides which ordinary user it runs as instead.
import { readFile } from "node:fs/promises";
import { otherOwner } from "./other-owner.ts";
import { runProgram } from "./run-program.ts";

export interface ServerAccount {
  readonly uid: number;
  readonly gid: number;
}

const OWN_USER = "everbeat";

/** undefined means: as we are. `folder` exists; `dataFolder` is given once there is a database. */
export async function serverAccountFor(folder: string, dataFolder?: string): Promise<ServerAccount | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  if (dataFolder !== undefined) {
    // Only its owner may run a server on a data folder, so a database begun by an ordinary user stays that user's.
    const owner = await otherOwner(dataFolder);
    if (owner !== undefined) return owner;
  }
  const folderOwner = (await otherOwner(folder))?.uid ?? 0;
  const found = accountAmong(await readPasswd(), folderOwner);
  if (found !== undefined) return found;
  await createOwnUser();
  const passwd = await readPasswd();
  return namedAccount(passwd, OWN_USER) ?? namedAccount(passwd, "nobody") ?? { uid: 65534, gid: 65534 };
}

/**
 * The account to use among those that exist: whoever owns the folder, so that sudo today and no sudo tomorrow see the
 * same database; else the system's own postgres; else one made by us earlier.
 */
export function accountAmong(passwd: string, folderOwner: number): ServerAccount | undefined {
  const owner = folderOwner === 0 ? undefined : accounts(passwd).find((account) => account.uid === folderOwner);
  return owner ?? namedAccount(passwd, "postgres") ?? namedAccount(passwd, OWN_USER);
}

function namedAccount(passwd: string, name: string): ServerAccount | undefined {
  return accounts(passwd).find((account) => account.name === name);
}

function accounts(passwd: string): Array<ServerAccount & { name: string }> {
  return passwd.split("\n").flatMap((line) => {
    const [name, , uid, gid] = line.split(":");
    if (name === undefined || uid === undefined || gid === undefined || Number(uid) === 0) return [];
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}

async function readPasswd(): Promise<string> {
  return await readFile("/etc/passwd", "utf8").catch(() => "");
}

/** Tools differ between distributions, and several processes may be here at once: the list of users is the judge. */
async function createOwnUser(): Promise<void> {
  const shell = "/usr/sbin/nologin";
  await runProgram("useradd", ["--system", "--user-group", "--no-create-home", "--shell", shell, OWN_USER], undefined);
  if (namedAccount(await readPasswd(), OWN_USER) !== undefined) return;
  await runProgram("adduser", ["-S", "-D", "-H", "-s", shell, OWN_USER], undefined);
}
