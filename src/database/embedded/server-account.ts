// PostgreSQL refuses to run as root. Under root, this decides which ordinary user it runs as instead.
import { otherOwner } from "./other-owner.ts";
import { runProgram } from "./run-program.ts";
import { accountOf, listOfUsers, type ServerAccount, usersIn } from "./users.ts";

const OWN_USER = "everbeat";

/** undefined means: as we are. `folder` exists; `dataFolder` is given once there is a database. */
export async function serverAccountFor(folder: string, dataFolder?: string): Promise<ServerAccount | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const found = await findServerAccount(folder, dataFolder);
  if (found !== undefined) return found;
  await createOwnUser();
  const users = await listOfUsers();
  return namedAccount(users, OWN_USER) ?? namedAccount(users, "nobody") ?? { uid: 65534, gid: 65534 };
}

/** The same, but undefined also where the user has yet to be made. */
export async function findServerAccount(folder: string, dataFolder?: string): Promise<ServerAccount | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  // Only its owner may run a server on a data folder, so a database begun by an ordinary user stays that user's.
  const dataOwner = dataFolder === undefined ? undefined : await otherOwner(dataFolder);
  if (dataOwner !== undefined) return await accountOf(dataOwner);
  const folderOwner = await otherOwner(folder);
  return accountAmong(await listOfUsers(folderOwner), folderOwner);
}

/**
 * The account to use among those that exist: whoever owns the folder, so that sudo today and no sudo tomorrow see the
 * same database; else the system's own postgres; else one made by us earlier.
 */
export function accountAmong(users: string, folderOwner: number | undefined): ServerAccount | undefined {
  const owner = usersIn(users).find(({ uid }) => uid === folderOwner);
  return owner ?? namedAccount(users, "postgres") ?? namedAccount(users, OWN_USER);
}

function namedAccount(users: string, name: string): ServerAccount | undefined {
  return usersIn(users).find((user) => user.name === name);
}

/** Tools differ between distributions, and several processes may be here at once: the list of users is the judge. */
async function createOwnUser(): Promise<void> {
  const shell = "/usr/sbin/nologin";
  await runProgram("useradd", ["--system", "--user-group", "--no-create-home", "--shell", shell, OWN_USER], undefined);
  if (namedAccount(await listOfUsers(), OWN_USER) !== undefined) return;
  await runProgram("adduser", ["-S", "-D", "-H", "-s", shell, OWN_USER], undefined);
}
