import { Registry } from 'prom-client';

/** What a scrape answers with. */
export interface Exposition {
  readonly contentType: string;
  readonly text: string;
}

/** The metrics of one process. Each part that is measured registers its own. */
export interface MetricRegistry {
  readonly register: Registry;
  /** Runs before every scrape, for figures that are looked up and not counted. It must bound its own time. */
  onScrape(collect: () => void | Promise<void>): void;
  scrape(): Promise<Exposition>;
}

export const createMetricRegistry = (): MetricRegistry => {
  const register = new Registry();
  const collectors: (() => void | Promise<void>)[] = [];
  return {
    register,
    onScrape: (collect) => void collectors.push(collect),
    scrape: async () => {
      // All of them first: a metric that is printed while another's collector still runs would show the last scrape's value.
      await Promise.all(collectors.map((collect) => collect()));
      return { contentType: register.contentType, text: await register.metrics() };
    },
  };
};
