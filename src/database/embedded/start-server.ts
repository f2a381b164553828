// Starts PostgreSQL on a data folder and waits until it is ready or gives up.
//
// PostgreSQL's own interlock decides who may: the loser of a race is refused and simply connects to the winner.
import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { removeDeadSockets } from "./dead-sockets.ts";
import { explainRefusedStart, hasNoPort, hasNoSockets, isAboutLockFile, passingObstacle } from "./explain-failure.ts";
import { handsFor } from "./hands.ts";
import { type Keeping, spawnKeeper } from "./keeper-process.ts";
import { markPlace, refuseIfServedElsewhere } from "./machine.ts";
import { couldNotRun, killProgram, startProgram } from "./run-program.ts";
import type { ServerBinaries } from "./server-binaries.ts";
import { readPostmasterFile, serverFiles } from "./server-files.ts";
import { logSize, logTail, openLog } from "./server-log.ts";
import { choosePort } from "./server-port.ts";
import { HAS_SOCKETS, SOCKET_FOLDER } from "./socket-folder.ts";
import type { ServerAccount } from "./users.ts";

const LOOK_INTERVAL_MS = 20;
/** Looks, and not time: if everything was paused, one that looks the same was not given time to change. */
const STANDS_STILL_AFTER_LOOKS = 75;
/** A server writes its postmaster.pid within milliseconds, and checks only once a minute whether it is still there. */
const LOCK_FILE_PATIENCE_MS = 10_000;

const SOCKET_OPTIONS = ["-k", SOCKET_FOLDER, "-c", "unix_socket_permissions=0700"];
const WITHOUT_PORT = ["-c", "listen_addresses="];

type StartOutcome =
  | { readonly kind: "ready"; readonly obstacle?: undefined }
  /** Someone else has the folder, or had it a moment ago: try to connect, then try this again. */
  | { readonly kind: "refused"; readonly obstacle: string };

interface StartOptions {
  readonly folder: string;
  readonly dataFolder: string;
  readonly binaries: ServerBinaries;
  readonly account: ServerAccount | undefined;
  /** undefined when the keeper itself starts the server. */
  readonly keeping: Keeping | undefined;
  /** How long it may take until it is ready. */
  readonly patienceMs: number;
}

export async function startServer(options: StartOptions): Promise<StartOutcome> {
  const { dataFolder } = options;
  if ((await readPostmasterFile(dataFolder)) !== undefined) await refuseIfServedElsewhere(dataFolder);
  await markPlace(dataFolder);
  await removeDeadSockets(dataFolder);
  const outcome = await tryToStart(options, {});
  if (outcome.kind === "ready" || !isAboutLockFile(outcome.obstacle)) return outcome;
  const leftBehind = await postmasterLeftBehind(dataFolder);
  return leftBehind === undefined ? outcome : await tryToStart(options, { leftBehind });
}

async function tryToStart(
  options: StartOptions,
  way: { leftBehind?: string; hasSocket?: boolean; hasPort?: boolean },
): Promise<StartOutcome> {
  const { folder, dataFolder, binaries, account } = options;
  const { leftBehind, hasSocket = HAS_SOCKETS } = way;
  const { port, isTaken, isKept } = await choosePort(dataFolder, hasSocket);
  const hasPort = !isTaken && (way.hasPort ?? true);
  const log = await openLog(folder);
  const logStart = await logSize(folder);
  const before = (await readPostmasterFile(dataFolder))?.text;
  if (options.keeping !== undefined) spawnKeeper(options.keeping, log.fd);
  const listening = [...(hasSocket ? SOCKET_OPTIONS : []), ...(hasPort ? [] : WITHOUT_PORT)];
  const args = ["-D", dataFolder, "-p", String(port), ...listening];
  const child = startProgram(binaries.postgres, args, account, {
    environment: leftBehind === undefined ? undefined : { PG_GRANDPARENT_PID: leftBehind },
    // A session of its own: Ctrl-C in the terminal of whoever started it must not reach it.
    detached: true,
    stdio: ["ignore", log.fd, log.fd],
  });
  child.unref();
  const [end] = await Promise.all([readyOrEnded(child, before, options), log.close()]);
  if (end === "ready") return { kind: "ready" };
  if (end === "late") return { kind: "refused", obstacle: lateness(child, account) };
  // By a keeper that found nobody here yet, because whoever starts it was held up; or by us.
  if (end.wasToldToStop) return { kind: "refused", obstacle: "the server was told to stop while it started" };
  const output = `${await logTail(folder, logStart)}\n${end.reason}`;
  if (hasSocket && hasNoSockets(output)) return await tryToStart(options, { ...way, hasSocket: false, hasPort: true });
  // Between our look and its own.
  if (isKept && hasPort && hasNoPort(output)) return await tryToStart(options, { ...way, hasPort: false });
  const obstacle = passingObstacle(output);
  if (obstacle !== undefined) return { kind: "refused", obstacle };
  throw explainRefusedStart(output, { dataFolder, logFile: serverFiles(folder).log });
}

