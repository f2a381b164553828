// The users of this system, as its own list and a directory service (LDAP, sssd) know them.
//
// A folder says whose it is by a number. Its group says nothing of its owner, who may not be in it: so a user's group comes from here.
import { readFile } from "node:fs/promises";
import { runProgram } from "./run-program.ts";

export interface ServerAccount {
  readonly uid: number;
  readonly gid: number;
}

interface User extends ServerAccount {
  readonly name: string;
}

/** Of a user who is in no list. */
const NO_GROUP = 65534;

export async function accountOf(uid: number): Promise<ServerAccount> {
  const user = usersIn(await listOfUsers(uid)).find((known) => known.uid === uid);
  return { uid, gid: user?.gid ?? NO_GROUP };
}

/** In the form of /etc/passwd, and with the one that is asked for, wherever that one is known. */
export async function listOfUsers(asked?: number): Promise<string> {
  const list = await readFile("/etc/passwd", "utf8").catch(() => "");
  if (asked === undefined || usersIn(list).some(({ uid }) => uid === asked)) return list;
  return `${list}\n${await askDirectory(asked)}`;
}

/** Where there is no `getent`, as on a Mac, `id -P` says the same. By root itself: a process of that user could be made to say anything. */
async function askDirectory(uid: number): Promise<string> {
  for (const [program, ...args] of [
    ["getent", "passwd", String(uid)],
    ["id", "-P", String(uid)],
  ] as const) {
    const { exitCode, output } = await runProgram(program, args, undefined);
    const line = output.split("\n").find((text) => usersIn(text).some((user) => user.uid === uid));
    if (exitCode === 0 && line !== undefined) return line;
  }
  return "";
}

export function usersIn(passwd: string): User[] {
  return passwd.split("\n").flatMap((line) => {
    const [name, , uid, gid] = line.split(":");
    const user = { name: name ?? "", uid: Number(uid), gid: Number(gid) };
    // Lines that name no user (comments, other lists) have no numbers there.
    return user.uid > 0 && user.gid >= 0 ? [user] : [];
  });
}
