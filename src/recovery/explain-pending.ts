/** Why a task waits. Everything that stands in its way is named; the first of it is the answer. */
import { advise } from "../advice.ts";
import { adviceOnTrouble } from "../alert-advice.ts";
import { formatDuration } from "../config/duration.ts";
import { rateWords } from "../config/rate-words.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { KeyHolder, TaskFacts } from "../sql/explain-task.ts";
import { inOneLine } from "../task/error-record.ts";
import { readDeathIn } from "./death-in-error.ts";
import type { Reason } from "./explain.ts";
import { counted, deathsWords, START_A_WORKER, startAWorker, triesWords } from "./explain-words.ts";
import { presencesOf } from "./suspicion.ts";
import { unheardForMs } from "./sweeping.ts";
import { unchargedWords } from "./uncharged-words.ts";

/** A suspect that no worker may take is put off by less than this, again and again. */
const APART_MS = 500;

type Obstacle = Omit<Reason, "evidence">;

interface PendingFacts extends TaskFacts {
  /** How long nobody has listened; undefined while somebody does. */
  readonly unheardMs: number | undefined;
}

export function explainPending(taskFacts: TaskFacts, settings: RecoverySettings): Reason {
  const facts = { ...taskFacts, unheardMs: unheardForMs(taskFacts.listening, settings.checkMs) };
  const found = [parked, keptApart, notDue, paused, noWorker, atItsLimit, outOfRate, behindOthers].flatMap((look) => {
    const obstacle = look(facts);
    return obstacle ? [obstacle] : [];
  });
  const [first, ...others] = found;
  return {
    ...(first ?? due(facts)),
    evidence: [...others.map((other) => `besides: ${other.summary}`), ...history(facts)],
    isStuck: found.some((obstacle) => obstacle.isStuck),
    advice: found.flatMap((obstacle) => obstacle.advice),
  };
}

function due({ workers }: TaskFacts): Obstacle {
  const { serving, inHand } = workers;
  const who =
    serving === 1 ? "The one worker that could take it does" : `One of ${serving} workers that could take it does`;
  return {
    because: "due",
    summary: "It is due, and nothing stands in its way.",
    next: `${who} so as soon as it has a free slot; ${serving === 1 ? "it has" : "they have"} ${inHand} in hand.`,
    isStuck: false,
    advice: [],
  };
}

function parked({ isParked, key, unheardMs }: PendingFacts): Obstacle | undefined {
  if (!isParked || !key) return undefined;
  const [holder] = key.holders;
  const behind = key.ahead > 0 ? `, and ${key.ahead} more wait before it` : "";
  if (!holder) {
    return {
      because: "parked",
      summary: `It waited for its exclusive key "${key.key}", which is free now${behind}.`,
      next: "It is let go at the next upkeep, within a few seconds, if a worker runs.",
      isStuck: false,
      advice: [],
    };
  }
  return {
    because: "parked",
    summary: `It waits for its exclusive key "${key.key}": ${key.holders.map((one) => holding(one, unheardMs !== undefined)).join("; ")}${behind}.`,
    next: isGone(holder)
      ? `Its key is free as soon as task ${holder.taskId} has been recovered.`
      : `Its key is free as soon as task ${holder.taskId} has ended, waits for a retry, or is given back.`,
    isStuck: false,
    advice: [advise("See how the task that has the key is doing.", "tasks.explain", { id: holder.taskId })],
  };
}

function holding(holder: KeyHolder, isUnheard: boolean): string {
  const { taskId, name, state, replicaId, heldForMs } = holder;
  const ownerStatus = isUnheard && !isGone(holder) ? "unheard" : holder.ownerStatus;
  const since = `${state} for ${formatDuration(heldForMs)}`;
  return `task ${taskId} (${name}) has it, ${since} on replica ${replicaId}, which is ${ownerStatus}`;
}

function isGone({ ownerStatus }: KeyHolder): boolean {
  return ownerStatus !== "online" && ownerStatus !== "draining";
}

function keptApart({ id, isApart, isParked, dueInMs, ...facts }: TaskFacts): Obstacle | undefined {
  // After a crash it may have to wait for its backoff, which is longer.
  if (!isApart || isParked || dueInMs > APART_MS) return undefined;
  return {
    because: "kept-apart",
    summary: `It was running when ${deathsWords(presencesOf(facts), isOfRunner(facts.last) ? "runner" : "worker")} died, so it runs apart: beside no other task that is suspected of that.`,
    next: "It is taken by the first worker that could take it and is running no other suspect.",
    isStuck: false,
    advice: [advise("See what they probably died of.", "post-mortems.show", { of: id })],
  };
}

function notDue({ dueInMs, last, rate, isParked, isApart, id }: TaskFacts): Obstacle | undefined {
  if (isParked || dueInMs <= (isApart ? APART_MS : 0)) return undefined;
  const next = `It is due in ${formatDuration(dueInMs)}.`;
  const advice = [advise("Let it start at once.", "tasks.retry", { ids: [id] })];
  if (last?.outcome === "failed" || last?.outcome === "crashed") {
    const how =
      last.outcome === "failed"
        ? `attempt ${last.attempt} failed`
        : `its ${isOfRunner(last) ? "runner" : "worker"} died in attempt ${last.attempt}`;
    return { because: "backoff", summary: `It waits to be tried again: ${how}.`, next, isStuck: false, advice };
  }
  if (rate?.isPutOff && last?.outcome !== "snoozed") {
    return {
      because: "key-rate-limit",
      summary: `It waits for its rate "${rate.key}": ${rateWords(rate)}.`,
      next: `Its turn is in at most ${formatDuration(dueInMs)}.`,
      isStuck: false,
      advice: [],
    };
  }
  return { because: "delayed", summary: "It was enqueued for later.", next, isStuck: false, advice };
}

