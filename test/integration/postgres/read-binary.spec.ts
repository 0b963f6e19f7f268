import { expect } from 'chai';
import type { BinaryRows } from '../../../src/postgres/binary-rows.ts';
import { readInt8, readTimestamp, readUuid } from '../../../src/postgres/binary-values.ts';
import type { Database } from '../../../src/postgres/database.ts';
import { openTestDatabase } from '../../support/open-database.ts';
import { useWorkspace } from '../../support/stack.ts';

const bytesMax = 10_000_000;
let statements = 0;

/** The columns of each row as bytes, null where there is none. */
const columnsOf = ({ bytes, starts }: BinaryRows, columns: number): readonly (readonly (Buffer | null)[])[] =>
  starts.map((start) => {
    let at = start;
    return Array.from({ length: columns }, () => {
      const length = bytes.readInt32BE(at);
      const from = at + 4;
      at = from + Math.max(0, length);
      return length < 0 ? null : bytes.subarray(from, at);
    });
  });

describe('reading in binary', () => {
  const workspace = useWorkspace();
  let db: Database;
  before(() => {
    db = openTestDatabase(workspace(), 2);
  });

  const read = (text: string, values: readonly unknown[] = [], limit = bytesMax) =>
    db.readBinary({ name: `spec-binary-${++statements}`, text }, values, { bytesMax: limit });

  it('gives values as they are: numbers, ids, times, bytes, texts of any script, and null', async () => {
    const rows = await read(
      `select $1::bigint, $2::uuid, '2026-11-16 12:34:56.789123+00'::timestamptz, $3::bytea, $4::text, null::text, ''`,
      [
        9_007_199_254_740_991,
        '0198f3a0-0000-7000-8000-00000000beef',
        Buffer.from([0, 255, 68]),
        'mill 漢字 🚰 é',
      ],
    );
    const [columns = []] = columnsOf(rows, 7);
    const [id, uuid, at, bytes, text, absent, empty] = columns;
    expect(id && readInt8(id, 0)).to.equal(9_007_199_254_740_991);
    expect(uuid && readUuid(uuid, 0)).to.equal('0198f3a0-0000-7000-8000-00000000beef');
    expect(at && readTimestamp(at, 0).toISOString()).to.equal('2026-11-16T12:34:56.789Z');
    expect(bytes).to.deep.equal(Buffer.from([0, 255, 68]));
    expect(text?.toString()).to.equal('mill 漢字 🚰 é');
    expect([absent, empty?.length]).to.deep.equal([null, 0]);
    const tooLarge = columnsOf(await read('select 9007199254740993::bigint'), 1)[0]?.[0];
    expect(() => tooLarge && readInt8(tooLarge, 0)).to.throw('safe integer');
  });

  it('gives nothing when there is nothing, and thousands of rows in order', async () => {
    expect((await read('select 1 where false')).starts).to.deep.equal([]);
    const rows = await read(`select n::bigint, repeat('x', (n % 300)::int) from generate_series(1, 20000) n`);
    const numbers = columnsOf(rows, 2).map(([n, text]) => [n && readInt8(n, 0), text?.length]);
    expect(numbers).to.deep.equal(
      Array.from({ length: 20_000 }, (_, index) => [index + 1, (index + 1) % 300]),
    );
    expect(rows.isCut).to.equal(false);
  });

  it('takes a row of several megabytes, and leaves out what would be too much', async () => {
    const large = `select decode(repeat('ab', 3000000), 'hex') from generate_series(1, 5)`;
    const all = await read(large, [], 20_000_000);
    expect(columnsOf(all, 1).map(([bytes]) => bytes?.length)).to.deep.equal(Array(5).fill(3_000_000));
    const cut = await read(large, [], 7_000_000);
    expect([cut.starts.length, cut.isCut]).to.deep.equal([2, true]);
    expect(cut.bytes.length).to.be.lessThan(7_000_000);
    const first = await read(large, [], 1);
    expect([first.starts.length, first.isCut]).to.deep.equal([1, true]);
    expect(columnsOf(first, 1)[0]?.[0]?.every((byte) => byte === 0xab)).to.equal(true);
  });

  it('prepares a statement once and takes its turn among others on the same connections', async () => {
    const statement = { name: 'spec-binary-turns', text: 'select $1::bigint' };
    const usual = { name: 'spec-usual-turns', text: 'select $1::bigint as n' };
    await Promise.all(
      Array.from({ length: 60 }, async (_, turn) => {
        const rows = await db.readBinary(statement, [turn], { bytesMax });
        expect(readInt8(rows.bytes, (rows.starts[0] ?? 0) + 4)).to.equal(turn);
        expect(await db.execute(usual, [turn])).to.deep.equal([{ n: turn }]);
      }),
    );
  });

  it('passes errors on with their code, and the connections go on', async () => {
    for (let turn = 0; turn < 5; turn++) {
      const refused = await read('select 1 / n from generate_series(1, -1, -1) n').catch((error) => error);
      expect(refused).to.include({ code: '22012' });
      const nonsense = await read('select from where').catch((error) => error);
      expect(nonsense).to.include({ code: '42601' });
      expect((await read('select 1')).starts).to.have.length(1);
    }
  });

  it('fails when the connection breaks in the middle, and the next one has another', async () => {
    const broken = read(
      `select pg_terminate_backend(pg_backend_pid()), n from generate_series(1, 3) n`,
    ).catch((error: Error) => error);
    expect(await broken).to.be.instanceOf(Error);
    expect((await read('select 1')).starts).to.have.length(1);
  });
});
