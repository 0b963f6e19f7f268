import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { lastTroubleIn } from '../../../src/infra/embedded/server-log.ts';

describe('the line of a log that says why a server stopped', () => {
  let folder: string;
  const troubleIn = (...lines: string[]): string | undefined => {
    const path = join(folder, 'server.log');
    writeFileSync(path, `${lines.join('\n')}\n`);
    return lastTroubleIn(path);
  };
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-log-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('is the last fatal one, without its time', () => {
    const line = troubleIn(
      '2026-01-01 10:00:00.000 UTC [12] LOG:  starting',
      '2026-01-01 10:00:00.000 UTC [12] FATAL:  could not open "x"',
      '2026-01-01 10:00:00.001 UTC [12] LOG:  database system is shut down',
    );
    expect(line).to.equal('FATAL:  could not open "x"');
  });

  it('takes the exception along that Java prints below', () => {
    const line = troubleIn(
      '2026-01-01 10:00:00,000 ERROR Exiting Kafka due to fatal exception (kafka.Kafka$)',
      'java.lang.RuntimeException: no meta.properties',
      '\tat kafka.Kafka.main(Kafka.scala)',
    );
    expect(line).to.equal(
      'ERROR Exiting Kafka due to fatal exception (kafka.Kafka$): java.lang.RuntimeException: no meta.properties',
    );
  });

  it('is the last one when none complains, and none when there is none', () => {
    expect(troubleIn('one', 'two')).to.equal('two');
    expect(lastTroubleIn(join(folder, 'absent.log'))).to.equal(undefined);
  });
});
