import { expect } from 'chai';
import type { Database } from '../../src/postgres/database.ts';
import { eventually } from './eventually.ts';

/**
 * A gate before a table: while it is closed, whoever wants to write there waits, so that a spec can do something to them
 * at exactly that moment.
 */
export interface StatementGate {
  close(): Promise<void>;
  somebodyWaits(): Promise<void>;
  /** Comes back when what was let through is committed; the next one waits. */
  letOneThrough(): Promise<void>;
  /** What waits fails, as it would if its process had died a moment earlier. The gate is open then. */
  turnAway(): Promise<void>;
}

const timeoutMs = 120_000;

/** Looks for a change every few milliseconds: each statement of such a function sees what is committed by then. */
const gateFunction = `
  create function spec_gate() returns trigger language plpgsql as $$
  declare gate record;
  begin
    loop
      select * into gate from spec_gate;
      if gate.state = 'open' then return new; end if;
      if gate.state = 'turning away' then raise exception 'turned away at the gate'; end if;
      if gate.tickets > 0 then
        update spec_gate set tickets = tickets - 1;
        return new;
      end if;
      perform pg_sleep(0.02);
    end loop;
  end $$`;

export const useStatementGate = (database: () => Database, table: string): StatementGate => {
  let isThere = false;
  let statements = 0;
  const run = <Row>(text: string): Promise<readonly Row[]> =>
    database().execute<Row>({ name: `spec-gate-${table}-${++statements}`, text });
  const waiting = () =>
    run(`select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`);

  afterEach(async () => {
    if (!isThere) return;
    isThere = false;
    await run(`update spec_gate set state = 'turning away'`);
    await eventually(async () => expect(await waiting()).to.deep.equal([]), { timeoutMs });
    await run('drop function spec_gate() cascade');
    await run('drop table spec_gate');
  });

  const install = async (): Promise<void> => {
    await run(`create table spec_gate as select 'open' as state, 0 as tickets`);
    await run(gateFunction);
    await run(
      `create trigger spec_gate before insert or update on ${table} for each row execute function spec_gate()`,
    );
    isThere = true;
  };

  return {
    close: async () => {
      if (!isThere) await install();
      await run(`update spec_gate set state = 'closed'`);
    },
    somebodyWaits: async () => {
      await eventually(async () => expect(await waiting()).to.have.length.at.least(1), {
        timeoutMs,
        what: `somebody at the gate of ${table}`,
      });
    },
    letOneThrough: async () => {
      await run('update spec_gate set tickets = 1');
      await eventually(
        async () => expect(await run('select tickets from spec_gate')).to.deep.equal([{ tickets: 0 }]),
        { timeoutMs },
      );
    },
    turnAway: async () => {
      await run(`update spec_gate set state = 'turning away'`);
      await eventually(async () => expect(await waiting()).to.deep.equal([]), { timeoutMs });
      await run(`update spec_gate set state = 'open'`);
    },
  };
};