interface End {
  readonly reason: string;
  readonly wasToldToStop: boolean;
}

/** `before` is the postmaster.pid of the server before it, whose process may have had the same number in a container. */
async function readyOrEnded(
  child: ChildProcess,
  before: string | undefined,
  { dataFolder, account, patienceMs }: StartOptions,
): Promise<"ready" | "late" | End> {
  let end: End | undefined;
  child.once("error", ({ message }) => (end = { reason: message, wasToldToStop: false }));
  child.once("exit", (code, signal) => {
    const wasToldToStop = code === 0 || signal === "SIGINT" || signal === "SIGTERM";
    const how = couldNotRun(code) ? "could not be run: it ended" : "ended";
    end ??= { reason: `postgres ${how} with ${signal ?? code}`, wasToldToStop };
  });
  const beganAt = performance.now();
  let hadFileAt = beganAt;
  while (end === undefined) {
    await pause(LOOK_INTERVAL_MS);
    const now = performance.now();
    const file = await readPostmasterFile(dataFolder);
    const isOurs = file?.processId === String(child.pid) && file.text !== before;
    if (isOurs && file.isReady) return "ready";
    if (now - beganAt > patienceMs) {
      // One that has the database may be at work on it, as after a crash, and be ready later. Any other can only be in the way.
      if (!isOurs) killProgram(child, account);
      return "late";
    }
    if (!isOurs && now - hadFileAt > LOCK_FILE_PATIENCE_MS) {
      // Removed by the server before it, which was only just ending: nobody could find the one that runs now.
      child.kill("SIGINT");
      hadFileAt = now;
    } else if (isOurs) hadFileAt = now;
  }
  return end;
}

/** For the error, if it is not ready later either. */
function lateness({ pid }: ChildProcess, account: ServerAccount | undefined): string {
  const whose = account === undefined ? "" : ` of user ${account.uid}, who may have stopped it with a signal,`;
  return `postgres, process ${pid}${whose} was started and is not ready`;
}

/**
 * The process id in a postmaster.pid that a killed server left behind, to be disregarded by PostgreSQL.
 *
 * PostgreSQL refuses to start while that id is in use by any process of the same user, and after a reboot, or in a
 * restarted container, it soon is, by a stranger. It disregards the id of its grandparent (pg_ctl uses this), and then
 * goes by what cannot be a coincidence: whether anyone is attached to the shared memory of this data folder.
 *
 * Not at once, though: a server that ends lets go of its memory and of its port first and removes the file last, which
 * would then be the file of the next one; and a server that starts has not named its memory yet.
 */
async function postmasterLeftBehind(dataFolder: string): Promise<string | undefined> {
  const left = await readPostmasterFile(dataFolder);
  if (left === undefined) return undefined;
  for (let look = 0; look < STANDS_STILL_AFTER_LOOKS; look++) {
    await pause(LOOK_INTERVAL_MS);
    if ((await readPostmasterFile(dataFolder))?.text !== left.text) return undefined;
  }
  // Cut short by a full disk or a power failure: PostgreSQL would ask for someone to remove it by hand.
  if (left.processId === "") await (await handsFor(dataFolder)).remove(join(dataFolder, "postmaster.pid"));
  return left.processId || undefined;
}
