export interface Cluster {
  readonly bin: string;
  readonly data: string;
  readonly port: number;
  readonly url: string;
  start(settings?: string[]): void;
  stop(mode?: "fast" | "immediate"): void;
  promote(): void;
  standby(): Promise<Cluster>;
  backUp(): void;
  restore(): void;
  copyByDump(from: string, to: string): void;
  remove(): void;
}
export function debianBinaries(): string;
export function createCluster(options?: { settings?: string[] }): Promise<Cluster>;
