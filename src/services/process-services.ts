/** The services of one process, or of one part of it: started in this order, stopped together, and how the last run of each went. */
import type { TurnRow } from "../sql/turns.ts";
import { SERVICES, type ServiceName } from "./list.ts";
import type { Service, ServiceRun } from "./service.ts";

/** A service, or something that has one. */
export type Runs = Pick<Service, "name" | "start" | "stop" | "lastRun">;

export interface ProcessServiceReport {
  readonly name: ServiceName;
  readonly does: string;
  readonly lastRun: ServiceRun | undefined;
}

/** What runs in the background, by the record of the cluster and by what this process remembers. */
export interface ServiceReports {
  readonly cluster: readonly TurnRow[];
  readonly process: readonly ProcessServiceReport[];
}

export class ProcessServices {
  readonly #services: readonly Runs[];

  constructor(services: readonly Runs[]) {
    this.#services = services;
  }

  start(): void {
    for (const service of this.#services) service.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.stop()));
  }

  reports(): ProcessServiceReport[] {
    return this.#services.map(reportOf);
  }
}

export function reportOf({ name, lastRun }: Pick<Runs, "name" | "lastRun">): ProcessServiceReport {
  return { name, does: SERVICES[name].does, lastRun };
}
