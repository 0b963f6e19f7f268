import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { RelayStatus } from '../../relay-admin/read-relay-status.ts';
import { ghostListDefault } from '../../relay-admin/relay-admin.ts';
import { callerOf } from '../access-control.ts';
import { changeProblems, refusalOf, refuseIfMatch } from '../admin-changes.ts';
import {
  DismissGhostsAnswer,
  DismissGhostsBody,
  GhostListAnswer,
  GhostListQuery,
  PauseAnswer,
  PauseBody,
  RelayStatusAnswer,
  ReshardAnswer,
  ReshardRelayBody,
  ResumeAnswer,
  ResyncAnswer,
  ResyncRelayBody,
  UseWalAnswer,
} from '../admin-relay-schemas.ts';
import type { ApiPorts } from '../api-ports.ts';
import { withIsoTimes } from '../iso-times.ts';
import type { Operation } from '../operation.ts';
import { sendProblem } from '../problem-responses.ts';
import { NoBody, NoQuery } from '../schemas.ts';

const getStatus: Operation = {
  id: 'getRelayStatus',
  tag: 'Relay',
  summary: 'Who relays, how far it is, what waits, and why it is late',
  access: 'operator',
};

const pause: Operation = {
  id: 'pauseRelay',
  tag: 'Relay',
  summary: 'Stop publishing until further notice',
  description:
    'Every relay finishes its page, gives its lease back and waits. Commands go on; nothing is lost, events wait.',
  access: 'operator',
  problems: changeProblems,
};

const resume: Operation = {
  id: 'resumeRelay',
  tag: 'Relay',
  summary: 'Let the relays go on, at once',
  access: 'operator',
  problems: changeProblems,
};

const resync: Operation = {
  id: 'resyncRelay',
  tag: 'Relay',
  summary: 'Publish everything from an id on again, as after a restore from a dump',
  description:
    'Consumers drop what they have had. What lies before the id counts as published. Refused for events that are older than projections remember (STREAMS_HANDLED_RETENTION_MS).',
  access: 'operator',
  problems: [...changeProblems, 'not-possible-now'],
};

const reshard: Operation = {
  id: 'reshardRelay',
  tag: 'Relay',
  summary: 'Change how many relays can be at work at once, while they run',
  description: 'Nothing is lost or out of order; a few events may be published again.',
  access: 'operator',
  problems: [...changeProblems, 'not-possible-now'],
};

const listGhosts: Operation = {
  id: 'listGhostEvents',
  tag: 'Relay',
  summary: 'Events that Kafka has and the journal has not',
  description:
    'They were published and then lost by the journal, in an asynchronous failover or a restore of PostgreSQL.',
  access: 'operator',
};

const dismissGhosts: Operation = {
  id: 'dismissGhostEvents',
  tag: 'Relay',
  summary: 'Say that what ghost events did is mended',
  description: 'All that are known are dismissed. They stay in Kafka; nobody is told of them any more.',
  access: 'operator',
  problems: changeProblems,
};

const useWal: Operation = {
  id: 'returnRelayToWal',
  tag: 'Relay',
  summary: 'Read the write-ahead log again after its replication slot was lost',
  description: 'Relays with RELAY_SOURCE=wal make a new slot; until then they read the table by snapshots.',
  access: 'operator',
  problems: changeProblems,
};

export const adminRelayRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { relay }) => {
  refuseIfMatch(server);

  server.get(
    '/admin/relay',
    {
      config: { operation: getStatus },
      schema: { querystring: NoQuery, response: { 200: RelayStatusAnswer } },
    },
    async () => statusAnswer(await relay.status()),
  );

  server.post(
    '/admin/relay/pause',
    {
      config: { operation: pause },
      schema: { querystring: NoQuery, body: PauseBody, response: { 200: PauseAnswer } },
    },
    async (request) => {
      const because = request.body?.reason ?? null;
      return withIsoTimes(await relay.pause({ who: callerOf(request).identity, because }));
    },
  );

  server.post(
    '/admin/relay/resume',
    {
      config: { operation: resume },
      schema: { querystring: NoQuery, body: NoBody, response: { 200: ResumeAnswer } },
    },
    async (request) => withIsoTimes(await relay.resume({ who: callerOf(request).identity })),
  );

  server.post(
    '/admin/relay/resync',
    {
      config: { operation: resync },
      schema: { querystring: NoQuery, body: ResyncRelayBody, response: { 200: ResyncAnswer } },
    },
    async (request, reply) => {
      const { fromId, dryRun = true } = request.body;
      try {
        return await relay.resync(fromId, { who: callerOf(request).identity, dryRun });
      } catch (error) {
        return sendProblem(reply, refusalOf(error));
      }
    },
  );

  server.post(
    '/admin/relay/reshard',
    {
      config: { operation: reshard },
      schema: { querystring: NoQuery, body: ReshardRelayBody, response: { 200: ReshardAnswer } },
    },
    async (request, reply) => {
      const { shards, dryRun = true } = request.body;
      try {
        const report = await relay.reshard(shards, { who: callerOf(request).identity, dryRun });
        return { dryRun, ...report };
      } catch (error) {
        return sendProblem(reply, refusalOf(error));
      }
    },
  );

  server.get(
    '/admin/relay/ghosts',
    {
      config: { operation: listGhosts },
      schema: { querystring: GhostListQuery, response: { 200: GhostListAnswer } },
    },
    async ({ query }) => withIsoTimes(await relay.ghosts({ limit: Number(query.limit ?? ghostListDefault) })),
  );

  server.post(
    '/admin/relay/ghosts/dismiss',
    {
      config: { operation: dismissGhosts },
      schema: { querystring: NoQuery, body: DismissGhostsBody, response: { 200: DismissGhostsAnswer } },
    },
    async (request) =>
      relay.dismissGhosts({ who: callerOf(request).identity, dryRun: request.body.dryRun ?? true }),
  );

  server.post(
    '/admin/relay/use-wal',
    {
      config: { operation: useWal },
      schema: { querystring: NoQuery, body: NoBody, response: { 200: UseWalAnswer } },
    },
    async (request) => withIsoTimes(await relay.useWal({ who: callerOf(request).identity })),
  );
};

const statusAnswer = ({ late, ...status }: RelayStatus) => ({
  ...withIsoTimes(status),
  late: late.map(({ reason: { kind, ...details }, sentence, remedy }) => ({
    kind,
    sentence,
    remedy,
    details: withIsoTimes(details) as Record<string, unknown>,
  })),
});
