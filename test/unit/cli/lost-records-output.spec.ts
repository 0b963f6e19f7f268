import { expect } from 'chai';
import { describeLoss } from '../../../src/cli/accept-loss.ts';
import { modelLines } from '../../../src/cli/model-lines.ts';

const now = new Date('2026-01-02T00:00:00Z');
const lost = [{ topic: 'orders', partition: 2, checkpoint: 50, firstOffset: 170 }];

describe('the command line about records that are gone', () => {
  it('says what is lost where, and what to do', () => {
    const [line] = modelLines(
      { fills: [], lost: lost.map((records) => ({ ...records, projection: 'p', remedy: 'npx it' })) },
      now,
    );
    expect(line).to.equal(
      'p: 120 records of orders/2 are gone that it had not read (checkpoint 50, the topic begins at 170); the partition stands still. npx it',
    );
  });

  it('says how far a fill is, and that nobody has begun it', () => {
    const nothing = { build: null, phase: null, fraction: null, startedAt: null, movedAt: null };
    const minuteAgo = new Date(now.getTime() - 60_000);
    const lines = modelLines(
      {
        lost: [],
        fills: [
          { projection: 'p', liveIsEmpty: true, ...nothing },
          {
            projection: 'q',
            liveIsEmpty: false,
            build: 3,
            phase: 'replay',
            fraction: 0.426,
            startedAt: minuteAgo,
            movedAt: minuteAgo,
          },
        ],
      },
      now,
    );
    expect(lines[0]).to.match(/^p: waits to be filled.*is empty until then.*npx millrace rebuild p$/);
    expect(lines[1]).to.match(/^q: build 3 replays the journal, 42 %, begun .*, last moved /);
  });

  it('tells what a projection goes on without', () => {
    const told = { projection: 'p', wasNeverFilled: false, lost };
    expect(describeLoss({ ...told, outcome: 'accepted' }).split('\n')).to.deep.equal([
      'p: goes on without these records',
      'TOPIC   PARTITION  LOST       GOES ON AT',
      'orders  2          50 to 169  170',
    ]);
    expect(describeLoss({ ...told, outcome: 'tried' })).to.match(/would go on.*nothing was changed/);
    expect(describeLoss({ ...told, outcome: 'nothing-lost', lost: [] })).to.match(/nothing is lost/);
  });
});
