import { expect } from 'chai';
import { describeChange, describeSkip } from '../../../src/cli/dlq-tables.ts';
import { hexDump } from '../../../src/cli/hex-dump.ts';
import { letterProgress } from '../../../src/cli/letter-progress.ts';
import { dropAnswer, type RefusalAnswer, replayAnswer } from '../../../src/dlq-admin/answers.ts';
import { deadLetter, decision, goodDeadLetters } from '../http/good-dead-letters.ts';

describe('hex dump', () => {
  it('shows where bytes are, what they are, and what they would be as text', () => {
    expect(hexDump(Buffer.from('this is not Avro\0\xff', 'latin1'))).to.equal(
      [
        '000000  74 68 69 73 20 69 73 20 6e 6f 74 20 41 76 72 6f  this is not Avro',
        '000010  00 ff                                            ..',
      ].join('\n'),
    );
    expect(hexDump(Buffer.alloc(0))).to.equal('');
  });
});

describe('progress of a look at dead letters', () => {
  it('is told when it takes longer than two seconds, and then every two', () => {
    let now = 0;
    const lines: string[] = [];
    const onProgress = letterProgress({ write: (text) => lines.push(text) }, () => now);
    for (const [at, done] of [
      [500, 1000],
      [1999, 2000],
      [2000, 3000],
      [2001, 4000],
      [4100, 12_000],
    ] as const) {
      now = at;
      onProgress({ doing: 'reading', done, total: 20_000 });
    }
    expect(lines).to.deep.equal(['3,000 of 20,000 letters read\n', '12,000 of 20,000 letters read\n']);
  });
});

describe('what a replay did', () => {
  const report = {
    outcome: 'replayed' as const,
    replayId: decision.replayId,
    letters: [deadLetter],
    rounds: 1,
    stillParked: 0,
    releasedKeys: 0,
    refused: [],
    more: false,
  };
  const { topics } = goodDeadLetters;

  it('is told letter by letter, as long as that is readable', () => {
    const one = describeChange(replayAnswer(topics, report), { byIds: true });
    expect(one).to.match(
      /^ID .*\nlike-events@17 +product-statistic +mill-1 +spec\.like-events\/2@41 +2\nReplayed 1 letter as /,
    );
    const many = { ...report, letters: Array.from({ length: 60 }, () => deadLetter), more: true };
    const text = describeChange(replayAnswer(topics, many), { byIds: false });
    expect(text.split('\n')).to.have.length(54);
    expect(text).to.match(/… and 10 letters more[\s\S]*Replayed 60 letters[\s\S]*run it again/);
  });

  it('tells of a key that is parked still, and of rounds', () => {
    const hot = replayAnswer(topics, { ...report, rounds: 3, stillParked: 1 });
    expect(describeChange(hot, { byIds: false })).to.match(/ in 3 rounds\.\nThe key is parked still: /);
  });

  it('says how to do what was only talked about', () => {
    const talk = replayAnswer(topics, { ...report, outcome: 'would-replay' });
    expect(describeChange(talk, { byIds: false })).to.match(/Would replay 1 letter.*\nSay --yes to do it\.$/);
    expect(describeChange(talk, { byIds: true })).to.match(/\nLeave --dry-run out to do it\.$/);
  });

  it('says for every refusal what to do instead', () => {
    const refusal = (reason: RefusalAnswer['reason']) => ({
      reason,
      letters: 7,
      examples: [deadLetter.place],
      projection: 'order-view',
      topic: 'spec.order-events',
      key: "o'1 x",
    });
    const said = (reason: RefusalAnswer['reason']): string =>
      describeChange(replayAnswer(topics, { ...report, outcome: 'refused', refused: [refusal(reason)] }), {
        byIds: true,
      });
    expect(said('parked')).to.match(
      /^7 letters left alone \(like-events@17, …\): .*in their order: millrace dlq replay --key 'o'\\''1 x' --topic order-events --projection order-view --yes\nNothing was done\.$/,
    );
    expect(said('too-often')).to.match(/DLQ_REPLAYS_MAX.*--force/);
    expect(said('decided')).to.match(/--force/);
    expect(said('replaying')).to.match(/replay it again first/);
    expect(said('missing')).to.match(/no such letter/);
    expect(said('value-gone')).to.match(/too large.*only be dropped/);
    expect(said('foreign')).to.match(/only be dropped/);
  });
});

describe('what dropping and skipping tell', () => {
  const { topics } = goodDeadLetters;
  const named = { projection: 'order-view', key: "o'1" };

  it('is the command that helps a key which waits for a version', () => {
    const waiting = { ...named, step: 'order-versions', missingVersion: 2, records: 3 };
    const report = {
      outcome: 'dropped' as const,
      letters: [deadLetter],
      releasedKeys: 0,
      waitingKeys: [waiting],
      refused: [],
      more: false,
    };
    expect(describeChange(dropAnswer(topics, report), { byIds: true })).to.include(
      "order-view holds 3 later records of o'1 until version 2 comes. If that was one of these letters: millrace dlq skip-version order-view 'o'\\''1' 2",
    );
  });

  it('is what was skipped, and what goes on', () => {
    const told = { ...named, step: 'order-versions', version: 2, next: 5 };
    expect(describeSkip({ ...told, outcome: 'skipped', releasedRecords: 1 }, named)).to.equal(
      "Skipped version 2 of o'1 in order-view (order-versions).\n1 held record goes on as soon as the projection runs; after that the key waits for version 5.",
    );
    expect(describeSkip({ ...told, outcome: 'would-skip', releasedRecords: 0 }, named)).to.match(
      /Would skip version 2[^\n]*\nNothing goes on with it yet; the key waits for version 5\.\nLeave --dry-run out/,
    );
  });

  it('is why nothing was skipped, for every reason', () => {
    const reasons = ['no-such-step', 'unknown-key', 'several-steps', 'held', 'passed'] as const;
    for (const reason of reasons) {
      const text = describeSkip(
        { outcome: 'refused', reason, steps: ['a', 'b'], version: 2, next: 5 },
        named,
      );
      expect(text).to.match(/^Nothing was done: /);
      expect(text).not.to.include('undefined');
    }
  });
});
