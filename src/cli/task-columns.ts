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
    taskNameColumn(colours),
    {
      title: "STATE",
      value: (task) => marked(task.state),
      style: (text, task) => inColourOf(task.state, text, colours),
    },
  ];
}

/** Names may be shortened beside the id, by which `tasks show` tells them whole. */
export function taskNameColumn<Task extends Pick<NamedTask, "name">>(colours: Colours): Column<Task> {
  return { title: "TASK", value: (task) => task.name, style: (text) => colours.bold(text), atLeast: 24 };
}

export function queueColumn<Task extends Pick<NamedTask, "queue">>(): Column<Task> {
  return { title: "QUEUE", value: (task) => task.queue, atLeast: 16 };
}
