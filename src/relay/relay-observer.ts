import type { OutboxRow } from './outbox-source.ts';

/** What the relay tells whoever counts. Called while it works: it must be quick and must not throw. */
export interface RelayObserver {
  /** Kafka has acknowledged these events, now. */
  published(topic: string, events: readonly Pick<OutboxRow, 'createdAt'>[]): void;
  /** A page came from the source. */
  pageRead(events: number): void;
  /** A try of the main relay that left an event behind in `outbox_failed`. */
  failed(events: number): void;
  /** Tries of the retry relay, by how they ended. */
  retried(outcome: 'sent' | 'failed', events: number): void;
  /** Events whose payload is not what the command wrote. */
  tampered(events: number): void;
  /** Whether this process has the right to relay, by the lease's name. */
  leaseChanged(lease: string, isHeld: boolean): void;
  /** The job that this lease is for fails, each time it does; null when it works again. */
  troubleChanged(lease: string, error: Error | null): void;
  /** Events that were put aside because the processes that tried them ended. */
  fatal(events: number): void;
  /** A relay stopped answering and its work was taken over. */
  recovered(lease: string): void;
}
