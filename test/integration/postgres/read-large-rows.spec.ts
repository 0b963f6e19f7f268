import { expect } from 'chai';
import type { BinaryRows } from '../../../src/postgres/binary-rows.ts';
import { readInt8 } from '../../../src/postgres/binary-values.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';

const megabyte = 1024 * 1024;
const bytesMax = 8 * megabyte;
const rowsMax = 2000;
/** What both ends of a connection and the proxy between them have taken in when it is broken off. */
const bufferedMax = 8 * megabyte;

describe('reading large rows in binary', function () {
  this.timeout(180_000);
  const workspace = useWorkspace();
  let proxy: TcpProxy;
  let db: Database;
  let fromServer = 0;
  let writesToServer = 0;
  let connections = 0;
  before(async () => {
    const url = new URL(workspace().endpoints.databaseUrl);
    proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) }, () => {
      connections += 1;
      return {
        fromServer: (chunk) => {
          fromServer += chunk.length;
        },
        fromClient: () => {
          writesToServer += 1;
        },
      };
    });
    workspace().closeAtEnd(() => proxy.close());
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    db = openTestDatabase({ ...workspace(), endpoints: { ...workspace().endpoints, databaseUrl: url.href } });
  });
  beforeEach(() => {
    fromServer = 0;
    writesToServer = 0;
    connections = 0;
  });

  const run = (name: string, text: string, values: readonly unknown[] = []) =>
    db.execute({ name: `spec-${name}`, text }, values);
  const createTable = async (table: string): Promise<void> => {
    await run(`create-${table}`, `create table ${table} (id bigint primary key, payload bytea)`);
    await run(`store-${table}`, `alter table ${table} alter column payload set storage external`);
  };
  const fill = (table: string, ids: readonly [number, number], bytes: number) =>
    run(
      `fill-${table}`,
      `insert into ${table} select n, convert_to(repeat('x', $3::integer), 'UTF8') from generate_series($1::bigint, $2::bigint) n`,
      [...ids, bytes],
    );
  const readAfter = (table: string, id: number): Promise<BinaryRows> =>
    db.readBinary(
      {
        name: `spec-read-${table}`,
        text: `select id, payload from ${table} where id > $1 order by id limit ${rowsMax}`,
      },
      [id],
      { bytesMax },
    );
  const idsOf = ({ bytes, starts }: BinaryRows): readonly number[] =>
    starts.map((start) => readInt8(bytes, start + 4));

  /** Page after page from an id on until there is nothing more: the ids of each, and what was kept of what was sent. */
  const readAll = async (table: string, after = 0) => {
    const pages: { readonly ids: readonly number[]; readonly kept: number; readonly sent: number }[] = [];
    for (let last = after; ; ) {
      const sentBefore = fromServer;
      const page = await readAfter(table, last);
      const ids = idsOf(page);
      if (ids.length === 0) return pages;
      pages.push({ ids, kept: page.bytes.length, sent: fromServer - sentBefore });
      last = ids.at(-1) ?? last;
    }
  };
  const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

  for (const { title, bytes, count } of [
    { title: '100 kB', bytes: 100_000, count: 700 },
    { title: '1 MB', bytes: 1_000_000, count: 70 },
  ]) {
    it(`lets the server send at most about twice what is kept when rows have ${title}`, async () => {
      const table = `large_${bytes}`;
      await createTable(table);
      await fill(table, [1, count], bytes);
      fromServer = 0;
      const pages = await readAll(table);
      expect(pages.flatMap(({ ids }) => ids)).to.deep.equal(range(1, count));
      expect(Math.max(...pages.map(({ kept }) => kept))).to.be.at.most(bytesMax);
      expect(Math.max(...pages.map(({ sent }) => sent))).to.be.at.most(2 * bytesMax + bufferedMax);
      const kept = sum(pages.map((page) => page.kept));
      expect(kept / pages.length, 'pages are as full as they can be').to.be.greaterThan(0.8 * bytesMax);
      expect(fromServer / kept).to.be.lessThan(2);
    });
  }

  it('takes one row at a time when each is larger than a page, and asks for no other', async () => {
    await createTable('huge');
    await fill('huge', [1, 4], 10 * megabyte);
    fromServer = 0;
    const pages = await readAll('huge');
    expect(pages.map(({ ids }) => ids)).to.deep.equal([[1], [2], [3], [4]]);
    expect(fromServer).to.be.lessThan(2 * 4 * 10 * megabyte);
  });

  it('goes back to whole pages of small rows, and asks for each of them once', async () => {
    await createTable('mixed');
    await fill('mixed', [1, 30], 1_000_000);
    await fill('mixed', [31, 20_030], 300);
    const pages = await readAll('mixed');
    expect(pages.flatMap(({ ids }) => ids)).to.deep.equal(range(1, 20_030));
    const small = pages.filter(({ ids }) => (ids[0] ?? 0) > 30).map(({ ids }) => ids.length);
    expect(small.indexOf(rowsMax), 'soon').to.be.within(0, 6);
    expect(new Set(small.slice(small.indexOf(rowsMax), -1))).to.deep.equal(new Set([rowsMax]));

    writesToServer = 0;
    connections = 0;
    const again = await readAll('mixed', 10_030);
    expect(again.map(({ ids }) => ids.length)).to.deep.equal(Array(5).fill(rowsMax));
    expect({ writesToServer, connections }).to.deep.equal({ writesToServer: 6, connections: 0 });
  });
});
