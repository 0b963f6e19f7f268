/** Where the servers are that the pipeline runs on. Without Redis, caches live in the process. */
export interface Endpoints {
  readonly databaseUrl: string;
  readonly kafkaBrokers: readonly string[];
  readonly schemaRegistryUrl: string;
  readonly redisUrl: string | undefined;
}

/** Running servers: started here, attached to, or only named by the environment. */
export interface Infrastructure {
  readonly origin: 'external' | 'docker' | 'embedded';
  readonly endpoints: Endpoints;
  /** Settles with the reason when a server that was started here dies; never settles otherwise. */
  readonly failed: Promise<Error>;
  /** Stops what was started here, and nothing else. Safe to call twice. */
  stop(): Promise<void>;
}

/** What happens while servers are fetched and started, for whoever draws it. */
export interface ProgressReport {
  readonly subject: string;
  readonly state: 'running' | 'done' | 'failed';
  readonly text: string;
  /** Between 0 and 1, where the whole is known. */
  readonly fraction?: number;
}
export type ReportProgress = (report: ProgressReport) => void;