function paused({ queueIs, queue }: TaskFacts): Obstacle | undefined {
  if (!queueIs.isPaused) return undefined;
  if (queueIs.trouble !== null) {
    return {
      because: "queue-not-usable",
      summary: `Its queue "${queue}" was paused because ${queueIs.trouble}.`,
      next: "It stays until somebody has put that right and resumes the queue.",
      isStuck: true,
      advice: adviceOnTrouble(queue),
    };
  }
  return {
    because: "queue-paused",
    summary: `Its queue "${queue}" is paused.`,
    next: "It stays until somebody resumes the queue.",
    isStuck: true,
    advice: [advise("Let its tasks start again.", "queues.resume", { name: queue })],
  };
}

function noWorker({ workers, name, queue, unheardMs }: PendingFacts): Obstacle | undefined {
  if (workers.online > 0 && unheardMs !== undefined) {
    return {
      because: "no-worker",
      summary: `No worker is heard: nobody has listened for ${formatDuration(unheardMs)}, which every worker does.`,
      next: "It stays until a worker runs and reaches the database.",
      isStuck: true,
      advice: [START_A_WORKER],
    };
  }
  if (workers.serving > 0) return undefined;
  const base = { next: "It stays until a worker starts that does.", isStuck: true };
  if (workers.online === 0)
    return {
      ...base,
      because: "no-worker",
      summary: "No worker is online and heard.",
      next: `It stays until a worker starts that knows "${name}" and works on the queue "${queue}".`,
      advice: [START_A_WORKER],
    };
  const online =
    workers.online === 1 ? "The one worker that is online does" : `The ${workers.online} workers that are online do`;
  if (workers.knowing === 0) {
    const summary = `${online} not know a task named "${name}".`;
    return {
      ...base,
      because: "unknown-task",
      summary,
      advice: [advise("See which workers are there.", "replicas.list", {})],
    };
  }
  const summary = `The workers that know "${name}" do not work on the queue "${queue}".`;
  return { ...base, because: "queue-not-served", summary, advice: [startAWorker(queue)] };
}

function atItsLimit({ queueIs, queue }: TaskFacts): Obstacle | undefined {
  const { concurrency, limited } = queueIs;
  if (concurrency === null || limited < concurrency) return undefined;
  if (concurrency === 0) {
    return {
      because: "concurrency-limit",
      summary: `Its queue "${queue}" has a concurrency of 0, which lets nothing start.`,
      next: "It stays until the limit is raised.",
      isStuck: true,
      advice: [advise("Take the limit away, or set another.", "queues.set", { name: queue, concurrency: null })],
    };
  }
  return {
    because: "concurrency-limit",
    summary: `Its queue "${queue}" is at its limit: ${limited} of ${concurrency} at once, on all replicas together.`,
    next: "It can go on as soon as one of those has ended.",
    isStuck: false,
    advice: [advise("See which tasks of it run.", "tasks.list", { state: "running", queue })],
  };
}

function outOfRate({ queueIs, queue }: TaskFacts): Obstacle | undefined {
  const { rateLimit, rateInMs } = queueIs;
  if (rateLimit === null || rateInMs === null || rateInMs <= 0) return undefined;
  return {
    because: "rate-limit",
    summary: `Its queue "${queue}" has used up its rate of ${rateWords(rateLimit)}.`,
    next: `The next task of the queue can start in ${formatDuration(rateInMs)}.`,
    isStuck: false,
    advice: [],
  };
}

function behindOthers({ ahead, queue, isParked, dueInMs }: TaskFacts): Obstacle | undefined {
  if (ahead === 0 || isParked || dueInMs > 0) return undefined;
  const many = ahead >= 1_000 ? "a thousand or more tasks are" : ahead === 1 ? "one task is" : `${ahead} tasks are`;
  return {
    because: "behind-others",
    summary: `It is due, but ${many} due before it in its queue "${queue}".`,
    next: "It is taken when those have been, by priority and then in their order.",
    isStuck: false,
    advice: [],
  };
}

/** Where it had a runner, its worker is well. */
function isOfRunner(last: TaskFacts["last"]): boolean {
  return readDeathIn(last?.error).runner !== undefined;
}

function history(facts: TaskFacts): string[] {
  const { last, postMortem, attempt, failures, crashes, suspicion, expiresInMs } = facts;
  const lines: string[] = [];
  if (last) {
    const why = last.error ? `: ${inOneLine(last.error)}` : "";
    lines.push(`attempt ${last.attempt} ended ${formatDuration(last.endedAgoMs)} ago as ${last.outcome}${why}`);
  }
  if (last?.outcome === "crashed" && postMortem && !last.error?.message.includes(postMortem.sentence))
    lines.push(`its post-mortem: ${postMortem.sentence}`);
  if (suspicion > 0)
    lines.push(`suspected of ${counted(suspicion, "crash", "crashes")} that it was at together with others`);
  const uncharged = last?.outcome === "crashed" && crashes === 0 && last.error ? unchargedWords(last.error) : undefined;
  if (uncharged) lines.push(uncharged);
  if (attempt > 0) lines.push(`so far ${triesWords({ attempt, failures, crashes })}`);
  if (expiresInMs !== null)
    lines.push(`it expires in ${formatDuration(Math.max(0, expiresInMs))} unless it has started`);
  return lines;
}
