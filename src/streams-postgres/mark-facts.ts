import type { SqlRunner } from '../postgres/database.ts';
import { isUniqueViolation } from '../postgres/sql-error.ts';
import type { FactEffect } from '../streams/ports.ts';

/** A fact by the number of its kind, with what it adds. */
export interface ToldFact extends FactEffect {
  readonly kind: number;
}

// Less than half the cost of the other statement, which has to be ready for facts that are known.
const newStatement = {
  name: 'mark-new-facts',
  text: 'insert into projection_fact (kind, aggregate_id) select * from unnest($1::integer[], $2::text[])',
};

// Answers with the few that were known instead of the many that are new.
const statement = {
  name: 'mark-facts',
  text: `
    with told as materialized (
      select * from unnest($1::integer[], $2::text[]) with ordinality as t(kind, aggregate_id, position)
    ), fresh as (
      insert into projection_fact (kind, aggregate_id)
      select kind, aggregate_id from told order by position
      on conflict do nothing
      returning kind, aggregate_id
    )
    select position from told
    where not exists (select from fresh where fresh.kind = told.kind and fresh.aggregate_id = told.aggregate_id)`,
};

/** Whether facts were expected to be new and one of them was not. */
export const isKnownFact = (error: unknown): boolean => isUniqueViolation(error, 'projection_fact_pkey');

/**
 * Marks facts as told and answers with those that were not before. Sorted, so that two batches cannot deadlock. Where all
 * are expected to be new, one that is not ends the transaction.
 */
export const markFacts = async (
  tx: SqlRunner,
  effects: readonly ToldFact[],
  { areNew }: { readonly areNew: boolean },
): Promise<readonly FactEffect[]> => {
  if (effects.length === 0) return [];
  const told = [...firstOfEach(effects)].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, effect]) => effect);
  const known = await tx.execute<{ position: number }>(areNew ? newStatement : statement, [
    told.map(({ kind }) => kind),
    told.map(({ fact }) => fact.aggregateId),
  ]);
  if (known.length === 0) return told;
  const knownAt = new Set(known.map(({ position }) => position - 1));
  return told.filter((_, index) => !knownAt.has(index));
};

const firstOfEach = (effects: readonly ToldFact[]): ReadonlyMap<string, ToldFact> => {
  const byText = new Map<string, ToldFact>();
  for (const effect of effects) {
    const text = `${effect.kind} ${effect.fact.aggregateId}`;
    if (!byText.has(text)) byText.set(text, effect);
  }
  return byText;
};
