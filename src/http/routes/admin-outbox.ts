import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import {
  type EventFilter,
  type EventRef,
  listLimitDefault,
  parseAggregateRef,
  parseEventRef,
} from '../../outbox-admin/event-selection.ts';
import type { OutboxEvent } from '../../outbox-admin/outbox-event.ts';
import type { RetrySelection } from '../../outbox-admin/retry-events.ts';
import { callerOf } from '../access-control.ts';
import { changeProblems, refuseIfMatch } from '../admin-changes.ts';
import {
  DropAnswer,
  DropEventBody,
  OutboxEventPath,
  OutboxListAnswer,
  OutboxListQuery,
  RetryAnswer,
  RetryEventsBody,
  ShownEventAnswer,
} from '../admin-outbox-schemas.ts';
import type { ApiPorts } from '../api-ports.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { NoQuery } from '../schemas.ts';

const listFailed: Operation = {
  id: 'listFailedEvents',
  tag: 'Outbox',
  summary: 'Events that are tried again, and those that wait behind them',
  access: 'operator',
};

const listDead: Operation = {
  id: 'listDeadEvents',
  tag: 'Outbox',
  summary: 'Events that nobody tries any more until an operator decides',
  access: 'operator',
};

const getEvent: Operation = {
  id: 'getOutboxEvent',
  tag: 'Outbox',
  summary: 'What one event says and what became of it',
  access: 'operator',
  problems: ['outbox-event-unknown'],
};

const retry: Operation = {
  id: 'retryEvents',
  tag: 'Outbox',
  summary: 'Try failed and dead events again at once',
  description: 'Each aggregate goes out from its first event on, as one sequence.',
  access: 'operator',
  problems: changeProblems,
};

const drop: Operation = {
  id: 'dropEvent',
  tag: 'Outbox',
  summary: 'Give a failed or dead event up for good',
  description: 'It stays in the journal, consumers never see it, and its aggregate goes on.',
  access: 'operator',
  problems: [...changeProblems, 'outbox-event-not-held', 'outbox-event-waits', 'outbox-event-being-retried'],
};

export const adminOutboxRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { outbox }) => {
  refuseIfMatch(server);

  server.get(
    '/admin/outbox/failed',
    {
      config: { operation: listFailed },
      schema: { querystring: OutboxListQuery, response: { 200: OutboxListAnswer } },
    },
    async ({ query }) => ({ events: (await outbox.failed(filterOf(query))).map(eventAnswer) }),
  );

  server.get(
    '/admin/outbox/dead',
    {
      config: { operation: listDead },
      schema: { querystring: OutboxListQuery, response: { 200: OutboxListAnswer } },
    },
    async ({ query }) => ({ events: (await outbox.dead(filterOf(query))).map(eventAnswer) }),
  );

  server.post(
    '/admin/outbox/retry',
    {
      config: { operation: retry },
      schema: { querystring: NoQuery, body: RetryEventsBody, response: { 200: RetryAnswer } },
    },
    async (request) =>
      outbox.retry(selectionOf(request.body), {
        who: callerOf(request).identity,
        dryRun: request.body.dryRun ?? false,
      }),
  );

  server.post(
    '/admin/outbox/drop',
    {
      config: { operation: drop },
      schema: { querystring: NoQuery, body: DropEventBody, response: { 200: DropAnswer } },
    },
    async (request, reply) => {
      const { id, dryRun = true } = request.body;
      const dropped = await outbox.drop(refOf(id), { who: callerOf(request).identity, dryRun });
      if (dropped.outcome === 'not-held') return sendProblem(reply, problem('outbox-event-not-held', {}));
      if (dropped.outcome === 'waits-behind')
        return sendProblem(reply, problem('outbox-event-waits', { firstId: dropped.firstId }));
      if (dropped.outcome === 'being-retried')
        return sendProblem(reply, problem('outbox-event-being-retried', {}));
      return reply.send({ ...dropped, event: eventAnswer(dropped.event) });
    },
  );

  // After the fixed paths, in the document as well: what is looked for first is what is meant.
  server.get(
    '/admin/outbox/:id',
    {
      config: { operation: getEvent },
      schema: { params: OutboxEventPath, querystring: NoQuery, response: { 200: ShownEventAnswer } },
    },
    async (request, reply) => {
      const shown = await outbox.show(refOf(request.params.id));
      if (!shown) return sendProblem(reply, problem('outbox-event-unknown', {}));
      return reply.send({
        ...shown,
        ...eventAnswer(shown),
        envelope: { ...shown.envelope },
        operators: shown.operators.map((step) => ({ ...step, at: step.at.toISOString() })),
      });
    },
  );
};

const eventAnswer = (event: OutboxEvent) => ({
  ...event,
  createdAt: event.createdAt.toISOString(),
  failedAt: event.failedAt?.toISOString() ?? null,
  nextRetryAt: event.nextRetryAt?.toISOString() ?? null,
  deadAt: event.deadAt?.toISOString() ?? null,
});

const filterOf = ({ aggregate, type, limit }: Static<typeof OutboxListQuery>): EventFilter => ({
  aggregate: aggregate === undefined ? undefined : aggregateOf(aggregate),
  eventType: type,
  limit: limit === undefined ? listLimitDefault : Number(limit),
});

const selectionOf = (body: Static<typeof RetryEventsBody>): RetrySelection => {
  if ('aggregate' in body) return { aggregate: aggregateOf(body.aggregate) };
  if ('id' in body) return { event: refOf(body.id) };
  return 'all';
};

const refOf = (text: string): EventRef =>
  parseEventRef(text) ?? bug(`${text} fits the schema and names no event`);

const aggregateOf = (text: string) =>
  parseAggregateRef(text) ?? bug(`${text} fits the schema and names no aggregate`);

const bug = (message: string): never => {
  throw new Error(message);
};
