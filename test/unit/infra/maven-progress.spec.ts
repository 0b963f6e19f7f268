import { expect } from 'chai';
import { MavenProgress } from '../../../src/infra/embedded/maven-progress.ts';

describe('MavenProgress', () => {
  it('adds up finished files and the one under way, also over chunk borders', () => {
    const progress = new MavenProgress();
    expect(progress.add('Downloading from x: http://host/a.jar\nProgress (1): 4.1/13 kB\r')).to.equal(4100);
    expect(progress.add('Progress (1): 13 k')).to.equal(4100);
    expect(progress.add('B    \rDownloaded from x: http://host/a.jar (13 kB at 62 kB/s)\n')).to.equal(13_000);
    expect(progress.add('Progress (2): 1.5/9 MB | 250/900 kB\r')).to.equal(13_000 + 1_750_000);
  });
});
