import { randomUUID } from 'node:crypto';
import type { LogBreak, LogIdentity, RawRecord } from '../record.ts';

export interface LogPosition {
  readonly offset: number;
  readonly log: LogIdentity | undefined;
}

/** One partition as a broker has it, in memory: what is appended gets offsets, and the log may lose its end or be made anew. */
export class MemoryLog {
  #topicId: string = randomUUID();
  #leaderEpoch = 0;
  #records: (RawRecord & { readonly leaderEpoch: number })[] = [];

  get records(): readonly RawRecord[] {
    return this.#records;
  }

  append(record: Omit<RawRecord, 'offset'>): number {
    const offset = this.#records.length;
    this.#records.push({ ...record, offset, leaderEpoch: this.#leaderEpoch });
    return offset;
  }

  /** Deleted, and made anew under the same name. */
  recreate(): void {
    this.#topicId = randomUUID();
    this.#leaderEpoch = 0;
    this.#records = [];
  }

  /** A broker comes back without what it had not written to its disk, and leads under a new epoch. */
  truncate(offset: number): void {
    this.#records = this.#records.slice(0, offset);
    this.#leaderEpoch++;
  }

  /** What identifies the log before an offset. */
  identityAt(offset: number): LogIdentity {
    return { topicId: this.#topicId, leaderEpoch: this.#records[offset - 1]?.leaderEpoch };
  }

  /** Where a reader has to begin anew that has come to that position; nothing where it can go on. */
  breakFor({ offset, log }: LogPosition): (LogPosition & { readonly logBreak: LogBreak }) | undefined {
    if (!log) return undefined;
    if (log.topicId !== this.#topicId) return { offset: 0, log: this.identityAt(0), logBreak: 'recreated' };
    const { leaderEpoch } = log;
    if (leaderEpoch === undefined) return undefined;
    const end = this.#records.findLastIndex((record) => record.leaderEpoch <= leaderEpoch) + 1;
    if (end >= offset && this.#records[end - 1]?.leaderEpoch === leaderEpoch) return undefined;
    // Within the epoch everything before its end is the same; otherwise nobody knows from where on it differs.
    const begin = this.#records[end - 1]?.leaderEpoch === leaderEpoch ? end : 0;
    return { offset: begin, log: this.identityAt(begin), logBreak: 'truncated' };
  }
}
