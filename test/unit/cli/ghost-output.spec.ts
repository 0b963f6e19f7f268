import { expect } from 'chai';
import { describeGhosts } from '../../../src/cli/ghosts.ts';
import { relayPicture } from '../../../src/cli/relay-picture.ts';
import { searchProgress } from '../../../src/cli/search-progress.ts';
import { goodRelay } from '../http/good-relay.ts';

const now = new Date(3000);

describe('the command line about ghost events', () => {
  it('lists them with their records and what has their place, and says what to do', async () => {
    const list = await goodRelay.ghosts({ limit: 1 });
    const text = describeGhosts({ ...list, events: 2 }, { records: 1000, unreadable: 3, found: 2 }, now);
    const [scanned, heading, row, more, remedy] = text.split('\n');
    expect(scanned).to.match(
      /^1,000 records looked up: 2 more events .* 3 records that could not be read\.$/,
    );
    expect(heading).to.match(/^PUBLISHED +RECORD +AGGREGATE +TYPE +EVENT +NOW IN ITS PLACE$/);
    expect(row).to.match(
      /^0 s ago +product-view-events\/0@12 +ProductView\/v-1@1 +loopers\.product\.viewed\.v1 +\S+ +-$/,
    );
    expect(more).to.equal('The first 1 of 2; --limit shows more.');
    expect(remedy).to.match(/millrace rebuild <projection>/);
  });

  it('says that there are none', () => {
    expect(describeGhosts({ events: 0, ghosts: [] }, undefined, now)).to.equal(
      'The journal has every event that was looked up in it.',
    );
  });

  it('tells of them and of an unfinished search in the status, and is quiet when there is nothing', async () => {
    const status = await goodRelay.status();
    const lines = relayPicture(status, now);
    expect(lines.filter((line) => line.startsWith('GHOSTS: Kafka has 1 events'))).to.have.length(1);
    expect(lines.filter((line) => line.includes('is being looked up'))).to.have.length(1);
    const quiet = relayPicture({ ...status, ghosts: { events: 0, search: null } }, now);
    expect(quiet.join('\n')).not.to.match(/GHOSTS|looked up/);
  });

  for (const isTTY of [true, false]) {
    it(`shows how far a long search is ${isTTY ? 'in one line of a terminal' : 'line by line elsewhere'}`, () => {
      let time = 0;
      const written: string[] = [];
      const output = { isTTY, write: (text: string) => written.push(text) };
      const { onProgress, finish } = searchProgress(output, () => time);
      onProgress({ done: 1, total: 4 });
      expect(written, 'nothing for a short one').to.deep.equal([]);
      time = 2000;
      onProgress({ done: 2, total: 4 });
      onProgress({ done: 3, total: 4 });
      finish();
      const line = '[##########----------] 2 of 4 records looked up';
      expect(written).to.deep.equal(isTTY ? [`\r${line}`, '\n'] : [`${line}\n`]);
    });
  }
});
