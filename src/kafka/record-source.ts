import { setTimeout as pause } from 'node:timers/promises';
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import type { RecordSource, SeekOptions, SourceHandlers } from '../streams/ports.ts';
import type { Place, RawBatch } from '../streams/record.ts';
import { AppliedOffsets } from './applied-offsets.ts';
import { atMost } from './at-most.ts';
import { createGroupMember, type GroupMember } from './group-member.ts';
import { Membership } from './membership.ts';
import type { OnDamage } from './place-queue.ts';
import { ProgressWatchdog } from './progress-watchdog.ts';
import { type OutOfRange, RecordQueue } from './record-queue.ts';

export interface RecordSourceOptions {
  readonly groupId: string;
  readonly topics: readonly string[];
  readonly startFrom: 'earliest' | 'latest';
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /** Fetched bytes that wait to be taken. */
  readonly queueBytesMax: number;
  /** Silence, while the broker has something, after which the consumer is started anew. */
  readonly stallMs: number;
  readonly retryDelayMs: number;
  /**
   * Told how many partitions the topics have whenever places are assigned: which of these must not be read for now. Throws
   * when none may be.
   */
  readonly heldPlaces?: (
    assigned: readonly Place[],
    counts: ReadonlyMap<string, number>,
  ) => Promise<readonly Place[]>;
  readonly log: Logger;
}

/** Kafka as a source of records: kafkajs keeps this process in its group, what is fetched waits in a bounded queue. */
export const createRecordSource = (kafka: Kafka, options: RecordSourceOptions): RecordSource =>
  new KafkaSource(kafka, options);

/** A consumer that still waits for its group cannot leave it; whatever it held is safe, so nobody has to wait along. */
const stopWaitMs = 5000;
/** Usually a matter of milliseconds, after which records flow. */
const groupWaitMs = 2000;

class KafkaSource implements RecordSource {
  readonly failed: Promise<Error>;
  readonly #kafka: Kafka;
  readonly #options: RecordSourceOptions;
  readonly #queue: RecordQueue;
  readonly #applied: AppliedOffsets;
  readonly #watchdog: ProgressWatchdog;
  readonly #death = Promise.withResolvers<Error>();
  readonly #joined = Promise.withResolvers<void>();
  #hasJoined = false;
  #handlers: SourceHandlers | undefined;
  #membership: Membership | undefined;
  #member: GroupMember | undefined;
  #isStopping = false;

