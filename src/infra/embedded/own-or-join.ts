import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../../operator-error.ts';
import type { Needs } from '../infrastructure-plan.ts';
import { type DataDir, dataDirAt, prepareDataDir } from './data-dir.ts';
import { EmbeddedStack } from './embedded-stack.ts';
import { downloadTimeoutMs } from './maven.ts';
import { tryOwnerLock } from './owner-lock.ts';
import type { StackOrder } from './stack-kit.ts';
import { type EmbeddedEndpoints, isLive, readStackState, type StackState } from './stack-state.ts';

export type StackAccess =
  | { readonly kind: 'owned'; readonly stack: EmbeddedStack }
  | { readonly kind: 'joined'; readonly endpoints: EmbeddedEndpoints };

const pollMs = 200;

/** Starts the stack of this data directory, or joins the one that another process has started or is starting. */
export const ownOrJoinStack = async (order: StackOrder): Promise<StackAccess> => {
  const dir = dataDirAt(order.config.infra.dataDir);
  prepareDataDir(dir);
  const deadlineMs = Date.now() + downloadTimeoutMs + order.config.infra.startTimeoutMs;
  for (let tries = 0; Date.now() < deadlineMs; tries++) {
    const lock = tryOwnerLock(dir.lock);
    if (lock) return { kind: 'owned', stack: await EmbeddedStack.start(lock, dir, order) };
    const state = readStackState(dir.state);
    if (isLive(state)) return join(dir, state, order);
    if (tries === 0) order.log.info(`another process starts the servers in ${dir.root}; waiting for it`);
    await delay(pollMs, undefined, order.signal ? { signal: order.signal } : {});
  }
  throw new OperatorError(`Another process keeps ${dir.root} locked, and its servers do not become ready`, {
    remedy: 'Stop that process and start again',
  });
};

/** The endpoints of the stack that runs in this data directory, if one does. */
export const findRunningStack = (path: string): EmbeddedEndpoints | undefined => {
  const state = readStackState(dataDirAt(path).state);
  return isLive(state) ? state.endpoints : undefined;
};

const join = (dir: DataDir, state: StackState, order: StackOrder): StackAccess => {
  const problem = mismatch(state, order);
  if (problem) {
    throw new OperatorError(`The servers that process ${state.owner.pid} runs in ${dir.root} ${problem}`, {
      remedy: 'Stop that process, start this one with the same settings, or use another MILLRACE_DATA_DIR',
    });
  }
  order.log.info(`using the servers that process ${state.owner.pid} runs in ${dir.root}`);
  return { kind: 'joined', endpoints: state.endpoints };
};

const mismatch = (state: StackState, { needs, config }: StackOrder): string | undefined => {
  const missing = missingIn(state.endpoints, needs);
  if (missing.length > 0) return `do not include ${missing.join(' and ')}`;
  if (!needs.kafka || state.brokers === config.infra.brokers) return undefined;
  return `have MILLRACE_BROKERS=${state.brokers}, not ${config.infra.brokers}`;
};

const missingIn = (endpoints: EmbeddedEndpoints, needs: Needs): string[] =>
  [
    needs.postgres && !endpoints.databaseUrl ? ['PostgreSQL'] : [],
    needs.kafka && !endpoints.kafkaBrokers ? ['Kafka'] : [],
    needs.registry && !endpoints.schemaRegistryUrl ? ['a schema registry'] : [],
  ].flat();
