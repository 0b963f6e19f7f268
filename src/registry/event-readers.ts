import { type EventReader, eventReaderOf } from '../avro/read-envelope.ts';
import { isUnreadable } from './read-framed-envelope.ts';
import type { SchemaRegistry } from './schema-registry.ts';

/** Events of that schema cannot be read, now or later. */
export class NoReader {
  readonly reason: Error;
  readonly untilMs: number;

  constructor(reason: Error, untilMs: number) {
    this.reason = reason;
    this.untilMs = untilMs;
  }
}

/** A schema the registry does not have may have been restored to it some time later. */
const unknownKeptMs = 10_000;
/** Bytes that only look like a frame may name any schema: there can be as many unknown ones as records. */
const answersMax = 10_000;
const questionsAtOnceMax = 8;

/** How to read what was written with which schema; each schema is asked for once. */
export class EventReaders {
  readonly #registry: SchemaRegistry;
  readonly #clock: () => number;
  readonly #answers = new Map<number, EventReader | NoReader>();
  readonly #asking = new Map<number, Promise<void>>();
  /** Why the registry's last answer was none. */
  #trouble: Error | undefined;

  constructor(registry: SchemaRegistry, clock: () => number = Date.now) {
    this.#registry = registry;
    this.#clock = clock;
  }

  /** Undefined where the registry has to be asked first. */
  find(schemaId: number): EventReader | NoReader | undefined {
    const answer = this.#answers.get(schemaId);
    return answer instanceof NoReader && this.#clock() > answer.untilMs ? undefined : answer;
  }

  /**
   * Asks for what is not known yet. Answers with what is wrong when the registry does not. While it is in trouble nobody
   * waits for it, so that events of known schemas go on; it is asked all the same, and the next call may find the answer.
   */
  async ask(schemaIds: ReadonlySet<number>): Promise<Error | undefined> {
    const wasInTrouble = this.#trouble;
    const asked = this.#askAll([...schemaIds].filter((id) => this.find(id) === undefined));
    if (wasInTrouble) return wasInTrouble;
    await asked;
    return this.#trouble;
  }

  async #askAll(schemaIds: readonly number[]): Promise<void> {
    const waiting = schemaIds.values();
    const askOneAfterTheOther = async (): Promise<void> => {
      for (const schemaId of waiting) await this.#askOnce(schemaId);
    };
    const lines = Math.min(questionsAtOnceMax, schemaIds.length);
    await Promise.all(Array.from({ length: lines }, askOneAfterTheOther));
  }

  #askOnce(schemaId: number): Promise<void> {
    const asked = this.#asking.get(schemaId);
    if (asked) return asked;
    const asking = this.#lookUp(schemaId).finally(() => this.#asking.delete(schemaId));
    this.#asking.set(schemaId, asking);
    return asking;
  }

  async #lookUp(schemaId: number): Promise<void> {
    try {
      const writer = await this.#registry.writerType(schemaId);
      this.#trouble = undefined;
      this.#keep(
        schemaId,
        readerOrReason(() => eventReaderOf(writer)),
      );
    } catch (error) {
      if (isUnreadable(error)) {
        this.#trouble = undefined;
        this.#keep(schemaId, new NoReader(error, this.#clock() + unknownKeptMs));
      } else {
        this.#trouble = error instanceof Error ? error : new Error(String(error));
      }
    }
  }

  #keep(schemaId: number, answer: EventReader | NoReader): void {
    if (this.#answers.size >= answersMax) {
      for (const [id, known] of this.#answers) if (known instanceof NoReader) this.#answers.delete(id);
    }
    this.#answers.set(schemaId, answer);
  }
}

/** A schema that this version cannot read stays so. */
const readerOrReason = (make: () => EventReader): EventReader | NoReader => {
  try {
    return make();
  } catch (error) {
    return new NoReader(error as Error, Number.POSITIVE_INFINITY);
  }
};
