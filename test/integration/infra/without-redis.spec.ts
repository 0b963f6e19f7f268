import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { ownOrJoinStack } from '../../../src/infra/embedded/own-or-join.ts';
import { recordingLog } from '../../support/silent-log.ts';
import { configFor, temporaryDataDir } from './stack-settings.ts';

describe('a machine without Redis', () => {
  const dataDir = temporaryDataDir();
  after(() => rmSync(dataDir, { recursive: true, force: true }));

  it('does without, and says so', async () => {
    const { log, lines } = recordingLog();
    const access = await ownOrJoinStack({
      config: configFor(dataDir),
      needs: { postgres: false, kafka: false, registry: false, redis: true },
      log,
      report: () => undefined,
      env: { PATH: '/nonexistent' },
      signal: undefined,
    });
    if (access.kind !== 'owned') expect.fail('somebody else runs a stack here');
    await access.stack.stop();
    expect(access.stack.endpoints.redisUrl).to.equal(undefined);
    expect(lines.map(({ msg }) => msg)).to.deep.equal([
      'there is no redis-server on the PATH: the cache lives in the process',
    ]);
  });
});
