/**
 * What goes on in the background and is no service: each has a reason why neither an interval alone nor the loop of all services would do. `files`: where
 * it waits. A test finds what is neither here nor in the list of services (test/unit/background.test.ts).
 */
interface Entry {
  readonly does: string;
  readonly because: string;
  readonly files: readonly string[];
}

export const OWN_PACE = {
  heart: {
    does: "beats, renews its session, watches the main thread",
    because: "it has a thread and a connection of its own, and must go on while the main thread is blocked",
    files: ["heart/heart-loop.ts", "heart/heart.ts", "heart/live-as-heart.ts", "heart/loop-watch.ts"],
  },
  "runners' hearts": {
    does: "beat for a thread or process in which tasks run, and watch whether its worker is heard",
    because: "they are in the runner, not in the worker",
    files: [
      "runner-entry/runner-heart-thread.ts",
      "runner-entry/runner-thread.ts",
      "runner-entry/take-over-printing.ts",
    ],
  },
  "watch over runners": {
    does: "listens for the beats of runners, and starts others",
    because: "it runs only where tasks use runners, at a pace that goes by their limits, and asks no database",
    files: ["runner/runners.ts", "runner/runner-pool.ts"],
  },
  notices: {
    does: "keep the connection on which the database tells of changes, and connect again",
    because: "they wait for a connection to end, not for a time",
    files: ["database/notices.ts"],
  },
  "search for tasks": {
    does: "claims tasks, writes outcomes and progress, gives claims back",
    because: "it goes by what there is to do: the next due task, a free slot, a notice",
    files: [
      ...["worker/claimer.ts", "worker/rounds.ts", "worker/reports.ts", "worker/attempts.ts"],
      ...["worker/give-back.ts", "worker/held-outcomes.ts", "worker/stand-down.ts"],
    ],
  },
  followers: {
    does: "look for what happened to what somebody follows here",
    because: "they run only while somebody follows, and go by notices",
    files: ["following/feed.ts"],
  },
  "word of a sweep": {
    does: "says that a sweep that takes long still listens",
    because: "it is a part of that sweep",
    files: ["recovery/keep-listening.ts"],
  },
  "places of a supervisor": {
    does: "start children again, and tell the database of exits",
    because: "they wait for a child to end",
    files: ["supervisor/place.ts", "supervisor/durable-words.ts"],
  },
  "embedded server": {
    does: "keeps it running while a process uses it, and finds it again",
    because: "it comes before there is a database, and has a process of its own",
    files: [
      ...["database/embedded/keeper.ts", "database/embedded/presence.ts", "database/embedded/starting-turn.ts"],
      ...["database/embedded/attend-server.ts"],
    ],
  },
  pool: {
    does: "closes connections that nobody has used for a while",
    because: "it waits for the time of the oldest of them, and asks no database",
    files: ["database/pool.ts"],
  },
  terminal: {
    does: "notices when the terminal of a command was closed",
    because: "it asks no database, and belongs to commands",
    files: ["terminal.ts"],
  },
} as const satisfies Record<string, Entry>;
