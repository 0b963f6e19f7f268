import { deadLetterTopicOf } from '../topics/topic-plan.ts';

/** Where a letter lies. */
export interface LetterPlace {
  /** The dead-letter topic, as the broker calls it. */
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export const placeKey = ({ topic, partition, offset }: LetterPlace): string =>
  `${topic}/${partition}@${offset}`;

/** The topics whose dead letters are looked after, by the names that people use. */
export interface LetterTopics {
  /** Without prefix and ending, such as `like-events`. */
  readonly names: readonly string[];
  readonly prefix: string;
}

const ending = deadLetterTopicOf('');

/** What the broker calls the topic that the records came from. */
export const physicalTopicOf = ({ prefix }: LetterTopics, name: string): string => `${prefix}${name}`;

export const letterTopicOf = (topics: LetterTopics, name: string): string =>
  deadLetterTopicOf(physicalTopicOf(topics, name));

/** `like-events` for `like-events`, `like-events.dlq` and either of them with the prefix; undefined for what is not known. */
export const topicNameOf = ({ names, prefix }: LetterTopics, text: string): string | undefined => {
  const plain = text.endsWith(ending) ? text.slice(0, -ending.length) : text;
  if (names.includes(plain)) return plain;
  const unprefixed = plain.startsWith(prefix) ? plain.slice(prefix.length) : plain;
  return names.includes(unprefixed) ? unprefixed : undefined;
};

/** Short enough to be typed: `like-events@17`. The partition is told where it is not the first, and only, one. */
export const letterId = (topics: LetterTopics, { topic, partition, offset }: LetterPlace): string => {
  const name = topicNameOf(topics, topic) ?? topic;
  return partition === 0 ? `${name}@${offset}` : `${name}/${partition}@${offset}`;
};

const parts = /^(?<topic>[a-zA-Z0-9._-]{1,249})(?:\/(?<partition>\d{1,9}))?@(?<offset>\d{1,15})$/;

/** Takes the short form, and the long one `like-events.dlq/0@17`; undefined for what names no letter. */
export const parseLetterId = (topics: LetterTopics, text: string): LetterPlace | undefined => {
  const { topic = '', partition = '0', offset } = parts.exec(text)?.groups ?? {};
  const name = topicNameOf(topics, topic);
  if (name === undefined || offset === undefined) return undefined;
  return { topic: letterTopicOf(topics, name), partition: Number(partition), offset: Number(offset) };
};
