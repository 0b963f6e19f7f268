import { expect } from 'chai';
import { durationText, rebuildProgress } from '../../../src/cli/rebuild-progress.ts';
import { describeRebuild } from '../../../src/cli/rebuild-tables.ts';
import type { ProgressReport } from '../../../src/infra/infrastructure.ts';
import type { RebuildReport } from '../../../src/rebuild/rebuild-projection.ts';

describe('the progress of a rebuild', () => {
  const replaying = { projection: 'p', doing: 'replaying' } as const;

  it('is a line now and then, with how fast it goes and how long it will take', () => {
    let nowMs = 0;
    const lines: string[] = [];
    const tell = rebuildProgress({ line: (text) => void lines.push(text) }, () => nowMs);
    tell({ ...replaying, events: 0, fraction: 0 });
    nowMs = 1000;
    tell({ ...replaying, events: 5000, fraction: 0.1 });
    nowMs = 4000;
    tell({ ...replaying, events: 20_000, fraction: 0.4 });
    tell({ projection: 'p', doing: 'waiting', events: 0, reason: 'the relay sleeps' });
    expect(lines).to.deep.equal([
      'p: 0 % replaying',
      'p: 40 % replaying, 20,000 events, 5,000 events/s, 6 s to go',
      'p: waiting: the relay sleeps',
    ]);
  });

  it('is a bar where there is a terminal', () => {
    let nowMs = 0;
    const bars: ProgressReport[] = [];
    const tell = rebuildProgress({ bar: (report) => void bars.push(report) }, () => nowMs);
    tell({ ...replaying, events: 100, fraction: 0.5 });
    nowMs = 200;
    tell({ ...replaying, events: 300, fraction: 0.75 });
    expect(bars.map(({ text, fraction }) => [text, fraction])).to.deep.equal([
      ['replaying, 100 events', 0.5],
      ['replaying, 300 events, 1,000 events/s, 1 s to go', 0.75],
    ]);
  });

  it('counts what a process does itself, and not what an earlier one has done', () => {
    let nowMs = 0;
    const lines: string[] = [];
    const tell = rebuildProgress({ line: (text) => void lines.push(text) }, () => nowMs);
    tell({ ...replaying, events: 0, fraction: 0.8 });
    nowMs = 2000;
    tell({ ...replaying, events: 1000, fraction: 0.9 });
    expect(lines.at(-1)).to.equal('p: 90 % replaying, 1,000 events, 500 events/s, 2 s to go');
  });

  it('tells times as people do', () => {
    expect([0.2, 59, 61, 3725].map(durationText)).to.deep.equal(['1 s', '59 s', '1 min 1 s', '1 h 2 min']);
  });
});

describe('the report of a rebuild', () => {
  const report: RebuildReport = {
    projection: 'product-statistic',
    outcome: 'stopped',
    from: 'journal',
    build: 2,
    replaces: 1,
    isResumed: false,
    events: 1200,
    seconds: 3,
    replaySeconds: 2,
    notCompared: null,
    comparison: {
      rows: 40,
      differences: 2,
      shown: [
        {
          table: 'product_statistic',
          key: 'mill',
          live: { like_count: 1, sales_count: 2 },
          rebuilt: { like_count: 1, sales_count: 3 },
        },
      ],
    },
    setAside: { count: 0, shown: [] },
    heldBack: 0,
  };

  it('ends with a table of what differs: key, live, rebuilt', () => {
    expect(describeRebuild(report)).to.equal(
      [
        'product-statistic: not swapped, the live model is as it was; look at the differences, then mend them or use --accept-differences',
        '  1,200 events from the journal and the topics in 3 s',
        '  40 rows compared, 2 differences',
        '',
        'TABLE              KEY   LIVE           REBUILT',
        'product_statistic  mill  sales_count=2  sales_count=3',
        'and 1 more',
      ].join('\n'),
    );
  });

  it('says what stands in the way and what was not compared', () => {
    const text = describeRebuild({
      ...report,
      outcome: 'swapped',
      comparison: null,
      setAside: { count: 1, shown: ['like-events mill: below zero'] },
      heldBack: 3,
    });
    expect(text).to.match(/build 2 is live; build 1 is kept/);
    expect(text).to.match(/not compared/);
    expect(text).to.match(/1 record could not be applied:\n {4}like-events mill: below zero/);
    expect(text).to.match(/3 events did not get to Kafka/);
  });
});
