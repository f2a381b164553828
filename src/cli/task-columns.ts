/** The columns with which every table of tasks begins. */
import type { TaskState } from "../task/states.ts";
import type { Colours } from "./colours.ts";
import { inColourOf, marked } from "./states.ts";
import type { Column } from "./table.ts";

interface NamedTask {
  readonly id: string;
  readonly name: string;
  readonly queue: string;
  readonly state: TaskState;
}

export function taskColumns<Task extends NamedTask>(colours: Colours): Column<Task>[] {
  return [
    { title: "ID", value: (task) => task.id },
    { title: "TASK", value: (task) => task.name, style: (text) => colours.bold(text) },
    { title: "QUEUE", value: (task) => task.queue },
    {
      title: "STATE",
      value: (task) => marked(task.state),
      style: (text, task) => inColourOf(task.state, text, colours),
    },
  ];
}
