import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { productId } from '../../../src/domain/ids.ts';
import { appendEvents } from '../../../src/journal/append-events.ts';
import type { SealedEvent } from '../../../src/journal/seal-event.ts';
import type { Database } from '../../../src/postgres/database.ts';
import type { ProjectionId } from '../../../src/streams/ports.ts';
import { createPostgresStateStore } from '../../../src/streams-postgres/postgres-state-store.ts';
import { storeProjectionActions } from '../../../src/streams-postgres/store-projection-actions.ts';
import { sealed } from '../../support/journal.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';
import { at, batch, move, newProjection, paid } from '../../support/state-store-contract/batches.ts';

const viewEvent = (product: string): SealedEvent => {
  const aggregateId = `${product}_${uuidv7()}`;
  return sealed({ aggregateType: 'ProductView', aggregateId }, 1, {
    type: 'ProductViewed',
    productId: productId(product),
    userId: null,
  });
};

describe('event_handled', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace());
  });

  const shownFor = ({ name, version }: ProjectionId) =>
    db.execute<Readonly<Record<string, unknown>>>(
      {
        name: 'spec-event-handled',
        text: `select aggregate_type || '/' || aggregate_id || '/' || action as key, event_id as id,
                      handled_at between now() - interval '1 hour' and clock_timestamp() as "isRecent"
               from event_handled where projection = $1 and version = $2 order by key`,
      },
      [name, version],
    );
  const handle = (projection: ProjectionId, ids: readonly string[]) =>
    createPostgresStateStore({ database: db, appendDerived: async () => {} }).commit(
      batch(projection, {
        moves: [move(at(0), undefined, 1)],
        handled: [{ ...at(0), bucketStartMs: 1_700_000_000_000, ids }],
        facts: [{ fact: paid('o1'), adds: [] }],
      }),
    );

  it('shows facts by their names and events by their aggregates, with what they did', async () => {
    const projection = newProjection();
    const [a, b] = [viewEvent('a'), viewEvent('b')];
    const gone = uuidv7();
    await appendEvents(db, [a, b]);
    await storeProjectionActions(db, projection, [
      { eventType: 'loopers.product.viewed.v1', action: 'VIEW_COUNT_INCREASED' },
      { eventType: 'loopers.like.created.v1', action: 'LIKE_COUNT_INCREASED' },
    ]);
    await handle(projection, [b.eventId, gone, a.eventId]);
    const row = (key: string, id: string | null) => ({ key, id, isRecent: true });
    expect(await shownFor(projection)).to.deep.equal([
      row(`Event/${gone}/HANDLED`, gone),
      row('Order/o1/SALES_COUNT_INCREASED', null),
      row(`ProductView/${a.stream.aggregateId}/VIEW_COUNT_INCREASED`, a.eventId),
      row(`ProductView/${b.stream.aggregateId}/VIEW_COUNT_INCREASED`, b.eventId),
    ]);
    expect(await shownFor({ ...projection, version: 2 })).to.deep.equal([]);
  });

  it('shows what the definition of today calls it', async () => {
    const projection = newProjection();
    const event = viewEvent('c');
    await appendEvents(db, [event]);
    await handle(projection, [event.eventId]);
    const actions = async () =>
      (await shownFor(projection))
        .filter(({ id }) => id !== null)
        .map(({ key }) => String(key).split('/')[2]);
    expect(await actions()).to.deep.equal(['HANDLED']);
    const named = (...names: readonly string[]) =>
      storeProjectionActions(
        db,
        projection,
        names.map((action) => ({ eventType: event.eventType, action })),
      );
    await named('SEEN', 'COUNTED');
    await named('SEEN', 'COUNTED');
    expect(await actions()).to.deep.equal(['COUNTED', 'SEEN']);
    await named('VIEWED');
    expect(await actions()).to.deep.equal(['VIEWED']);
  });
});
