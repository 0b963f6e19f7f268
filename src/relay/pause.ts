import { outboxChannel } from '../journal/announce-events.ts';
import type { SqlRunner } from '../postgres/database.ts';

/** Somebody has stopped all relays until further notice. */
export interface Pause {
  readonly by: string;
  readonly since: Date;
  readonly because: string | null;
}

const loadStatement = {
  name: 'load-relay-pause',
  text: `
    select paused_by as by, paused_at as since, pause_reason as because
    from relay_control where paused_at is not null`,
};

export const loadPause = async (db: SqlRunner): Promise<Pause | null> => {
  const [pause] = await db.execute<Pause>(loadStatement);
  return pause ?? null;
};

/** What relays hear when they should ask again whether they may relay. */
export const reconsiderNotice = 'reconsider';
const noticeStatement = {
  name: 'let-relays-reconsider',
  text: `select pg_notify('${outboxChannel}', '${reconsiderNotice}')`,
};

/** All of them ask again at once whether it is their turn. */
export const letRelaysReconsider = async (db: SqlRunner): Promise<void> => {
  await db.execute(noticeStatement);
};

const pauseStatement = {
  name: 'pause-relay',
  text: `
    update relay_control set paused_at = clock_timestamp(), paused_by = $1, pause_reason = $2
    where paused_at is null
    returning paused_at`,
};

/**
 * Nobody gets or renews a lease to relay from now on. Whoever relays finishes its page, gives its lease back and waits; a
 * process that does not hear of it finds out when it renews. False when it was paused already: the first one's word stands.
 */
export const pauseRelay = async (
  tx: SqlRunner,
  { by, because }: { by: string; because: string | null },
): Promise<boolean> => {
  const changed = await tx.execute(pauseStatement, [by, because]);
  if (changed.length > 0) await letRelaysReconsider(tx);
  return changed.length > 0;
};

const resumeStatement = {
  name: 'resume-relay',
  text: `
    update relay_control set paused_at = null, paused_by = null, pause_reason = null
    where paused_at is not null
    returning is_only`,
};

/** False when it was not paused. */
export const resumeRelay = async (tx: SqlRunner): Promise<boolean> => {
  const changed = await tx.execute(resumeStatement);
  if (changed.length > 0) await letRelaysReconsider(tx);
  return changed.length > 0;
};
