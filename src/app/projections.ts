import type { Config } from '../config/settings.ts';
import { streamsSettings } from '../config/streams-settings.ts';
import { type EventName, eventCatalogue } from '../event-catalogue/event-catalogue.ts';
import type { TopicName } from '../event-catalogue/topic-name.ts';
import type { EnvelopeStream } from '../projections/of-event.ts';
import { orderPayment } from '../projections/order-payment.ts';
import { orderReceipt } from '../projections/order-receipt.ts';
import { orderView } from '../projections/order-view.ts';
import { type ForgetsProducts, productCache } from '../projections/product-cache.ts';
import { productMomentum } from '../projections/product-momentum.ts';
import { productStatistic } from '../projections/product-statistic.ts';
import { productTrend } from '../projections/product-trend.ts';
import { stockLevel } from '../projections/stock-level.ts';
import { stockOutage } from '../projections/stock-outage.ts';
import { countedActions } from '../streams/describe.ts';
import type { Topology } from '../streams/topology.ts';
import { physicalTopic } from '../topics/topic-plan.ts';

/** Where only the definitions matter, and nothing is run. */
const nothingCached: ForgetsProducts = { forget: async () => {} };
const defaults = { stockOverdueMs: streamsSettings.stockOverdueMs.fallback };

/** Every projection there is, over the topics as this system's broker calls them. */
export const projections = (
  config: {
    readonly topics: Pick<Config['topics'], 'prefix'>;
    readonly streams?: Pick<Config['streams'], 'stockOverdueMs'>;
  },
  cache: ForgetsProducts = nothingCached,
): readonly Topology[] => {
  const events = (name: TopicName): EnvelopeStream => ({ topic: physicalTopic(config.topics.prefix, name) });
  const stockEvents = events('stock-events');
  const orderEvents = events('order-events');
  const likeEvents = events('like-events');
  const viewEvents = events('product-view-events');
  const { stockOverdueMs } = config.streams ?? defaults;
  return [
    productStatistic({ stockEvents, likeEvents, orderEvents, viewEvents }),
    productTrend({ likeEvents, orderEvents, viewEvents }),
    productMomentum({ likeEvents, viewEvents }),
    orderView({ orderEvents }),
    orderPayment({ orderEvents }),
    orderReceipt({ orderEvents, stockEvents }),
    stockLevel({ stockEvents }),
    stockOutage({ stockEvents, overdueAfterMs: stockOverdueMs }),
    productCache({ stockEvents }, cache),
  ];
};

/** Consumer groups live on the broker beside other systems' topics, so they carry the same prefix. */
export const consumerGroupOf = (config: Config, projection: string): string =>
  `${config.topics.prefix}millrace-${projection}`;

/** What handling an event of a type is called, for those who look into what was handled. */
export const eventActionsOf = (
  topology: Topology,
): readonly { readonly eventType: string; readonly action: string }[] =>
  countedActions(topology).flatMap(({ filters, action }) =>
    filters
      .filter((name): name is EventName => name in eventCatalogue)
      .map((name) => ({ eventType: eventCatalogue[name].eventType, action })),
  );
