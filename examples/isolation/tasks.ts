/** Only definitions: runners load this module too, to find their tasks in it. */
import { defineTask } from "everbeat";

const module = import.meta.url;

/** Keeps a processor busy, and its caller's event loop free. */
export const countPrimes = defineTask({
  name: "count-primes",
  runIn: "thread",
  module,
  run({ below }: { below: number }): number {
    let count = 0;
    for (let n = 2; n < below; n++) {
      let isPrime = true;
      for (let divisor = 2; divisor * divisor <= n && isPrime; divisor++) isPrime = n % divisor !== 0;
      if (isPrime) count++;
    }
    return count;
  },
});

/** What a broken native module does to a process. */
export const segfault = defineTask({
  name: "segfault",
  runIn: "process",
  module,
  run: () => process.kill(process.pid, "SIGSEGV"),
});

/** Dies of hunger the first time, and is content with less the second: `onCrash: "requeue"` says that it may run again. */
export const hungry = defineTask({
  name: "hungry",
  runIn: "process",
  module,
  onCrash: "requeue",
  run(_input: null, { task }): string {
    const held: number[][] = [];
    while (task.attempt === 1) held.push(new Array<number>(100_000).fill(Math.random()));
    return `content with little, at attempt ${task.attempt}`;
  },
});

/** Never ends, never listens. */
export const endless = defineTask({
  name: "endless",
  runIn: "process",
  module,
  timeout: "1s",
  run(): never {
    for (;;);
  },
});

export const hello = defineTask({ name: "hello", run: ({ name }: { name: string }) => `hello ${name}` });
