import type { DeadLetter } from '../../../src/dlq-admin/dead-letter.ts';
import type { Decision } from '../../../src/dlq-admin/decision.ts';
import type { DeadLetterAdmin } from '../../../src/dlq-admin/dlq-admin.ts';

export const deadLetter: DeadLetter = {
  place: { topic: 'spec.like-events.dlq', partition: 0, offset: 17 },
  projection: 'product-statistic',
  projectionVersion: 1,
  kind: 'failed',
  exception: 'RangeError',
  message: 'Too many',
  key: 'mill-1',
  original: { topic: 'spec.like-events', partition: 2, offset: 41 },
  replays: 1,
  failedAt: new Date(1000),
  valueBytes: 12,
  valueAtOffset: null,
};

export const decision: Decision = {
  decision: 'replayed',
  attempt: 1,
  replayId: '0198c0de-0000-7000-8000-000000000007',
  who: 'operator:ann',
  decidedAt: new Date(2000),
  doneAt: new Date(3000),
};

/** Dead letters that are all there, and about which everything can be done. */
export const goodDeadLetters: DeadLetterAdmin = {
  topics: { names: ['like-events', 'order-events'], prefix: 'spec.' },
  list: async () => ({ letters: [{ letter: deadLetter, decision: undefined }], more: false }),
  stats: async () => ({
    letters: 1,
    oldestAt: new Date(1000),
    causes: [
      {
        topic: 'like-events',
        projection: 'product-statistic',
        exception: 'RangeError',
        message: 'Too many',
        letters: 1,
        oldestAt: new Date(1000),
        newestAt: new Date(1000),
        example: deadLetter.place,
      },
    ],
  }),
  show: async () => ({
    letter: deadLetter,
    decision: undefined,
    message: 'Too many',
    stack: 'RangeError: Too many\n    at x',
    isParked: false,
    headers: [{ name: 'ce_type', value: 'liked', isText: true }],
    value: { unreadable: 'not in this spec', bytes: Buffer.from('bytes') },
    history: [decision],
  }),
  replay: async (_selection, { dryRun }) => ({
    outcome: dryRun ? 'would-replay' : 'replayed',
    replayId: dryRun ? null : decision.replayId,
    rounds: dryRun ? 0 : 1,
    stillParked: 0,
    releasedKeys: 0,
    letters: [deadLetter],
    refused: [],
    more: false,
  }),
  drop: async (_selection, { dryRun }) => ({
    outcome: dryRun ? 'would-drop' : 'dropped',
    releasedKeys: dryRun ? 0 : 1,
    waitingKeys: [],
    letters: [deadLetter],
    refused: [],
    more: false,
  }),
  skipVersion: async ({ projection, key, version = 3 }, { dryRun }) => ({
    outcome: dryRun ? 'would-skip' : 'skipped',
    projection,
    step: 'order-versions',
    key,
    version,
    next: version + 2,
    releasedRecords: 1,
  }),
};
