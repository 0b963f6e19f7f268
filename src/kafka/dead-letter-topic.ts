import type { DeadLetter, DeadLetters, ProjectionId } from '../streams/ports.ts';
import { deadLetterTopicOf } from '../topics/topic-plan.ts';
import { deadLetterHeaders as names } from './dead-letter-headers.ts';
import { FetchedRecord, type HeaderEntry } from './fetched-record.ts';
import { encodeHeaderEntries } from './header-block.ts';
import { PublishError } from './publish-error.ts';
import type { OutgoingRecord, RecordProducer } from './record-producer.ts';

/** How much a letter says. A record may be as large as the topic takes, and then there is no room for much beside it. */
type Detail = 'everything' | 'no stack' | 'no value';
const lessAndLess: readonly Detail[] = ['everything', 'no stack', 'no value'];

/** Longer ones tell no more and could make the dead letter itself too large. */
const stackLengthMax = 4000;
const messageLengthMax = 1000;
const shortMessageLengthMax = 100;

/** Original key, bytes and headers, with the cause in further headers. */
export const createDeadLetterTopics = (producer: Pick<RecordProducer, 'send'>): DeadLetters => ({
  send: async (projection, letters) => {
    const failedAt = new Date().toISOString();
    const write = (letter: DeadLetter, detail: Detail): OutgoingRecord =>
      recordOf(letter, { projection, failedAt, detail });
    const byTopic = Map.groupBy(letters, ({ place }) => deadLetterTopicOf(place.topic));
    try {
      await producer.send(
        mapValues(byTopic, (ofTopic) => ofTopic.map((letter) => write(letter, 'everything'))),
      );
    } catch (error) {
      if (!isTooLarge(error)) throw error;
      for (const { topic, letter } of unacknowledged(error, byTopic)) {
        await sendAlone(producer, topic, (detail) => write(letter, detail));
      }
    }
  },
});

const mapValues = <K, A, B>(map: ReadonlyMap<K, A>, change: (value: A) => B): ReadonlyMap<K, B> =>
  new Map([...map].map(([key, value]) => [key, change(value)]));

const isTooLarge = (error: unknown): error is PublishError =>
  error instanceof PublishError && error.code === 'RECORD_TOO_LARGE';

type LettersByTopic = ReadonlyMap<string, readonly DeadLetter[]>;

const unacknowledged = (
  error: PublishError,
  byTopic: LettersByTopic,
): readonly { topic: string; letter: DeadLetter }[] => {
  const missing = new Map<string, Set<number>>();
  for (const { topic, positions } of error.unacknowledged()) {
    missing.set(topic, new Set([...(missing.get(topic) ?? []), ...positions]));
  }
  const isMissing = (topic: string, position: number): boolean =>
    missing.size === 0 || (missing.get(topic)?.has(position) ?? false);
  return [...byTopic].flatMap(([topic, letters]) =>
    letters.filter((_, position) => isMissing(topic, position)).map((letter) => ({ topic, letter })),
  );
};

/** Says less and less until there is room. The last resort is a letter that only tells where the record is. */
const sendAlone = async (
  producer: Pick<RecordProducer, 'send'>,
  topic: string,
  write: (detail: Detail) => OutgoingRecord,
): Promise<void> => {
  for (const detail of lessAndLess) {
    try {
      await producer.send(new Map([[topic, [write(detail)]]]));
      return;
    } catch (error) {
      if (!isTooLarge(error) || detail === lessAndLess.at(-1)) throw error;
    }
  }
};

interface Writing {
  readonly projection: ProjectionId;
  readonly failedAt: string;
  readonly detail: Detail;
}

const recordOf = (letter: DeadLetter, writing: Writing): OutgoingRecord => {
  const { key, value } = letter.record;
  const isLeftOut = writing.detail === 'no value' && value !== null;
  return {
    key,
    value: isLeftOut ? null : value,
    sharedHeaders: encodeHeaderEntries(originalHeaders(letter)),
    headers: {
      ...causeHeaders(letter, writing),
      ...(isLeftOut && { [names.valueLeftOut]: String(value.length) }),
    },
  };
};

const causeHeaders = (
  { place, record, kind, error }: DeadLetter,
  { projection, failedAt, detail }: Writing,
): Record<string, string> => ({
  [names.exception]: error.name,
  [names.message]: error.message.slice(0, detail === 'everything' ? messageLengthMax : shortMessageLengthMax),
  ...(detail === 'everything' && { [names.stack]: (error.stack ?? '').slice(0, stackLengthMax) }),
  [names.topic]: place.topic,
  [names.partition]: String(place.partition),
  [names.offset]: String(record.offset),
  [names.projection]: projection.name,
  [names.projectionVersion]: String(projection.version),
  [names.kind]: kind,
  [names.failedAt]: failedAt,
});

const ours: ReadonlySet<string> = new Set(Object.values(names));

/** All of them, those that come twice or have no value too; but not what an earlier letter of the same record said. */
const originalHeaders = ({ record }: DeadLetter): readonly HeaderEntry[] => {
  const entries = record instanceof FetchedRecord ? record.headerEntries() : Object.entries(record.headers);
  return entries.filter(([name]) => !ours.has(name));
};
