import { codeOf } from '../postgres/sql-error.ts';
import { RefusedData } from '../streams/ports.ts';

/**
 * Data exceptions, violated constraints, and what is too large for an index or nested too deeply. Not what passes: lost
 * races, locks, connections, a full disk, a server that stops.
 */
const refusedClasses = /^(?:22|23|54)...$/;

/** What the database has against the data itself, told as such; anything else as it is. */
export const asRefusedData = (error: unknown): unknown =>
  refusedClasses.test(codeOf(error) ?? '')
    ? new RefusedData((error as Error).message, { cause: error })
    : error;