  constructor(kafka: Kafka, options: RecordSourceOptions) {
    this.#kafka = kafka;
    this.#options = options;
    this.failed = this.#death.promise;
    this.#queue = new RecordQueue({
      bytesMax: options.queueBytesMax,
      onOutOfRange: (place) => void this.#goOnWithWhatIsLeft(place),
      onDamage: (found) => this.#tellOfDamage(found),
      onStartedByGroup: (place) => this.reportApplied([place]),
    });
    this.#applied = new AppliedOffsets({
      commit: async (offsets) => this.#member?.commit(offsets.filter((place) => this.#queue.has(place))),
      log: options.log,
    });
    this.#watchdog = new ProgressWatchdog({
      stallMs: options.stallMs,
      clock: Date.now,
      silentSince: (timeMs) => this.#queue.silentSince(timeMs),
      endOffsets: (topic) => endOffsets(kafka, topic),
      restart: () => this.#restart(),
      log: options.log,
    });
  }

  async start(handlers: SourceHandlers): Promise<void> {
    const { startFrom, retryDelayMs, log } = this.#options;
    this.#handlers = handlers;
    this.#membership = new Membership({
      queue: this.#queue,
      handlers,
      startFrom,
      retryDelayMs,
      onKnown: (offsets) => this.reportApplied(offsets),
      heldPlaces: (assigned) => this.#heldPlaces(assigned),
      topicIds: async () => (await this.#member?.topicIds()) ?? new Map(),
      log,
    });
    await this.#enter();
    await this.#waitForGroup();
    this.#watchdog.start();
  }

  async take(limits: { recordsMax: number; waitMs: number }): Promise<readonly RawBatch[]> {
    const deadlineMs = performance.now() + limits.waitMs;
    for (;;) {
      const batches = this.#queue.take(limits.recordsMax);
      const leftMs = deadlineMs - performance.now();
      if (batches.length > 0 || leftMs <= 0 || this.#isStopping) return batches;
      await this.#queue.arrived.wait(leftMs);
    }
  }

  seek(place: Place, offset: number, options?: SeekOptions): number {
    return this.#queue.seek(place, offset, options);
  }

  isCaughtUp(place: Place, askedAfterMs: number): boolean {
    return this.#queue.isCaughtUp(place, askedAfterMs);
  }

  setPaused(isPaused: boolean): void {
    this.#queue.setPaused(isPaused);
  }

  reportApplied(offsets: readonly (Place & { readonly offset: number })[]): void {
    if (!this.#isStopping) this.#applied.report(offsets);
  }

  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    const leaving = async (): Promise<void> => {
      await this.#applied.flush();
      await this.#watchdog.stop();
      await this.#member?.stop();
    };
    await atMost(stopWaitMs, leaving());
    this.#queue.assign([]);
    this.#queue.arrived.raise();
    this.#queue.freed.raise();
  }

  /** A new consumer, connected; what an earlier one still does or says does not count any more. */
  async #enter(): Promise<void> {
    const isCurrent = (): boolean => this.#member === member;
    const member = createGroupMember(this.#kafka, {
      ...this.#options,
      fetching: {
        plan: (call) => (isCurrent() ? this.#queue.plan(call) : undefined),
        waitForRoom: (timeMs) => this.#queue.freed.wait(timeMs),
      },
      onLeaving: () => {
        if (isCurrent()) this.#leave();
      },
      onJoined: (places) => {
        if (isCurrent()) this.#join(places);
      },
      onDeath: (error) => {
        if (isCurrent() && !this.#isStopping) this.#death.resolve(error);
      },
    });
    this.#member = member;
    try {
      await member.start();
    } catch (error) {
      this.#member = undefined;
      await atMost(
        stopWaitMs,
        member.stop().catch(() => undefined),
      );
      throw error;
    }
  }

  #leave(): void {
    this.#applied.forget();
    if (!this.#isStopping) this.#membership?.leave();
  }

  #join(places: readonly Place[]): void {
    if (this.#isStopping) return;
    this.#membership?.join(places);
    this.#hasJoined = true;
    this.#joined.resolve();
  }

  /**
   * Ready should mean that records flow. But a consumer that was killed keeps its place in the group until its session
   * ends, and the others wait for it: nothing is lost by that, and a start should not hang on it.
   */
  async #waitForGroup(): Promise<void> {
    const { log, groupId, sessionTimeoutMs } = this.#options;
    await atMost(groupWaitMs, Promise.race([this.#joined.promise, this.failed]));
    if (this.#hasJoined) return;
    log.warn(
      { group: groupId, sessionTimeoutMs },
      'The consumer group still counts a member that is gone; records flow when its session has ended',
    );
    void this.#joined.promise.then(() => log.info({ group: groupId }, 'Records flow'));
  }

  async #heldPlaces(assigned: readonly Place[]): Promise<readonly Place[]> {
    const { heldPlaces } = this.#options;
    const member = this.#member;
    return heldPlaces && member ? heldPlaces(assigned, await member.partitionCounts()) : [];
  }

  async #restart(): Promise<void> {
    const { retryDelayMs, log } = this.#options;
    const old = this.#member;
    this.#member = undefined;
    this.#leave();
    if (old)
      await atMost(
        stopWaitMs,
        old.stop().catch(() => undefined),
      );
    while (!this.#isStopping) {
      try {
        return await this.#enter();
      } catch (error) {
        log.warn({ err: error }, 'The consumer cannot be started anew yet');
        await pause(retryDelayMs, undefined, { ref: false });
      }
    }
  }

  #tellOfDamage({ verdict, what, ...place }: Parameters<OnDamage>[0]): void {
    const { log } = this.#options;
    if (verdict.isCondemned)
      log.error(
        place,
        `A record batch ${what}. The broker delivers the same damage every time: the batch counts as one record that cannot be decoded. Check the disks of the brokers`,
      );
    else
      log.warn(
        { ...place, deliveries: verdict.deliveries, fetchAgainAfterMs: verdict.fetchAgainAfterMs },
        `A record batch ${what}. It is fetched again; if that helps, it was damaged on its way`,
      );
  }

  /**
   * Retention has taken what was to be read next: whoever reads decides whether to go on without it. Or the log ends before it,
   * and is read anew.
   */
  async #goOnWithWhatIsLeft(place: OutOfRange): Promise<void> {
    const { topic, partition, offset } = place;
    const { log, retryDelayMs } = this.#options;
    while (this.#queue.isReading(place) && !this.#isStopping) {
      try {
        const firstOffset = await this.#member?.firstOffset(place);
        if (firstOffset === undefined) return;
        // The log ends before the offset, or does not know the epoch that was read there.
        const logBreak = place.logBreak ?? (offset >= firstOffset ? 'truncated' : undefined);
        if (logBreak) return this.#queue.openAnew(place, logBreak, firstOffset);
        if (!this.#handlers?.onGone({ ...place, firstOffset })) return;
        log.error(
          { topic, partition, offset, firstOffset },
          'Records are gone from a topic that the projection has never read; it begins with the first that is left',
        );
        this.#queue.open(place, firstOffset);
        return;
      } catch (error) {
        log.debug({ err: error, topic, partition }, 'The broker does not say where the topic begins');
        await pause(retryDelayMs, undefined, { ref: false });
      }
    }
  }
}

/** On a connection of its own: the one that is in doubt cannot be asked. */
const endOffsets = async (kafka: Kafka, topic: string): Promise<ReadonlyMap<number, number>> => {
  const admin = kafka.admin();
  await admin.connect();
  try {
    const found = await admin.fetchTopicOffsets(topic);
    return new Map(found.map(({ partition, high }) => [partition, Number(high)]));
  } finally {
    await admin.disconnect();
  }
};
