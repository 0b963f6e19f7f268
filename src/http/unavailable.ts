/** SQLSTATE classes and codes that say: the same request may well succeed in a moment. */
const passingSqlStates = [
  /^08/, // connection
  /^53/, // out of connections, memory or disk
  /^57P0[1-5]$/, // shut down, crashed, starting up
  /^57014$/, // statement timeout
  /^55P03$/, // lock timeout
  /^40(001|P01)$/, // serialization failure, deadlock
];

const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

/** pg gives these no code. */
const connectionMessages =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|Client was closed)/i;

const causesMax = 5;

/** Whether a part we depend on did not answer, which is worth another try and no bug of ours. */
export const isUnavailable = (error: unknown, depth = 0): boolean => {
  if (!(error instanceof Error) || depth > causesMax) return false;
  if ('retriable' in error && error.retriable === true) return true;
  if ('code' in error && typeof error.code === 'string' && isPassing(error.code)) return true;
  if (connectionMessages.test(error.message)) return true;
  if (error instanceof AggregateError && error.errors.some((inner) => isUnavailable(inner, depth + 1)))
    return true;
  return isUnavailable(error.cause, depth + 1);
};

const isPassing = (code: string): boolean =>
  networkCodes.has(code) || (code.length === 5 && passingSqlStates.some((pattern) => pattern.test(code)));
