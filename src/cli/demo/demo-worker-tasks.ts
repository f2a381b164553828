/** What a worker process of the demo is started with. */
import { leaveWithParent } from "./demo-tasks.ts";

export { demoBlock, demoHungry, demoPoison, demoStep } from "./demo-tasks.ts";

leaveWithParent();
