import { Worker } from 'node:worker_threads';
import type { DatabaseOptions } from '../postgres/database.ts';
import { RefusedData } from '../streams/ports.ts';
import type { JournalPage } from './journal-page.ts';
import type { Answer, Calls } from './store-calls.ts';

/**
 * The state store of a build, and the pages of the journal, in a thread of their own: folding keeps this one busy for many
 * milliseconds at a time, in which nobody would read what the server sends, or tell it what comes next.
 */
export const openStoreInWorker = (options: Omit<DatabaseOptions, 'onIdleError'>): Calls => {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const worker = new Worker(new URL(`./store-worker.${extension}`, import.meta.url), { workerData: options });
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;
  let death: Error | undefined;

  const endWith = (error: Error): void => {
    death ??= error;
    for (const { reject } of waiting.values()) reject(death);
    waiting.clear();
  };
  worker.on('error', (error: Error) => endWith(error));
  worker.on('exit', () => endWith(new Error('The thread that writes the build has ended')));
  worker.on('message', (answer: Answer) => {
    const call = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ('error' in answer) call?.reject(errorOf(answer.error));
    else call?.resolve(answer.result);
  });

  const call = <Name extends keyof Calls>(
    name: Name,
    ...args: Parameters<Calls[Name]>
  ): ReturnType<Calls[Name]> => {
    const id = ++calls;
    const answered = Promise.withResolvers<unknown>();
    if (death) answered.reject(death);
    else {
      waiting.set(id, answered);
      worker.postMessage({ id, name, args });
    }
    return answered.promise as ReturnType<Calls[Name]>;
  };

  return {
    loadPlaces: (projection, places) => call('loadPlaces', projection, places),
    loadHandled: (projection, requests) => call('loadHandled', projection, requests),
    loadStates: (projection, requests) => call('loadStates', projection, requests),
    loadChanged: (projection, request) => call('loadChanged', projection, request),
    findDue: (projection, request) => call('findDue', projection, request),
    commit: (batch) =>
      call('commit', {
        ...batch,
        // Facts know the record that told them, and with it the page it came in.
        facts: batch.facts.map(({ fact, adds }) => ({ fact, adds })),
      }),
    readPage: async (request) => withBuffer(await call('readPage', request)),
    close: async () => {
      if (death) return;
      await call('close');
      await worker.terminate();
    },
  };
};

/** Buffers arrive as plain arrays of bytes. */
const withBuffer = ({ rows, nextId }: JournalPage): JournalPage => {
  const { buffer, byteOffset, byteLength } = rows.bytes;
  return { rows: { ...rows, bytes: Buffer.from(buffer, byteOffset, byteLength) }, nextId };
};

const errorOf = ({ kind, message }: { readonly kind: string; readonly message: string }): Error =>
  kind === 'RefusedData' ? new RefusedData(message) : new Error(message);
