import { expect } from 'chai';
import { eventually } from './eventually.ts';

export interface HeardEvent {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

export interface EventStream {
  readonly status: number;
  readonly headers: Headers;
  /** Everything that came so far, oldest first. */
  readonly events: readonly HeardEvent[];
  /** As a browser would send it when it comes back. */
  readonly lastEventId: string | undefined;
  /** Blocks that were no event: signs of life. */
  readonly silentBlocks: number;
  readonly ended: Promise<void>;
  /** Waits for an event that is meant. */
  hear(event: string, data?: Record<string, unknown>): Promise<HeardEvent>;
  close(): void;
}

/** Listens as a browser's EventSource would, except that it can bring credentials and does not come back by itself. */
export const listenToEvents = async (
  url: string,
  options: { readonly key: string; readonly lastEventId?: string | undefined; readonly query?: string },
): Promise<EventStream> => {
  const abort = new AbortController();
  const response = await fetch(`${url}/events${options.query ?? ''}`, {
    headers: {
      authorization: `Bearer ${options.key}`,
      ...(options.lastEventId !== undefined && { 'last-event-id': options.lastEventId }),
    },
    signal: abort.signal,
  });
  const events: HeardEvent[] = [];
  let lastEventId = options.lastEventId;
  let silentBlocks = 0;

  const take = (block: string): void => {
    const fields = new Map(block.split('\n').map((line) => splitField(line)));
    lastEventId = fields.get('id') ?? lastEventId;
    const data = fields.get('data');
    if (data === undefined) silentBlocks++;
    else {
      events.push({ event: fields.get('event') ?? 'message', data: JSON.parse(data) as HeardEvent['data'] });
    }
  };
  const read = async (): Promise<void> => {
    if (!response.ok || !response.body) return;
    let rest = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = `${rest}${chunk}`.split('\n\n');
      rest = blocks.pop() ?? '';
      blocks.forEach(take);
    }
  };
  const ended = read().catch(() => undefined);

  return {
    status: response.status,
    headers: response.headers,
    events,
    get lastEventId() {
      return lastEventId;
    },
    get silentBlocks() {
      return silentBlocks;
    },
    ended,
    hear: (event, data = {}) =>
      eventually(
        () => {
          const found = events.find(
            (heard) =>
              heard.event === event &&
              Object.entries(data).every(([name, value]) => heard.data[name] === value),
          );
          expect(
            found,
            `${event} ${JSON.stringify(data)} among ${JSON.stringify(events.slice(-5))}`,
          ).not.to.equal(undefined);
          return found as HeardEvent;
        },
        { timeoutMs: 60_000 },
      ),
    close: () => abort.abort(),
  };
};

const splitField = (line: string): [string, string] => {
  const colon = line.indexOf(': ');
  return colon === -1 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 2)];
};
