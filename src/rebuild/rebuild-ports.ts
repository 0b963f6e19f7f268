import type { Logger } from 'pino';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import type { TopicReader } from '../kafka/topic-reader.ts';
import type { Database } from '../postgres/database.ts';
import type { RecordDecoder } from '../streams/ports.ts';
import type { StreamsSettings } from '../streams/run-topology.ts';
import type { Calls } from './store-calls.ts';

/** What a rebuild works with. */
export interface RebuildPorts {
  /** Without a limit to what a statement may take: it compares whole tables. */
  readonly database: Database;
  /** The same database, with the tables of a build in front of the live ones. */
  readonly openStore: (schema: string) => Calls;
  readonly reader: TopicReader;
  readonly decoder: RecordDecoder;
  readonly physicalTopic: (name: TopicName) => string;
  /** What the program is: a build that another one has begun is not gone on with. */
  readonly program: string;
  readonly settings: RebuildSettings;
  readonly who: string;
  readonly log: Logger;
  readonly onProgress: (progress: RebuildProgress) => void;
  readonly signal: AbortSignal;
}

export interface RebuildSettings extends StreamsSettings {
  /** How long the live projection may stand still while it is waited for. */
  readonly patienceMs: number;
  /** How long after its beginning a window of counts is kept. */
  readonly windowRetentionMs: number;
}

export interface RebuildProgress {
  readonly projection: string;
  readonly doing: 'replaying' | 'catching up' | 'waiting' | 'comparing' | 'swapping';
  /** Events since this process began with it. */
  readonly events: number;
  /** Between 0 and 1; undefined where nobody can tell. */
  readonly fraction?: number;
  /** What is waited for. */
  readonly reason?: string;
}
