/**
 * What was done to the world and what came of it, as plain data: all that the checker goes by. Instants are milliseconds of
 * the database's clock plus the time that was moved, so they never go back. What happened did so between `from` and `to`.
 */
import type { RecoverySettings } from "../../src/config/recovery-options.ts";

export interface Window {
  readonly from: number;
  readonly to: number;
}

export type Write = "start" | "release" | "guard" | "complete" | "finish";

export type Happening =
  | {
      readonly kind: "enqueued";
      readonly task: string;
      readonly exclusive: { readonly key: string; readonly limit: number } | undefined;
    }
  | {
      readonly kind: "joined";
      readonly replica: string;
      readonly machine: string;
      readonly promiseMs: number;
      readonly sessionPromiseMs: number;
    }
  /** It has left in good order. */
  | { readonly kind: "left"; readonly replica: string }
  /** One more session holds its lock, or one less. */
  | { readonly kind: "session"; readonly replica: string; readonly isHeld: boolean }
  /** hasSession is undefined for the first word on a connection, which says nothing of it. */
  | {
      readonly kind: "beat";
      readonly replica: string;
      readonly isHeard: boolean;
      readonly hasSession: boolean | undefined;
    }
  /** The server has begun another life: all sessions are gone. */
  | { readonly kind: "epoch" }
  /** The point that the server was put back to by whatever it forgot later. */
  | { readonly kind: "remembered" }
  | { readonly kind: "forgot" }
  | { readonly kind: "claimed"; readonly replica: string; readonly claims: readonly Claimed[] }
  | {
      readonly kind: "wrote";
      readonly what: Write;
      readonly claim: string;
      /** Which its writer takes for the claim's. */
      readonly task: string;
      readonly replica: string;
      /** repeat: recognised as written before. */
      readonly verdict: "accepted" | "refused" | "repeat";
      readonly outcome: string | undefined;
    }
  | { readonly kind: "rehomed"; readonly before: string; readonly after: string; readonly claims: readonly string[] }
  | {
      readonly kind: "swept";
      readonly by: string;
      readonly settings: RecoverySettings;
      /** Whether it was its turn, or somebody else's just before. */
      readonly isListening: boolean;
      /** Since when recovery was held, after this sweep. */
      readonly heldSince: number | undefined;
      /** Until when that holds without another sweep. */
      readonly keptUntil?: number | undefined;
      readonly deaths: readonly { readonly replica: string; readonly because: string }[];
      readonly recovered: readonly {
        readonly claim: string;
        readonly replica: string;
        readonly action: string;
      }[];
    }
  /** An operator says that the silent machines are dead indeed. */
  | { readonly kind: "confirmed" }
  | { readonly kind: "looked"; readonly places: readonly Place[] };

export interface Claimed {
  readonly claim: string;
  readonly task: string;
  readonly state: "claimed" | "running";
}

/** Where a task is. */
export interface Place {
  readonly task: string;
  readonly table: "ready" | "parked" | "running" | "ended";
  readonly attempt: number;
  readonly queue: string | null;
  readonly claim: string | null;
  readonly replica: string | null;
  readonly state: "claimed" | "running" | null;
}

export type History = readonly (Window & Happening)[];

/** The tables as they are in the end. */
export interface Record {
  readonly tasks: readonly string[];
  readonly places: readonly Place[];
  /** Attempts that are over: those of `attempt`, and the last one of each task in `ended`. */
  readonly attempts: readonly { readonly claim: string; readonly task: string; readonly attempt: number }[];
  readonly late: readonly { readonly claim: string; readonly outcome: string }[];
  readonly replicas: readonly { readonly id: string; readonly status: string; readonly isHeartDead: boolean | null }[];
  readonly alerts: readonly { readonly kind: string; readonly raisedAt: number }[];
  readonly queueLimits: Readonly<{ [queue: string]: number }>;
}
