export interface Cluster {
  readonly bin: string;
  readonly data: string;
  readonly port: number;
  readonly url: string;
  start(): void;
  stop(mode?: "fast" | "immediate"): void;
  kill(): void;
  promote(): void;
  standby(settings?: readonly string[]): Promise<Cluster>;
  backUp(): void;
  restore(): void;
  copyByDump(from: string, to: string): void;
  remove(): void;
}
export function debianBinaries(): string;
export function createCluster(options?: { settings?: readonly string[] }): Promise<Cluster>;
