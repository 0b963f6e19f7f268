import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { callerOf, mayActFor } from '../access-control.ts';
import type { ApiPorts, Moment } from '../api-ports.ts';
import { versionTag } from '../header-values.ts';
import { withIsoTimes } from '../iso-times.ts';
import type { Operation } from '../operation.ts';
import { readCursor, writeCursor } from '../page-cursor.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import {
  AbandonedOrderPage,
  GetOrderQuery,
  ListAbandonedOrdersQuery,
  ListOrdersQuery,
  OrderHistoryAnswer,
  OrderPage,
  OrderReceiptAnswer,
  OrderView,
} from '../query-schemas.ts';
import { NoQuery, OrderPath } from '../schemas.ts';

const getOrder: Operation = {
  id: 'getOrder',
  tag: 'Orders',
  summary: 'One order',
  description: 'For its owner and for operators. What it was at an earlier time or version is for operators.',
  access: 'shopper',
  reads: ['order-view'],
  problems: ['order-unknown', 'order-unknown-then', 'not-yours', 'role-insufficient'],
  answerHeaders: { ETag: 'Its version' },
};

const getOrderEvents: Operation = {
  id: 'getOrderEvents',
  tag: 'Orders',
  summary: 'What has happened to an order',
  description: 'For its owner and for operators.',
  access: 'shopper',
  reads: ['order-view'],
  problems: ['order-unknown', 'not-yours'],
  answerHeaders: { ETag: 'Its version' },
};

const getOrderReceipt: Operation = {
  id: 'getOrderReceipt',
  tag: 'Orders',
  summary: 'What was paid for, with the names of the products',
  description: 'For its owner and for operators. There is one once the order is paid.',
  access: 'shopper',
  reads: ['order-receipt'],
  problems: ['receipt-unknown', 'not-yours'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const listOrders: Operation = {
  id: 'listOrders',
  tag: 'Orders',
  summary: 'Orders by when they were placed',
  description: 'A shopper sees its own; an operator everybody’s, or those of one user.',
  access: 'shopper',
  reads: ['order-view'],
  problems: ['not-yours', 'cursor-invalid'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const listAbandonedOrders: Operation = {
  id: 'listAbandonedOrders',
  tag: 'Orders',
  summary: 'Abandoned orders by when they were placed',
  description:
    'Orders that were neither paid nor canceled within 30 minutes, and have not been since. An order is listed 5 minutes ' +
    'after that time at the earliest: events may be late.',
  access: 'operator',
  reads: ['order-payment'],
  problems: ['cursor-invalid'],
  answerHeaders: { ETag: 'Changes with the answer' },
};

const limitDefault = '20';

export const orderQueryRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, ports) => {
  const { queries, histories } = ports;

  server.get(
    '/v1/orders/:orderId',
    {
      config: { operation: getOrder },
      schema: { params: OrderPath, querystring: GetOrderQuery, response: { 200: OrderView } },
    },
    async (request, reply) => {
      const { orderId } = request.params;
      const { at } = request.query;
      const caller = callerOf(request);
      // What was is for those who look into things; what is, is for the owner too.
      if (at !== undefined && caller.role !== 'operator')
        return sendProblem(reply, problem('role-insufficient', {}));
      const order =
        at === undefined ? await queries.getOrder(orderId) : await histories.orderAt(orderId, momentOf(at));
      if (!order)
        return sendProblem(reply, problem(at === undefined ? 'order-unknown' : 'order-unknown-then', {}));
      if (!mayActFor(caller, order.userId)) return sendProblem(reply, problem('not-yours', {}));
      return reply.header('etag', versionTag(order.version)).send(withIsoTimes(order));
    },
  );

  server.get(
    '/v1/orders/:orderId/events',
    {
      config: { operation: getOrderEvents },
      schema: { params: OrderPath, querystring: NoQuery, response: { 200: OrderHistoryAnswer } },
    },
    async (request, reply) => {
      const { orderId } = request.params;
      const history = await queries.getOrderHistory(orderId);
      if (!history) return sendProblem(reply, problem('order-unknown', {}));
      const { userId, version, events } = history;
      if (!mayActFor(callerOf(request), userId)) return sendProblem(reply, problem('not-yours', {}));
      return reply.header('etag', versionTag(version)).send({
        orderId,
        version,
        events: events.map(({ event, at, ...rest }) => ({ type: event, time: at, ...rest })),
      });
    },
  );

  server.get(
    '/v1/orders/:orderId/receipt',
    {
      config: { operation: getOrderReceipt },
      schema: { params: OrderPath, querystring: NoQuery, response: { 200: OrderReceiptAnswer } },
    },
    async (request, reply) => {
      const receipt = await queries.getOrderReceipt(request.params.orderId);
      if (!receipt) return sendProblem(reply, problem('receipt-unknown', {}));
      if (!mayActFor(callerOf(request), receipt.userId)) return sendProblem(reply, problem('not-yours', {}));
      return withIsoTimes(receipt);
    },
  );

  server.get(
    '/v1/orders/abandoned',
    {
      config: { operation: listAbandonedOrders },
      schema: { querystring: ListAbandonedOrdersQuery, response: { 200: AbandonedOrderPage } },
    },
    async (request, reply) => {
      const { since, direction = 'desc', limit = limitDefault, cursor } = request.query;
      const scope = { list: 'abandoned-orders', direction };
      const after = cursor === undefined ? undefined : readCursor(scope, cursor);
      if (cursor !== undefined && !after) return sendProblem(reply, problem('cursor-invalid', {}));
      const { items, next } = await queries.listAbandonedOrders({
        direction,
        limit: Number(limit),
        after: after && { value: new Date(after.value), id: after.id },
        since: since === undefined ? undefined : new Date(since),
      });
      return {
        orders: withIsoTimes(items),
        next: next && writeCursor(scope, { value: next.value.getTime(), id: next.id }),
      };
    },
  );

  server.get(
    '/v1/orders',
    {
      config: { operation: listOrders },
      schema: { querystring: ListOrdersQuery, response: { 200: OrderPage } },
    },
    async (request, reply) => {
      const { status, direction = 'desc', limit = limitDefault, cursor } = request.query;
      const caller = callerOf(request);
      if (!mayActFor(caller, request.query.userId)) return sendProblem(reply, problem('not-yours', {}));
      const userId = caller.role === 'shopper' ? caller.userId : request.query.userId;
      const scope = { list: 'orders', direction };
      const after = cursor === undefined ? undefined : readCursor(scope, cursor);
      if (cursor !== undefined && !after) return sendProblem(reply, problem('cursor-invalid', {}));
      const { items, next } = await queries.listOrders({
        direction,
        limit: Number(limit),
        after: after && { value: new Date(after.value), id: after.id },
        userId,
        status,
      });
      return {
        orders: withIsoTimes(items),
        next: next && writeCursor(scope, { value: next.value.getTime(), id: next.id }),
      };
    },
  );
};

const momentOf = (at: string): Moment =>
  /^\d+$/.test(at) ? { version: Number(at) } : { time: new Date(at) };
