import { hostname, userInfo } from 'node:os';
import { expect } from 'chai';
import type { LetterAnswer } from '../../src/dlq-admin/answers.ts';
import type { Database } from '../../src/postgres/database.ts';
import { environmentOf, readyUrl, runCli, startCli } from '../support/cli.ts';
import { writeLetters, writeMessage } from '../support/dead-letters.ts';
import { eventually } from '../support/eventually.ts';
import { openTestDatabase } from '../support/open-database.ts';
import { auditRows } from '../support/outbox-admin.ts';
import { type Client, clientOf } from '../support/running-app.ts';
import { useWorkspace } from '../support/stack.ts';
import { readTopic } from '../support/topic-reader.ts';

const projection = 'product-statistic';

describe('millrace dlq', function () {
  this.timeout(600_000);
  const workspace = useWorkspace();
  let db: Database;
  let client: Client;
  before(async function () {
    this.timeout(600_000);
    db = openTestDatabase(workspace());
    const app = startCli(['up'], environmentOf(workspace()));
    workspace().closeAtEnd(async () => {
      app.child.kill('SIGTERM');
      expect(await app.ended, app.stderr()).to.equal(0);
    });
    client = clientOf(await readyUrl(app, 240_000));
  });

  const millrace = (...args: readonly string[]) => runCli(args, environmentOf(workspace()));
  const dlq = (...args: readonly string[]) => millrace('dlq', ...args);
  const json = async (...args: readonly string[]) => {
    const { stdout, stderr } = await dlq(...args, '--json');
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`${args.join(' ')} printed no JSON: ${stdout} ${stderr}`);
    }
  };
  const openLetters = async (key: string): Promise<readonly LetterAnswer[]> =>
    (await json('list', '--projection', projection, '--key', key)).letters;
  const letterOf = (key: string, replays: number): Promise<LetterAnswer> =>
    eventually(
      async () => {
        const letters = await openLetters(key);
        expect(letters.map((letter) => letter.replays)).to.deep.equal([replays]);
        return letters[0] as LetterAnswer;
      },
      { timeoutMs: 240_000, what: `letter of ${key}` },
    );

  it('finds poison, shows it, replays it, and drops what came back', async () => {
    const poison = { key: 'poison', value: Buffer.from('this is not Avro'), partition: 1 };
    const offset = await writeMessage(workspace(), 'product-view-events', poison);
    const letter = await letterOf('poison', 0);
    const topic = workspace().unique('product-view-events');
    expect(letter.id).to.match(/^product-view-events@\d+$/);
    expect(letter.original).to.deep.equal({ topic, partition: 1, offset });

    const list = await dlq('list', '--topic', 'product-view-events');
    expect(list.stdout)
      .to.match(/^ID +FAILED +STATE/)
      .and.match(new RegExp(`${letter.id} .* open .* poison `));
    const shown = await dlq('show', letter.id);
    expect(shown.stdout)
      .to.match(new RegExp(`^DEAD LETTER ${letter.id}\n`))
      .and.match(/cannot be read: .*schema header/)
      .and.match(/74 68 69 73 20 69 73 .* this is not Avro/)
      .and.match(/STACK\n.*Error/);
    const stats = await dlq('stats', '--exit-code', '--projection', projection);
    expect(stats.code, stats.stderr).to.equal(3);
    expect(stats.stdout).to.match(/product-view-events +product-statistic/);

    const asked = await dlq('replay', '--exception', 'schema header', '--projection', projection);
    expect(asked.stdout).to.match(/Would replay 1 letter\.\nSay --yes/);
    const replayed = await dlq('replay', letter.id);
    expect(replayed.code, replayed.stderr).to.equal(0);
    expect(replayed.stdout).to.match(/Replayed 1 letter as [\da-f-]{36}/);

    const back = await letterOf('poison', 1);
    expect(back.id).not.to.equal(letter.id);
    expect(back.original, 'where it stood at first').to.deep.equal({ topic, partition: 1, offset });
    expect((await dlq('show', back.id)).stdout).to.match(/replayed +by cli:.*, replay 1\n/);
    expect((await dlq('replay', letter.id)).code, 'replayed before').to.equal(1);
    expect((await dlq('drop', back.id)).stdout).to.match(/Dropped 1 letter/);
    expect(await openLetters('poison')).to.deep.equal([]);
    const decided = await json('list', '--all', '--projection', projection, '--key', 'poison');
    expect(decided.letters.map(({ state }: LetterAnswer) => state)).to.deep.equal(['replayed', 'dropped']);
    const by = `cli:${userInfo().username}@${hostname()}`;
    expect((await auditRows(db)).map(({ who, action }) => `${action} ${who}`)).to.deep.equal([
      `dead-letters.replay ${by}`,
      `dead-letters.drop ${by}`,
    ]);
  });

  it('replays what has been counted, and it is not counted again', async () => {
    const product = { productId: 'mill', name: 'Mill', priceMinor: 100, currency: 'EUR', stock: 1 };
    await client.post('/v1/products', product);
    await client.post('/v1/products/mill/views');
    const views = async () => (await client.get('/v1/products/mill/statistic')).body.viewCount;
    await eventually(async () => expect(await views()).to.equal(1), { timeoutMs: 240_000 });

    const topic = workspace().unique('product-view-events');
    const records = await readTopic(workspace().endpoints.kafkaBrokers, topic);
    const record = records.find(({ key }) => key === 'mill');
    if (!record) throw new Error('The view is not in Kafka');
    const { key, value, partition } = record;
    const [id = ''] = await writeLetters(workspace(), [
      { topic: 'product-view-events', key, value, partition, offset: 0, projection },
    ]);
    expect((await json('replay', id)).outcome).to.equal('replayed');
    expect((await json('replay', id, '--force')).outcome).to.equal('replayed');

    // Behind the replays, in the same partition: once it is counted, they have been dealt with.
    await client.post('/v1/products/mill/views');
    await eventually(
      async () => {
        const { stdout } = await millrace('status', '--json');
        const { relay, topics } = JSON.parse(stdout);
        expect(relay.pending).to.equal(0);
        for (const { lag } of topics) expect(lag).to.equal(0);
        expect(await views()).to.be.at.least(2);
      },
      { timeoutMs: 240_000 },
    );
    expect(await views()).to.equal(2);
    expect(await openLetters('mill')).to.deep.equal([]);
  });

  it('explains wrong usage', async () => {
    const wrong = [
      ['replay'],
      ['replay', 'like-events'],
      ['replay', 'like-events@1', '--key', 'k'],
      ['replay', '--key', 'k', '--yes', '--dry-run'],
      ['drop'],
      ['drop', 'no-such-topic@1'],
      ['show'],
      ['show', 'x'],
      ['list', '--limit', '0'],
      ['list', '--topic', 'nothing'],
      ['list', '--kind', 'strange'],
      ['list', '--since', 'yesterday'],
      ['skip-version', 'order-view'],
      ['skip-version', 'order-view', 'o-1', 'next'],
      ['skip-version', 'order-view', 'o-1', '0'],
    ];
    const answers = await Promise.all(wrong.map((args) => dlq(...args)));
    for (const [index, { code, stdout, stderr }] of answers.entries()) {
      expect(code, `${wrong[index]?.join(' ')}: ${stderr}`).to.equal(2);
      expect(stdout).to.equal('');
    }
    const { code, stderr } = await dlq('show', 'like-events@999999');
    expect(code).to.equal(1);
    expect(stderr).to.match(/no dead letter/);
    expect((await dlq('--help')).stdout).to.match(
      /list[\s\S]*show[\s\S]*stats[\s\S]*replay[\s\S]*drop[\s\S]*skip-version/,
    );
    const unknown = await dlq('skip-version', 'order-view', 'nobody');
    expect([unknown.code, unknown.stdout]).to.satisfy(
      ([answer, text]: [number, string]) => answer === 1 && /order-view knows nothing of nobody/.test(text),
    );
    expect(await json('skip-version', 'product-cache', 'nobody')).to.deep.equal({
      outcome: 'refused',
      reason: 'no-such-step',
      steps: [],
    });
  });
});
