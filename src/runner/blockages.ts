/** What is made of the blocked loops of runners. */
import type { BlockageSight } from "../heart/loop-watch.ts";
import type { Runner } from "./runner.ts";

export interface RunnerBlockages {
  /** Its loop is blocked, longer than when that was said before. */
  onBlocked(runner: Runner, sight: BlockageSight): void;
  /** It turns again. */
  onTurned(runner: Runner, blockedMs: number): void;
  onEnded(runnerId: string): void;
  /** Writes what could not be written before. */
  settle(): Promise<void>;
}
