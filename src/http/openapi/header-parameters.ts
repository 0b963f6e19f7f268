import { consistencyTokenPattern } from '../../journal/consistency-token.ts';
import { isConditional, type Operation } from '../operation.ts';

/** A header as the document tells it; the code that reads it is in header-values.ts, and a test keeps the two together. */
export interface HeaderParameter {
  readonly name: string;
  readonly required: boolean;
  readonly pattern: string;
  readonly description: string;
  readonly examples: readonly string[];
}

const everyCommand: readonly HeaderParameter[] = [
  {
    name: 'Idempotency-Key',
    required: true,
    pattern: '^("[\\x21\\x23-\\x7e]{1,255}"|[\\x21\\x23-\\x7e]{1,255})$',
    description:
      'Chosen by the client, new for every command and the same for its repetitions; quotes make no difference',
    examples: ['5c1e6f0e-6f0b-4e0c-9d5a-0e4f7a2f9a11'],
  },
  {
    name: 'X-Correlation-Id',
    required: false,
    pattern: '^[\\x21-\\x7e]{1,255}$',
    description:
      'Ties what follows from this to something the client knows; anything else than visible ASCII is replaced',
    examples: ['checkout-42'],
  },
  {
    name: 'traceparent',
    required: false,
    pattern: '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
    description: 'W3C trace context, passed on with every event',
    examples: ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'],
  },
];

const ifMatch: HeaderParameter = {
  name: 'If-Match',
  required: false,
  pattern: '^"(0|[1-9][0-9]{0,15})"$',
  description: 'The version that was seen: the command happens only while it is current',
  examples: ['"5"'],
};

const tag = '(W/)?"[\\x21\\x23-\\x7e]*"';
const ifNoneMatch: HeaderParameter = {
  name: 'If-None-Match',
  required: false,
  pattern: `^${tag}( *, *${tag})*$`,
  description: 'Tags of answers that the client has: 304 and no body when one of them is still right',
  examples: ['"5"'],
};

const lastEventId: HeaderParameter = {
  name: 'Last-Event-ID',
  required: false,
  pattern: '^[\\x21-\\x7e]{1,1500}$',
  description:
    'The id of the last event that the client has heard: what changed since then comes first, or a `reset` where that is not known any more',
  examples: ['7501234567890123456-1024:1024:'],
};

const everyConsistentRead: readonly HeaderParameter[] = [
  {
    name: 'Consistency-Token',
    required: false,
    pattern: consistencyTokenPattern,
    description: 'From the answer of a command: the query waits until it can show what that command did',
    examples: ['1'],
  },
  {
    name: 'Prefer',
    required: false,
    pattern: '^wait=[0-9]{1,6}$',
    description: 'How many seconds it may wait for that; 5 unless told, and 30 at most',
    examples: ['wait=10'],
  },
];

export const headerParameters = (operation: Operation): readonly HeaderParameter[] => {
  if (operation.command)
    return operation.command.ifMatch === 'not-applicable' ? everyCommand : [...everyCommand, ifMatch];
  if (operation.isStream) return [lastEventId];
  return [
    ...(isConditional(operation) ? [ifNoneMatch] : []),
    ...(operation.reads ? everyConsistentRead : []),
  ];
};
