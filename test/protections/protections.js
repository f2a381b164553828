/**
 * Each protection with the small change that switches it off, and the test that must go red then. A text that is to be
 * replaced must be there exactly once: whoever changes that code looks here too.
 */
const SCENES = "test/model/scenes.test.ts";

export const PROTECTIONS = [
  {
    name: "fence",
    meaning: "an outcome is written whoever holds the task now",
    test: [SCENES, "fence: an outcome of a claim that was lost is refused, also when the task is running elsewhere"],
    changes: [
      {
        file: "migrations/routines/end/end_claims.sql",
        find: "  loop\n    if json_array_length(p_outcomes) = 0 then",
        replace: `  select array_agg(coalesce(u.claim_id, x.claim)), array_agg(x.task),
         json_agg((to_jsonb(o.value) || jsonb_build_object('claim', coalesce(u.claim_id, x.claim)))::json)
  into p_claims, p_tasks, p_outcomes
  from json_array_elements(p_outcomes) o cross join lateral json_to_record(o.value) as x (claim bigint, task uuid)
  left join running u on u.task_id = x.task;
  v_left := p_claims;
  v_owners := owners(false);
  v_is_last := true;
  loop
    if json_array_length(p_outcomes) = 0 then`,
      },
    ],
  },
  {
    name: "the claim's task",
    meaning: "a claim id is a right to whatever task the database has under it",
    test: ["test/database/issued-again.test.ts", "does not complete the task that has its claim's id now"],
    changes: [
      {
        file: "migrations/routines/end/end_claims.sql",
        find: "case when cardinality(p_claims) = 1 then p_tasks[1] end",
        replace: "null",
      },
      { file: "migrations/routines/end/end_claims.sql", find: "where n.task <> g.task;", replace: "where false;" },
    ],
  },
  {
    name: "the jump of ids",
    meaning: "claim ids go on from where the server remembers them, which may be before what it had issued",
    test: [
      "test/database/epoch.test.ts",
      "go on, in a new epoch, above all that a sequence which was set back can have issued",
    ],
    changes: [
      {
        file: "migrations/routines/epochs/begin_epoch.sql",
        find: "greatest(v_floor, v_last +",
        replace: "greatest(v_last, v_last + 0 *",
      },
    ],
  },
  {
    name: "epoch",
    meaning: "stamps and locks of another life of the server count",
    test: [SCENES, "epoch: a lock that went with the server's last life proves nothing"],
    changes: [
      {
        file: "migrations/routines/epochs/known_epoch.sql",
        find: "  if pg_is_in_recovery() then\n    return null;",
        replace: "  if true then\n    return 'the same';",
      },
    ],
  },
  {
    name: "hearing since",
    meaning: "silence counts also while nobody listened or nobody could be heard",
    test: [SCENES, "hearing since: silence in which nobody listened does not count"],
    changes: [
      {
        file: "migrations/routines/sweeps/begin_sweep.sql",
        find: "then clock_timestamp() else least(hearing_since, clock_timestamp()) end",
        replace: "then hearing_since else hearing_since end",
      },
    ],
  },
  {
    name: "guard",
    meaning: "any number of machines is declared dead at once",
    test: [SCENES, "guard: most machines at once are dead only after a hold"],
    changes: [
      {
        file: "src/recovery/mass-death.ts",
        find: 'if (!isMass) return "act";',
        replace: 'if (!isMass || fleet.dying > 0) return "act";',
      },
    ],
  },
  {
    name: "hold of its own",
    meaning: "the end of one source's hold ends those of all sources",
    test: ["test/database/third-source.test.ts", "the hold of the hearts is not ended with it, and nor is their alert"],
    changes: [
      {
        file: "migrations/routines/sweeps/end_hold.sql",
        find: "delete from hold where source = p_source returning true",
        replace: "delete from hold returning true",
      },
    ],
  },
  {
    name: "promise",
    meaning: "a heart is judged by the settings of whoever sweeps, and not by what it has promised",
    test: [SCENES, "promise: nobody is dead before the time in which its own heart stops its work"],
    changes: [
      {
        file: "src/recovery/limits.ts",
        find: "Math.max(deadAfterMs, (heart.promiseMs ?? 0) + deadAfterMs / MARGIN_PART)",
        replace: "deadAfterMs",
      },
    ],
  },
  {
    name: "stand-in",
    meaning: "the session that stands in for a starting heart's own is trusted, whether or not it is still there",
    test: [
      "test/crash/heart-stand-in.test.ts",
      "stops what others may repeat before they may act, and comes back under another id",
    ],
    changes: [
      {
        file: "src/heart/heart-loop.ts",
        find: "this.#needsStandIn ? since(this.#parts.standInSeenAt()) : undefined",
        replace: "this.#needsStandIn ? undefined : undefined",
      },
    ],
  },
  {
    name: "read committed",
    meaning: "exclusive keys and limits are counted in an old snapshot where the database's default says so",
    test: [
      "test/database/isolation.test.ts",
      "an exclusive key lets one run at a time, and a queue's limit holds, with several workers",
    ],
    changes: [
      {
        file: "src/database/session-settings.ts",
        find: "if (isolation !== READ_COMMITTED) misfit(",
        replace: "if (isolation === undefined) misfit(",
      },
      {
        file: "migrations/routines/claim/claim_tasks.sql",
        find: "if current_setting('transaction_isolation') <> 'read committed' then",
        replace: "if false then",
      },
    ],
  },
  {
    name: "read committed on a shared session",
    meaning: "the same on a pool of the caller's, and behind a pooler",
    test: ["test/database/isolation.test.ts", "on a pool of the caller's, whose own transactions stay as they are"],
    changes: [
      {
        file: "src/database/session-settings.ts",
        find: "const isUsual = misfitsOf(settings).length === 0 &&",
        replace: "const isUsual = misfitsOf({ ...settings, isolation: READ_COMMITTED }).length === 0 &&",
      },
    ],
  },
  {
    name: "read committed on a session that was changed",
    meaning:
      "exclusive keys are counted in an old snapshot where the caller changes the level after Everbeat has looked",
    test: ["test/database/changed-sessions.test.ts", "does not get two running under one exclusive key"],
    changes: [
      {
        file: "migrations/routines/claim/claim_tasks.sql",
        find: "if current_setting('transaction_isolation') <> 'read committed' then",
        replace: "if false then",
      },
    ],
  },
  {
    name: "the answer to a commit",
    meaning: "a transaction that the server rolled back is taken for committed",
    test: [
      "test/database/own-transactions.test.ts",
      "one in which a statement failed, and the error was caught, is not taken for committed",
    ],
    changes: [
      { file: "src/database/database.ts", find: 'if (command === "ROLLBACK")', replace: 'if (command === "NEVER")' },
    ],
  },
  {
    name: "keys of all owners together",
    meaning: "a statement ends claims owner after owner, and frees the keys of each before those of the next",
    test: ["test/database/lock-order.test.ts", "two that take running tasks away in bulk"],
    changes: [
      {
        file: "migrations/routines/end/end_alike.sql",
        find: "    perform end_claims(v_held.claims, v_held.tasks, v_held.outcomes, p_owners);",
        replace: `    perform end_claims(o.claims, o.tasks, o.outcomes, array[o.owner]) from (
      select (x ->> 'replica')::uuid as owner, array_agg((x ->> 'claim')::bigint) as claims, array_agg((x ->> 'task')::uuid) as tasks,
             json_agg(x) as outcomes
      from json_array_elements(v_held.outcomes) x group by 1 order by 1) o;`,
      },
    ],
  },
  {
    name: "ends are told",
    meaning: "what hangs on the end of a task is not told of tasks that end where they wait",
    test: [
      "test/database/after-end.test.ts",
      "tasks that wait, are claimed and are parked end in one statement, and each of their joins is advanced once",
    ],
    changes: [
      { file: "migrations/routines/pending/end_pending.sql", find: "    perform after_end(v_ended);\n", replace: "" },
    ],
  },
  {
    name: "keys in one order",
    meaning: "a statement locks exclusive keys in the order of its claims",
    test: [
      "test/database/lock-order.test.ts",
      "the recovery of what one owner ran, beside one that takes away in bulk",
    ],
    changes: [
      {
        file: "migrations/routines/gates/unpark.sql",
        find: "select distinct k from unnest(p_keys) k where k is not null order by k loop",
        replace: "select k from unnest(p_keys) k where k is not null loop",
      },
    ],
  },
  {
    name: "lanes that leave",
    meaning: "a lane is taken out while a transaction that has seen it may still put a task into it",
    test: ["test/database/lanes.test.ts", "by a transaction that is open through all steps keeps its lane"],
    changes: [
      {
        file: "migrations/routines/upkeep/retire_lanes.sql",
        find: "if pg_snapshot_xmin(pg_current_snapshot()) < v_after then",
        replace: "if false then",
      },
    ],
  },
  {
    name: "what cannot be claimed",
    meaning: "one row that raises an error fails every claim",
    test: [
      "test/database/not-claimable.test.ts",
      "is explained, and runs when what was wrong was put right and it is retried",
    ],
    changes: [
      {
        file: "src/worker/claimer.ts",
        find: "        await this.#failedClaims.setAside(this.#stopping.signal);\n",
        replace: "",
      },
    ],
  },
  {
    name: "what waits for a reader",
    meaning: "a reader that stands still fills the memory of whoever writes",
    test: [
      "test/unit/descriptor-queue.test.ts",
      "drops whole lines beyond its bound, counts each, and goes on when the reader comes back",
    ],
    changes: [
      {
        file: "src/outlet/descriptor-queue.ts",
        find: "const MOST_WAITING = 1_048_576;",
        replace: "const MOST_WAITING = 1_048_576_000;",
      },
    ],
  },
  {
    name: "a runner's last words",
    meaning: "what tasks have printed is lost, and not counted, when their runner leaves",
    test: ["test/cli/runner-printing.test.ts", "a process that leaves has printed all that its tasks had printed"],
    changes: [
      {
        file: "src/runner-entry/live-as-runner.ts",
        find: "void sayLast(message.withinMs).then(leave);",
        replace: "leave();",
      },
    ],
  },
  {
    name: "a command's last lines",
    meaning: "errors vanish that standard error takes a moment later",
    test: [
      "test/cli/lost-streams.test.ts",
      "what a command at work says last is read to its end: its reader is waited for",
    ],
    changes: [
      {
        file: "src/cli/screen.ts",
        find: "await Promise.all([outletOf(stdout).flushed(), outletOf(stderr).flushed()]);",
        replace: "await outletOf(stdout).flushed();",
      },
    ],
  },
  {
    name: "an alert that is locked",
    meaning: "what a process says of an alert that somebody has locked is lost",
    test: [
      "test/database/alerts.test.ts",
      "also where somebody has locked the alert that is to be resolved, and others need not wait for that",
    ],
    changes: [
      {
        file: "src/alerts/alerts.ts",
        find: '    if (became === "locked") return false;\n',
        replace: "",
      },
    ],
  },
  {
    name: "an alert that nobody waits for",
    meaning: "a task is not retried while somebody has locked an alert about it",
    test: ["test/database/resolving-alerts.test.ts", "a task is retried"],
    changes: [
      {
        file: "migrations/routines/alerts/resolve_alerts.sql",
        find: "and resolved_at is null for update skip locked",
        replace: "and resolved_at is null for update",
      },
      {
        file: "migrations/routines/alerts/resolve_alerts.sql",
        find: " set lock_timeout = '100ms'",
        replace: "",
      },
      {
        file: "migrations/routines/alerts/resolve_alerts_of.sql",
        find: " set lock_timeout = '100ms'",
        replace: "",
      },
      {
        file: "migrations/routines/alerts/resolve_alert.sql",
        find: " set lock_timeout = '100ms'",
        replace: "",
      },
    ],
  },
  {
    name: "not known is not over",
    meaning: "the alert about a stalled task is resolved while nobody can know whether the task gets on",
    test: [
      "test/database/resolving-alerts.test.ts",
      "stays open while nobody knows whether the task gets on: nobody was heard for long enough",
    ],
    changes: [
      {
        file: "src/sql/alert-causes.ts",
        find: "r.started_at, null, now())",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a part of a template in that file
        replace: "r.started_at, (select hearing_since from ${s}.listening), now())",
      },
    ],
  },
  {
    name: "the lease of a delivery",
    meaning: "a process takes a delivery that another one is at",
    test: [
      "test/crash/alert-delivery.test.ts",
      "the process that is delivering it is killed: another takes it when its time has run out",
    ],
    changes: [
      {
        file: "src/sql/alert-deliveries.ts",
        find: "next_try_at = now() + make_interval(secs => $3::float8 / 1000)",
        replace: "next_try_at = now() + make_interval(secs => 0 * $3::float8)",
      },
    ],
  },
  {
    name: "the order of deliveries",
    meaning: "an alert is told to be over before it was told to be raised",
    test: [
      "test/database/alert-delivery.test.ts",
      "is told that an alert is over only after it was told that it was raised",
    ],
    changes: [
      {
        file: "src/sql/alert-deliveries.ts",
        find: "and b.change = 'raised' and b.delivered_at is null",
        replace: "and b.change = 'raised' and b.delivered_at is not null",
      },
    ],
  },
  {
    name: "what runners have dropped",
    meaning: "the alert about it waits for lines of a log that nobody may write to",
    test: [
      "test/database/log-watch.test.ts",
      "what runners have dropped is over after a while without more of it, whatever else is written",
    ],
    changes: [
      {
        file: "src/log-health.ts",
        find: "    this.#dropped += lines;\n",
        replace: "    this.#dropped += lines;\n    this.#isWell = false;\n",
      },
    ],
  },
  {
    name: "the runner's seal",
    meaning: "whatever a handler writes into its runner's pipes is taken for its runner's",
    test: ["test/unit/runner.test.ts", "of a runner is taken for its own only with its seal"],
    changes: [
      {
        file: "src/runner/protocol.ts",
        find: "return isSealed ? parsed<FromRunner>(line.slice(seal.length)) : undefined;",
        replace: "return parsed<FromRunner>(isSealed ? line.slice(seal.length) : line);",
      },
    ],
  },
  {
    name: "the guardian",
    meaning: "what a handler has started goes on when its worker and its runner are killed at once",
    test: ["test/crash/runner-groups.test.ts", "after a kill of its worker and its runner at once"],
    changes: [
      {
        file: "src/runner/guardian.ts",
        find: "; kill -KILL 0`",
        replace: "`",
      },
    ],
  },
  {
    name: "the fresh runner of a suspect",
    meaning: "a suspect runs after others in their runner, so that nobody knows who ends it",
    test: [
      "test/crash/runner-guilt.test.ts",
      "makes room for the fresh one that a suspect needs, while others are at work",
    ],
    changes: [
      {
        file: "src/runner/runner-pool.ts",
        find: "return needsFresh ? fresh : ",
        replace: "return needsFresh ? idle[0] : ",
      },
    ],
  },
  {
    name: "proof of the server",
    meaning: "whoever listens on the address of a server that has died is told the password",
    test: [
      "test/database/require-auth.test.ts",
      "a server is asked for SCRAM also where the address has the word in URL encoding",
    ],
    changes: [
      {
        file: "src/database/require-auth.ts",
        find: "return requiredIn(connectionString).length > 0;",
        replace: "return requiredIn(connectionString).length < 0;",
      },
    ],
  },
  {
    name: "hands of the owner",
    meaning: "root works with its own hands where another user's link leads",
    test: [
      "test/embedded/others-folder.test.ts",
      "a folder that is a link half of the time never has root's own hands",
    ],
    changes: [
      {
        file: "src/database/embedded/other-owner.ts",
        find: "if (reached.uid !== first.uid && reached.path !== first.expected) throw",
        replace: "if (reached.uid !== first.uid && reached.path === undefined) throw",
      },
      {
        file: "src/database/embedded/other-owner.ts",
        find: "return reached.uid === 0 ? first.uid : reached.uid;",
        replace: "return reached.uid;",
      },
    ],
  },
  {
    name: "root's own folder in another's",
    meaning: "root works with its own hands in a folder that another user can swap for a link",
    test: [
      "test/embedded/others-folder.test.ts",
      "a folder of root's own that another user moves away and back is worked in as that user",
    ],
    changes: [
      {
        file: "src/database/embedded/other-owner.ts",
        find: "return reached.uid === 0 ? first.uid : reached.uid;",
        replace: "return reached.uid;",
      },
    ],
  },
  {
    name: "programs of another user",
    meaning: "root makes the links of a list that another user has written, wherever they lead",
    test: [
      "test/embedded/others-package.test.ts",
      "the links that a package lists, whose owner is kept out, are made nowhere else",
    ],
    changes: [
      {
        file: "src/database/embedded/server-binaries.ts",
        find: 'return way !== "" && way.split(sep)[0] !== ".." && !isAbsolute(way);',
        replace: 'return way !== "" || (way.split(sep)[0] !== ".." && !isAbsolute(way));',
      },
    ],
  },
  {
    name: "time limit of programs",
    meaning: "a user who stops a program holds root for ever",
    test: [
      "test/embedded/stopped-programs.test.ts",
      "a program that its user stops is killed with all that it has started",
    ],
    changes: [
      {
        file: "src/database/embedded/run-program.ts",
        find: "process.kill(-child.pid, ",
        replace: "process.kill(child.pid, ",
      },
    ],
  },
  {
    name: "no terminal for another user",
    meaning: "another user's programs can type commands into root's terminal",
    test: ["test/embedded/root-terminal.test.ts", "what runs in the name of the folder's owner has no terminal"],
    changes: [
      {
        file: "src/database/embedded/run-program.ts",
        find: "uid, gid, detached: true }",
        replace: "uid, gid, detached: false }",
      },
    ],
  },
  {
    name: "no open file for another user",
    meaning: "another user's programs have what root had open before Everbeat was started",
    test: [
      "test/embedded/open-files.test.ts",
      "what runs in the name of the folder's owner has no file that root had open",
    ],
    changes: [
      {
        file: "src/database/embedded/spawn-closed.ts",
        find: "replaced.includes(all.length) ? nothing",
        replace: "replaced.includes(-1) ? nothing",
      },
    ],
  },
  {
    name: "certainly deserted",
    meaning: "a database is taken for deserted where the folder of its project is not there",
    test: [
      "test/embedded/deserted.test.ts",
      "a database stays in its place when its project was moved to another disk",
    ],
    changes: [
      {
        file: "src/database/embedded/deserted-data.ts",
        find: "if ((await identityOf(dirname(record.folder))) !== record.project) return false;",
        replace: "await identityOf(dirname(record.folder)).catch(() => {});",
      },
    ],
  },
  {
    name: "deserted for a month",
    meaning: "a database is removed at the first start after its `.everbeat` was deleted, or moved away",
    test: ["test/embedded/deserted.test.ts", "the database of a deleted `.everbeat` is removed a month later"],
    changes: [
      {
        file: "src/database/embedded/deserted-data.ts",
        find: "else if (since < keptSince && ",
        replace: "else if (since !== keptSince && ",
      },
    ],
  },
  {
    name: "memory that is shared",
    meaning: "a task is charged when the kernel kills its runner because another task grew",
    test: [
      "test/unit/company.test.ts",
      "everybody who is at work in the worker is a suspect, and the killed one is not beside itself",
    ],
    changes: [
      {
        file: "src/worker/company.ts",
        find: "?.isShared === true;",
        replace: "?.isShared === undefined;",
      },
    ],
  },
  {
    name: "pipes that are closed",
    meaning: "a handler that closes the pipe of its runner never ends",
    test: ["test/crash/runner-garbage.test.ts", "a closed pipe of messages ends the runner, and fails its task alone"],
    changes: [
      {
        file: "src/runner/process-channel.ts",
        find: "isRunning(child) && onGarbled(CLOSED)",
        replace: "isRunning(child) && CLOSED.length < 0 && onGarbled(CLOSED)",
      },
    ],
  },
  {
    name: "followers compare",
    meaning: "who follows a task waits for ever for an end that nobody has written down for followers",
    test: [
      "test/database/follow-ends.test.ts",
      "also where nothing of it was written: a wrong row, a lost table, an old release",
    ],
    changes: [
      {
        file: "src/following/stream.ts",
        find: "    if (standing) this.#put(look, standing, this.#view.compare(standing));\n",
        replace: "    void [look, standing];\n",
      },
    ],
  },
  {
    name: "positions know what was told",
    meaning: "who comes back is told again what was told before, and never what nobody has written down",
    test: [
      "test/database/follow-positions.test.ts",
      "goes on with what nobody has told meanwhile, from how the task stands",
    ],
    changes: [
      {
        file: "src/following/stream.ts",
        find: "    if (this.from) this.#view.resume(this.from.told);\n",
        replace: "",
      },
    ],
  },
  {
    name: "happenings under way",
    meaning: "what a transaction has done that stayed open for longer than others is never told",
    test: [
      "test/database/follow-replicas.test.ts",
      "is told of when it commits: nothing is missed, and nothing told twice",
    ],
    changes: [
      {
        file: "migrations/routines/following/happenings_since.sql",
        find: "where xact = any (array(select pg_snapshot_xip(p_seen)))",
        replace: "where false",
      },
    ],
  },
  {
    name: "leases of followers",
    meaning: "a follower that was killed costs others for ever",
    test: [
      "test/crash/follow.test.ts",
      "that is killed costs nothing once its lease is over, and another goes on from its position",
    ],
    changes: [
      {
        file: "migrations/routines/following/tell_followers.sql",
        find: "where l.until > clock_timestamp()",
        replace: "where true",
      },
    ],
  },
];
