import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import type { RelayProcess } from '../support/relay-processes.ts';
import { useRelayScene } from '../support/relay-scene.ts';
import { writeAggregates } from '../support/write-aggregates.ts';

describe('an event whose payload somebody has changed', function () {
  this.timeout(600_000);
  const { database, relays, judge } = useRelayScene();
  let statements = 0;
  const run = <Row>(text: string) => database().execute<Row>({ name: `spec-${++statements}`, text });

  const tamperWith = (aggregateId: string) =>
    database().transaction(async (tx) => {
      for (const text of [
        'alter table outbox disable trigger outbox_is_append_only',
        `update outbox set payload = set_byte(payload, 20, get_byte(payload, 20) # 1)
         where aggregate_id = '${aggregateId}' and aggregate_version = 2`,
        'alter table outbox enable trigger outbox_is_append_only',
      ]) {
        await tx.execute({ name: `spec-${++statements}`, text });
      }
    });

  const write = async (name: string): Promise<readonly string[]> => {
    await writeAggregates(database(), { name, versions: 3 });
    await tamperWith(`${name}-1`);
    return [2, 3].map((version) => `${name}-1@${version}`);
  };

  const levels = { error: 50, fatal: 60 };
  const alerts = (relay: RelayProcess, level: number) => relay.log().filter((line) => line.level === level);
  const letters = () =>
    run<{ label: string; reason: string }>(
      `select envelope->>'aggregateId' || '@' || (envelope->>'aggregateVersion') as label, reason
       from outbox_dead_letter order by original_id`,
    );

  const held: string[] = [];

  it('is never sent, dead at once and cried out; its aggregate waits and the others go on', async () => {
    held.push(...(await write('tampered')));
    const relay = await relays.start();
    await judge().allAccountedFor({ held });
    expect(await letters()).to.deep.equal([
      { label: held[0], reason: 'The payload is not what the command wrote: its hash differs' },
    ]);
    expect(alerts(relay, levels.error).map(({ msg }) => msg)).to.deep.equal([
      'An event is dead: it will not be published until somebody decides',
    ]);
    const tries = await run<{ tries: number }>('select sum(retry_count) as tries from outbox_failed');
    expect(tries).to.deep.equal([{ tries: 0 }]);
  });

  describe('when the table of dead letters takes nothing', () => {
    before(async () => {
      await run(`create function spec_refuse() returns trigger language plpgsql as
                 $$ begin raise exception 'the disk is full'; end $$`);
      await run(`create trigger spec_refuse before insert on outbox_dead_letter
                 for each statement execute function spec_refuse()`);
    });
    after(() => run('drop function spec_refuse() cascade'));

    const backupFile = ({ dataDir }: RelayProcess): string => join(dataDir, 'dead-letters.jsonl');

    it('goes to a file, whole', async () => {
      const labels = await write('backed-up');
      held.push(...labels);
      const relay = await relays.start();
      await judge().allAccountedFor({ held });
      const kept = readFileSync(backupFile(relay), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(kept.map((letter) => `${letter.aggregateId}@${letter.aggregateVersion}`)).to.deep.equal(
        labels.slice(0, 1),
      );
      const [row] = await run<{ payload: string }>(
        `select encode(payload, 'base64') as payload from outbox where event_id = '${kept[0].eventId}'`,
      );
      expect(Buffer.from(kept[0].payload, 'base64')).to.deep.equal(Buffer.from(row?.payload ?? '', 'base64'));
    });

    it('goes into the log, whole, when there is no file either', async () => {
      const labels = await write('cried-out');
      held.push(...labels);
      const relay = await relays.begin();
      // Nobody can write a file where there is a folder.
      mkdirSync(backupFile(relay));
      await judge().allAccountedFor({ held });
      await eventually(() => expect(alerts(relay, levels.fatal)).to.have.length(1));
      const { letter } = alerts(relay, levels.fatal)[0] as unknown as { letter: Record<string, unknown> };
      expect(`${letter.aggregateId}@${letter.aggregateVersion}`).to.equal(labels[0]);
      expect(letter.payload).to.be.a('string').and.not.equal('');
    });
  });
});
