/** Room for the bytes of one page, which is in memory from when it is read until it is settled. */
export interface PageRoom {
  /** The page has so many bytes: the rest is for others. */
  fit(pageBytes: number): void;
  /** May be called more than once. */
  free(): void;
}

/** What the pages of all shards of a process may take together: one shard alone cannot know how many others there are. */
export interface PageBudget {
  /** Room for any page, in the order of asking; undefined when there is none within that time. */
  reserve(waitMs: number): Promise<PageRoom | undefined>;
  /** For a page that can wait: room only when nobody is waiting for any. */
  reserveSpare(): PageRoom | undefined;
}

/** What a source reads at most, unless a single row is larger (`readOutboxPage`). */
const pageBytesMax = 8 * 1024 * 1024;
/** Its rows, their records in batches, and the request that carries those to the broker. */
const copies = 3;
const largestRoomBytes = copies * pageBytesMax;

interface Waiter {
  readonly give: (room: PageRoom | undefined) => void;
  readonly timer: NodeJS.Timeout;
}

export const createPageBudget = ({ bytesMax }: { bytesMax: number }): PageBudget => {
  let bytesLeft = bytesMax;
  /** However large a page and however small the budget: one page can always be in memory. */
  let rooms = 0;
  const waiting: Waiter[] = [];
  const hasRoom = (): boolean => rooms === 0 || bytesLeft >= largestRoomBytes;

  const take = (): PageRoom => {
    let taken = largestRoomBytes;
    let isFree = false;
    bytesLeft -= taken;
    rooms++;
    return {
      fit: (pageBytes) => {
        if (isFree) return;
        bytesLeft += taken - copies * pageBytes;
        taken = copies * pageBytes;
        serve();
      },
      free: () => {
        if (isFree) return;
        isFree = true;
        bytesLeft += taken;
        rooms--;
        serve();
      },
    };
  };

  const serve = (): void => {
    while (waiting.length > 0 && hasRoom()) {
      const next = waiting.shift() as Waiter;
      clearTimeout(next.timer);
      next.give(take());
    }
  };

  return {
    reserve: (waitMs) => {
      if (waiting.length === 0 && hasRoom()) return Promise.resolve(take());
      const { promise, resolve } = Promise.withResolvers<PageRoom | undefined>();
      const giveUp = (): void => {
        waiting.splice(waiting.indexOf(waiter), 1);
        resolve(undefined);
      };
      const waiter: Waiter = { give: resolve, timer: setTimeout(giveUp, waitMs) };
      waiting.push(waiter);
      return promise;
    },
    reserveSpare: () => (waiting.length === 0 && hasRoom() ? take() : undefined),
  };
};
