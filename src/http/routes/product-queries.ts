import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { ApiPorts } from '../api-ports.ts';
import { bringsToken } from '../consistent-reads.ts';
import { versionTag } from '../header-values.ts';
import { withIsoTimes } from '../iso-times.ts';
import type { Operation } from '../operation.ts';
import { readCursor, writeCursor } from '../page-cursor.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import {
  ListProductsQuery,
  ListStockOutagesQuery,
  ProductPage,
  ProductView,
  RisingAnswer,
  RisingQuery,
  StatisticAnswer,
  StockOutagePage,
  TrendsAnswer,
  TrendsQuery,
} from '../query-schemas.ts';
import { NoQuery, ProductPath } from '../schemas.ts';

const getProduct: Operation = {
  id: 'getProduct',
  tag: 'Products',
  summary: 'What a product is called, costs, and how much of it is left',
  description: 'It may come from a cache; with `Cache-Control: no-cache` it does not.',
  access: 'shopper',
  reads: ['stock-level'],
  problems: ['product-unknown'],
  answerHeaders: { ETag: 'Its version' },
};

const getStatistic: Operation = {
  id: 'getProductStatistic',
  tag: 'Products',
  summary: 'How often a product was liked, sold and seen',
  access: 'shopper',
  reads: ['product-statistic'],
  problems: ['statistic-unknown'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const listProducts: Operation = {
  id: 'listProducts',
  tag: 'Products',
  summary: 'Products by what is sold, liked or seen most',
  description: 'Counts move while one pages: a product may be met twice, or not at all.',
  access: 'shopper',
  reads: ['product-statistic', 'stock-level'],
  problems: ['cursor-invalid'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const listStockOutages: Operation = {
  id: 'listStockOutages',
  tag: 'Products',
  summary: 'Products that are out of stock, by since when',
  description:
    'One that has been out of stock for longer than `STREAMS_STOCK_OVERDUE_MS` (a day) is overdue. That goes by the clock of ' +
    'the projector, and waits for events that are still on their way.',
  access: 'operator',
  reads: ['stock-outage'],
  problems: ['cursor-invalid'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const getTrends: Operation = {
  id: 'getTrends',
  tag: 'Products',
  summary: 'What sells, is liked or is seen most now',
  access: 'shopper',
  reads: ['product-trend'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const getRisingProducts: Operation = {
  id: 'getRisingProducts',
  tag: 'Products',
  summary: 'What people look at and like right now',
  description:
    'Products by how often they were seen and liked in the ten minutes up to their latest event (`from`, `to`). A product ' +
    'of which nothing is heard is listed for three minutes at most after the last event.',
  access: 'shopper',
  reads: ['product-momentum'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const limitDefault = '20';
const notYet = 'It appears once the product is registered and projected';

export const productQueryRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { queries }) => {
  server.get(
    '/v1/products/:productId',
    {
      config: { operation: getProduct },
      schema: { params: ProductPath, querystring: NoQuery, response: { 200: ProductView } },
    },
    async (request, reply) => {
      const afresh = wantsAfresh(request.headers['cache-control']) || bringsToken(request);
      const product = await queries.getProduct(request.params.productId, { afresh });
      if (!product) return sendProblem(reply, problem('product-unknown', { detail: notYet }));
      return reply.header('etag', versionTag(product.version)).send(withIsoTimes(product));
    },
  );

  server.get(
    '/v1/products/:productId/statistic',
    {
      config: { operation: getStatistic },
      schema: { params: ProductPath, querystring: NoQuery, response: { 200: StatisticAnswer } },
    },
    async (request, reply) => {
      const statistic = await queries.getProductStatistic(request.params.productId);
      if (!statistic) return sendProblem(reply, problem('statistic-unknown', { detail: notYet }));
      return withIsoTimes(statistic);
    },
  );

  server.get(
    '/v1/products',
    {
      config: { operation: listProducts },
      schema: { querystring: ListProductsQuery, response: { 200: ProductPage } },
    },
    async ({ query }, reply) => {
      const { sort = 'sales', direction = 'desc', limit = limitDefault, cursor } = query;
      const scope = { list: `products by ${sort}`, direction };
      const after = cursor === undefined ? undefined : readCursor(scope, cursor);
      if (cursor !== undefined && !after) return sendProblem(reply, problem('cursor-invalid', {}));
      const { items, next } = await queries.listProducts({
        sort,
        direction,
        limit: Number(limit),
        after,
        inStock: query.inStock === undefined ? undefined : query.inStock === 'true',
        currency: query.currency,
        priceMinorMin: numberOf(query.priceMinorMin),
        priceMinorMax: numberOf(query.priceMinorMax),
      });
      return { products: [...items], next: next && writeCursor(scope, next) };
    },
  );

  server.get(
    '/v1/products/out-of-stock',
    {
      config: { operation: listStockOutages },
      schema: { querystring: ListStockOutagesQuery, response: { 200: StockOutagePage } },
    },
    async ({ query }, reply) => {
      const { overdue, direction = 'asc', limit = limitDefault, cursor } = query;
      const scope = { list: 'stock-outages', direction };
      const after = cursor === undefined ? undefined : readCursor(scope, cursor);
      if (cursor !== undefined && !after) return sendProblem(reply, problem('cursor-invalid', {}));
      const { items, next } = await queries.listStockOutages({
        direction,
        limit: Number(limit),
        after: after && { value: new Date(after.value), id: after.id },
        isOverdue: overdue === undefined ? undefined : overdue === 'true',
      });
      return {
        products: withIsoTimes(items),
        next: next && writeCursor(scope, { value: next.value.getTime(), id: next.id }),
      };
    },
  );

  server.get(
    '/v1/trends',
    {
      config: { operation: getTrends },
      schema: { querystring: TrendsQuery, response: { 200: TrendsAnswer } },
    },
    async ({ query: { sort = 'sales', limit = limitDefault } }) =>
      withIsoTimes(await queries.topTrends({ at: new Date(), sort, limit: Number(limit) })),
  );

  server.get(
    '/v1/trends/rising',
    {
      config: { operation: getRisingProducts },
      schema: { querystring: RisingQuery, response: { 200: RisingAnswer } },
    },
    async ({ query: { limit = limitDefault } }) => ({
      products: withIsoTimes(await queries.risingProducts({ at: new Date(), limit: Number(limit) })),
    }),
  );
};

const wantsAfresh = (cacheControl: string | undefined): boolean =>
  cacheControl !== undefined && /\bno-cache\b/i.test(cacheControl);

const numberOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Number(text);
