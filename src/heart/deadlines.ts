/**
 * Until when running tasks may take, in shared memory: written by the main thread where a task with a timeout begins and ends, read
 * by its heart when the main thread's loop is blocked and its own timers do not fire. A fixed number of places: a task that
 * finds none is watched by the main thread alone.
 */
import { TaskTimedOutError } from "../task/errors.ts";
import type { ClaimId, ClaimOnTask, TaskId } from "../task/ids.ts";
import type { TaskSettings } from "../task/settings.ts";
import { steadyNowMs } from "./clock.ts";

export interface TimedTask extends ClaimOnTask {
  readonly timeoutMs: number;
  readonly settings: TaskSettings;
}

export interface Deadline {
  /** To this long from now. */
  putOff(ms: number): void;
  over(): void;
}

export interface Deadlines {
  begin(task: TimedTask): Deadline;
}

export interface OpenDeadline extends ClaimOnTask {
  readonly atMs: number;
  readonly timeoutMs: number;
  readonly isWorthRetrying: boolean;
}

/** Where nobody else could act on them. */
export const NO_DEADLINES: Deadlines = { begin: () => ({ putOff() {}, over() {} }) };

const PLACES = 1_024;
/** Of a place: the claim, its time, its timeout, whether it is retried, and the task in four parts. */
const NUMBERS = 8;
const TASK_AT = 4;

export class SharedDeadlines implements Deadlines {
  readonly buffer: SharedArrayBuffer;
  readonly #numbers: Float64Array;
  readonly #free: number[] = [];
  readonly #retried = new WeakMap<TaskSettings, boolean>();

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(PLACES * NUMBERS * Float64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#numbers = new Float64Array(buffer);
    for (let place = PLACES - 1; place >= 0; place--) this.#free.push(place * NUMBERS);
  }

  begin(task: TimedTask): Deadline {
    const { claimId, timeoutMs } = task;
    const at = this.#free.pop();
    if (at === undefined) return NO_DEADLINES.begin(task);
    const numbers = this.#numbers;
    numbers[at + 1] = steadyNowMs() + timeoutMs;
    numbers[at + 2] = timeoutMs;
    numbers[at + 3] = this.#isRetried(task) ? 1 : 0;
    writeTask(numbers, at + TASK_AT, task.taskId);
    // Last: a place counts from when it has a claim.
    numbers[at] = Number(claimId);
    return {
      putOff: (ms) => {
        numbers[at + 1] = steadyNowMs() + ms;
      },
      over: () => {
        numbers[at] = 0;
        this.#free.push(at);
      },
    };
  }

  /** The deadlines that have passed at `nowMs`. For the heart, while the main thread stands still. */
  overdueAt(nowMs: number): OpenDeadline[] {
    const passed: OpenDeadline[] = [];
    for (let at = 0; at < this.#numbers.length; at += NUMBERS) {
      const [claim = 0, atMs = 0, timeoutMs = 0, isWorthRetrying = 0] = this.#numbers.subarray(at, at + NUMBERS);
      if (claim === 0 || atMs > nowMs) continue;
      const taskId = readTask(this.#numbers, at + TASK_AT);
      passed.push({
        claimId: String(claim) as ClaimId,
        taskId,
        atMs,
        timeoutMs,
        isWorthRetrying: isWorthRetrying === 1,
      });
    }
    return passed;
  }

  /** What a definition says of its timeouts. Asked once, and ahead: later there may be nobody to ask. */
  #isRetried({ settings, taskId, timeoutMs }: TimedTask): boolean {
    const known = this.#retried.get(settings);
    if (known !== undefined) return known;
    let isRetried = true;
    try {
      isRetried = settings.isWorthRetrying(new TaskTimedOutError(taskId, timeoutMs));
    } catch {
      // The user's own judgement of an error; one that throws is no judgement.
    }
    this.#retried.set(settings, isRetried);
    return isRetried;
  }
}

const DIGITS = 8;
const PARTS = 4;

/** Eight digits in each number: what a number holds exactly. */
function writeTask(numbers: Float64Array, at: number, task: TaskId): void {
  const digits = task.replaceAll("-", "");
  for (let part = 0; part < PARTS; part++) {
    numbers[at + part] = Number.parseInt(digits.slice(part * DIGITS, (part + 1) * DIGITS), 16);
  }
}

function readTask(numbers: Float64Array, at: number): TaskId {
  const parts = [...numbers.subarray(at, at + PARTS)].map((part) => part.toString(16).padStart(DIGITS, "0"));
  return parts.join("").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as TaskId;
}
