import { expect } from 'chai';
import { adjustStock } from '../../../src/commands/adjust-stock.ts';
import type { CommandOutcome, StockAnswer } from '../../../src/commands/command.ts';
import type { CommandExecutor } from '../../../src/commands/command-executor.ts';
import type { CommandPlan } from '../../../src/commands/command-plan.ts';
import { registerProduct } from '../../../src/commands/register-product.ts';
import { createTestExecutor, request } from '../../support/commands.ts';
import { createMemoryJournal, type MemoryJournal } from '../../support/memory-journal.ts';
import { recordingLog } from '../../support/silent-log.ts';

const settings = { batchSizeMax: 200, batchesMax: 2, queueMax: 1000, conflictRetriesMax: 2 };

describe('the executor of commands', () => {
  const { log, lines } = recordingLog();
  let journal: MemoryJournal;
  let executor: CommandExecutor;
  /** How often each command was decided, by its reason. */
  let decided: Map<string, number>;

  beforeEach(async () => {
    journal = createMemoryJournal();
    executor = createTestExecutor(journal.database, { settings, log });
    decided = new Map();
    for (const productId of ['p', 'q']) {
      const plan = registerProduct({ productId, name: 'Mill', priceMinor: 1, currency: 'EUR', stock: 0 });
      await executor.execute(plan, request());
    }
    journal.statements.length = 0;
    lines.length = 0;
  });

  /** One more in stock; `reason` names the command. */
  const addOne = (productId: string, reason: string): CommandPlan<StockAnswer> => {
    const plan = adjustStock({ productId, delta: 1, reason });
    return {
      ...plan,
      decide: (view) => {
        decided.set(reason, (decided.get(reason) ?? 0) + 1);
        return plan.decide(view);
      },
    };
  };
  const run = (productId: string, reason: string, context = request()) =>
    executor.execute(addOne(productId, reason), context);
  const stockIn = (outcome: CommandOutcome<StockAnswer>): number =>
    outcome.outcome === 'accepted' ? outcome.answer.stock : Number.NaN;
  const countOf = (name: string): number =>
    journal.statements.filter((statement) => statement === name).length;
  const products = (values: readonly unknown[]): readonly string[] => values[4] as readonly string[];
  const lostRace = (): Error => Object.assign(new Error('deadlock detected'), { code: '40P01' });

  it('lets what arrives while a batch is under way share one transaction', async () => {
    const first = run('p', 'first');
    const others = Array.from({ length: 50 }, (_, index) => run('p', `later-${index}`));
    expect(stockIn(await first)).to.equal(1);
    expect((await Promise.all(others)).map(stockIn)).to.deep.equal(
      Array.from({ length: 50 }, (_, index) => index + 2),
    );
    expect(countOf('append-events')).to.equal(2);
    expect(journal.versions('Product', 'p')).to.deep.equal(Array.from({ length: 52 }, (_, v) => v + 1));
  });

  it('decides a batch that lost a race again, under locks, and leaves other batches alone', async () => {
    let races = 1;
    journal.beforeEach(({ name }, values) => {
      if (name === 'append-events' && products(values).includes('p') && races-- > 0) throw lostRace();
    });
    const outcomes = await Promise.all([run('p', 'loser'), run('q', 'bystander')]);
    expect(outcomes.map(stockIn)).to.deep.equal([1, 1]);
    expect([...decided]).to.have.deep.members([
      ['loser', 2],
      ['bystander', 1],
    ]);
    expect(countOf('lock-streams')).to.equal(1);
  });

  it('lets each command of a batch that keeps losing races succeed or fail alone', async () => {
    journal.beforeEach(({ name }, values) => {
      const isTogether = products(values)?.length > 1;
      if (name === 'append-events' && (isTogether || products(values).includes('q'))) throw lostRace();
    });
    const first = run('p', 'takes the first place').catch(() => undefined);
    const second = run('q', 'takes the second place').catch(() => undefined);
    const outcomes = await Promise.allSettled([run('p', 'one'), run('q', 'hopeless'), run('p', 'two')]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
    expect(journal.versions('Product', 'p')).to.deep.equal([1, 2, 3, 4]);
    await Promise.all([first, second]);
  });

  it('lets a command whose values PostgreSQL refuses fail alone', async () => {
    journal.beforeEach(({ name }, values) => {
      if (name === 'append-events' && (values[7] as readonly string[]).includes('bad'))
        throw Object.assign(new Error('invalid byte sequence'), { code: '22021' });
    });
    const first = run('p', 'first');
    const bad = request({ context: { requestId: 'bad', correlationId: 'c', traceparent: null } });
    const outcomes = await Promise.allSettled([run('p', 'a'), run('p', 'refused', bad), run('p', 'b')]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
    expect(stockIn(await first)).to.equal(1);
    expect(journal.versions('Product', 'p')).to.deep.equal([1, 2, 3, 4]);
  });

  it('gives every command its answer once, also when the snapshots behind them cannot be saved', async () => {
    journal.beforeEach(({ name }) => {
      if (name === 'save-snapshots') throw Object.assign(new Error('unsupported \\u0000'), { code: '22P05' });
    });
    const first = run('p', 'first');
    const others = Array.from({ length: 120 }, (_, index) => run('p', `later-${index}`));
    expect((await Promise.all([first, ...others])).map(stockIn)).to.deep.equal(
      Array.from({ length: 121 }, (_, index) => index + 1),
    );
    await executor.drained();
    expect(countOf('save-snapshots')).to.equal(1);
    expect(countOf('find-answers'), 'nobody is asked after again').to.equal(2);
    expect(new Set(decided.values())).to.deep.equal(new Set([1]));
    expect(lines.map(({ level, snapshots }) => [level, snapshots])).to.deep.equal([[40, 1]]);
  });

  it('takes back what a command did whose answer cannot be given, so that those behind it go on without it', async () => {
    const first = run('p', 'first');
    const plan = addOne('p', 'speechless');
    const speechless: CommandPlan<StockAnswer> = {
      ...plan,
      decide: (view) => {
        const decision = plan.decide(view);
        if (decision.outcome === 'rejected') return decision;
        const answer = (): never => {
          throw new Error('speechless');
        };
        return { ...decision, answer };
      },
    };
    const outcomes = await Promise.allSettled([
      run('p', 'before'),
      executor.execute(speechless, request()),
      run('p', 'behind'),
    ]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled']);
    expect(stockIn(await first)).to.equal(1);
    expect(outcomes[2]?.status === 'fulfilled' && stockIn(outcomes[2].value)).to.equal(3);
    expect(journal.versions('Product', 'p'), 'without a gap').to.deep.equal([1, 2, 3, 4]);
  });

  it('answers from what is stored when a key comes again, without deciding', async () => {
    const key = { key: 'once' };
    expect(stockIn(await run('p', 'twice', request(key)))).to.equal(1);
    const again = await run('p', 'twice', request(key));
    expect(again).to.deep.include({ outcome: 'accepted', replayed: true });
    expect([...decided]).to.deep.equal([['twice', 1]]);
    const underWay = await Promise.all([
      run('p', 'x', request({ key: 'k' })),
      run('p', 'y', request({ key: 'k' })),
    ]);
    expect(underWay.map(({ outcome }) => outcome)).to.deep.equal(['accepted', 'rejected']);
  });
});
