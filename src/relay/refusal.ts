import type { TopicRefusal } from '../kafka/publish-error.ts';

/** Why all events of a kind cannot be published until somebody changes something outside. */
export type Refusal =
  | { readonly kind: 'topic'; readonly topic: string; readonly refusal: TopicRefusal }
  | {
      readonly kind: 'schema';
      readonly eventType: string;
      readonly subject: string;
      /** What the registry has against it. */
      readonly reasons: string;
    };

const topicTexts: Readonly<Record<TopicRefusal, string>> = {
  missing: 'does not exist',
  forbidden: 'must not be written to',
  invalid: 'has a name that Kafka does not allow',
};

/** As it is kept with the event that failed, where an operator reads it and `refusalOf` finds it again. */
export const refusalText = (refusal: Refusal): string =>
  refusal.kind === 'topic'
    ? `Topic ${refusal.topic} ${topicTexts[refusal.refusal]}`
    : `The registry refuses the schema of ${refusal.eventType} (subject ${refusal.subject}): ${refusal.reasons}`;

const topicPattern = `^Topic (\\S+) (${Object.values(topicTexts).join('|')})$`;
const schemaPattern = '^The registry refuses the schema of (\\S+) \\(subject (\\S+)\\): (.*)$';

/** Which texts are refusals, also for PostgreSQL, whose dot takes line breaks as well. */
export const refusalPattern = `${topicPattern}|${schemaPattern}`;

/** What a kept text says of its kind; undefined for any other failure. */
export const refusalOf = (text: string): Refusal | undefined => {
  const [, topic, topicText] = new RegExp(topicPattern).exec(text) ?? [];
  const refusals = Object.keys(topicTexts) as TopicRefusal[];
  const refusal = refusals.find((candidate) => topicTexts[candidate] === topicText);
  if (topic && refusal) return { kind: 'topic', topic, refusal };
  const [, eventType, subject, reasons] = new RegExp(schemaPattern, 's').exec(text) ?? [];
  return eventType && subject && reasons !== undefined
    ? { kind: 'schema', eventType, subject, reasons }
    : undefined;
};
