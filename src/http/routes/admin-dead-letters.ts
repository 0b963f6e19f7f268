import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import {
  dropAnswer,
  listAnswer,
  refusalAnswer,
  replayAnswer,
  shownAnswer,
  statsAnswer,
} from '../../dlq-admin/answers.ts';
import type { Busy, DropReport, ReplayReport } from '../../dlq-admin/dlq-admin.ts';
import { type LetterFilter, lettersMax, listLimitDefault } from '../../dlq-admin/letter-filter.ts';
import { type LetterPlace, type LetterTopics, parseLetterId } from '../../dlq-admin/letter-id.ts';
import type { LetterSelection } from '../../dlq-admin/select-letters.ts';
import { callerOf } from '../access-control.ts';
import {
  type ChangeLettersBody,
  DropLettersAnswer,
  deadLetterRequests,
  type LetterFilterRequest,
  LetterListAnswer,
  LetterStatsAnswer,
  ReplayLettersAnswer,
  ShownLetterAnswer,
  SkipVersionAnswer,
} from '../admin-dead-letter-schemas.ts';
import type { ApiPorts } from '../api-ports.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { NoQuery } from '../schemas.ts';

const list: Operation = {
  id: 'listDeadLetters',
  tag: 'DeadLetters',
  summary: 'Records that projections could not process, and why',
  access: 'operator',
};

const stats: Operation = {
  id: 'countDeadLetters',
  tag: 'DeadLetters',
  summary: 'Dead letters by topic, projection and cause',
  access: 'operator',
};

const show: Operation = {
  id: 'getDeadLetter',
  tag: 'DeadLetters',
  summary: 'One dead letter with its cause, its record as far as it can be decoded, and its history',
  access: 'operator',
  problems: ['dead-letter-unknown'],
};

/** What taking a body brings along. Neither needs an Idempotency-Key: what is done twice is refused, or harmless. */
const inBody = [
  'malformed-json',
  'body-too-large',
  'unsupported-media-type',
  'if-match-not-applicable',
] as const;
const bodyProblems = [...inBody, 'dead-letters-refused', 'dead-letters-busy'] as const;

const replay: Operation = {
  id: 'replayDeadLetters',
  tag: 'DeadLetters',
  summary: 'Send the records of dead letters again',
  description:
    'To the topic and partition they came from, for the projection whose letter it is. A key is sent whole and in order; letters of a parked key are sent in no other way. With ids all are sent or none.',
  access: 'operator',
  problems: bodyProblems,
};

const drop: Operation = {
  id: 'dropDeadLetters',
  tag: 'DeadLetters',
  summary: 'Give dead letters up',
  description: 'They are not shown any more. A parked key without any goes on.',
  access: 'operator',
  problems: bodyProblems,
};

const skip: Operation = {
  id: 'skipVersion',
  tag: 'DeadLetters',
  summary: 'Tell a projection that a version of a key will never come',
  description:
    'What the projection holds behind it goes on without it, as soon as the projection looks. Builds that begin later do not wait for it either.',
  access: 'operator',
  problems: [...inBody, 'version-not-skipped'],
};

export const adminDeadLetterRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { deadLetters }) => {
  const { topics } = deadLetters;
  const requests = deadLetterRequests(topics.names);

  // A condition that nobody checks must not look as if it held.
  server.addHook('onRequest', (request, reply, done) => {
    if (request.method === 'POST' && request.headers['if-match'] !== undefined)
      sendProblem(reply, problem('if-match-not-applicable', {}));
    else done();
  });

  const refuse = (reply: FastifyReply, report: ReplayReport | DropReport | Busy): FastifyReply =>
    report.outcome === 'busy'
      ? sendProblem(reply, problem('dead-letters-busy', {}))
      : sendProblem(
          reply,
          problem('dead-letters-refused', {
            refused: report.refused.map((refusal) => refusalAnswer(topics, refusal)),
          }),
        );

  server.get(
    '/admin/dead-letters',
    {
      config: { operation: list },
      schema: { querystring: requests.listQuery, response: { 200: LetterListAnswer } },
    },
    async ({ query }) => {
      const limit = query.limit === undefined ? listLimitDefault : Number(query.limit);
      const request = { ...filterOf(query), all: query.all !== undefined, limit };
      return listAnswer(topics, await deadLetters.list(request));
    },
  );

  server.get(
    '/admin/dead-letters/stats',
    {
      config: { operation: stats },
      schema: { querystring: requests.statsQuery, response: { 200: LetterStatsAnswer } },
    },
    async ({ query }) => {
      const request = { ...filterOf(query), all: query.all !== undefined };
      return statsAnswer(topics, await deadLetters.stats(request));
    },
  );

  server.post(
    '/admin/dead-letters/replay',
    {
      config: { operation: replay },
      schema: { querystring: NoQuery, body: requests.replayBody, response: { 200: ReplayLettersAnswer } },
    },
    async (request, reply) => {
      const report = await deadLetters.replay(selectionOf(topics, request.body), {
        who: callerOf(request).identity,
        dryRun: isDryRun(request.body),
        force: request.body.force ?? false,
      });
      if (report.outcome === 'busy' || report.outcome === 'refused') return refuse(reply, report);
      return reply.send({ ...replayAnswer(topics, report), outcome: report.outcome });
    },
  );

  server.post(
    '/admin/dead-letters/drop',
    {
      config: { operation: drop },
      schema: { querystring: NoQuery, body: requests.dropBody, response: { 200: DropLettersAnswer } },
    },
    async (request, reply) => {
      const report = await deadLetters.drop(selectionOf(topics, request.body), {
        who: callerOf(request).identity,
        dryRun: isDryRun(request.body),
      });
      if (report.outcome === 'busy' || report.outcome === 'refused') return refuse(reply, report);
      return reply.send({ ...dropAnswer(topics, report), outcome: report.outcome });
    },
  );

  server.post(
    '/admin/dead-letters/skip-version',
    {
      config: { operation: skip },
      schema: { querystring: NoQuery, body: requests.skipBody, response: { 200: SkipVersionAnswer } },
    },
    async (request, reply) => {
      const { dryRun = false, ...asked } = request.body;
      const report = await deadLetters.skipVersion(asked, { who: callerOf(request).identity, dryRun });
      if (report.outcome !== 'refused') return reply.send({ ...report, outcome: report.outcome });
      const { reason, steps, next = null } = report;
      return sendProblem(reply, problem('version-not-skipped', { reason, steps: [...steps], next }));
    },
  );

  // After the fixed paths, in the document as well: what is looked for first is what is meant.
  server.get(
    '/admin/dead-letters/:id',
    {
      config: { operation: show },
      schema: { params: requests.path, querystring: NoQuery, response: { 200: ShownLetterAnswer } },
    },
    async (request, reply) => {
      const shown = await deadLetters.show(placeOf(topics, request.params.id));
      if (!shown) return sendProblem(reply, problem('dead-letter-unknown', {}));
      return reply.send(shownAnswer(topics, shown));
    },
  );
};

const placeOf = (topics: LetterTopics, id: string): LetterPlace =>
  parseLetterId(topics, id) ?? bug(`${id} fits the schema and names no letter`);

const bug = (message: string): never => {
  throw new Error(message);
};

const filterOf = (filter: LetterFilterRequest): LetterFilter => ({
  topic: filter.topic,
  projection: filter.projection,
  kind: filter.kind,
  exception: filter.exception,
  key: filter.key,
  since: filter.since === undefined ? undefined : new Date(filter.since),
  until: filter.until === undefined ? undefined : new Date(filter.until),
});

const selectionOf = (topics: LetterTopics, body: ChangeLettersBody): LetterSelection => {
  if ('ids' in body) return { by: 'ids', places: body.ids.map((id) => placeOf(topics, id)) };
  if ('key' in body) {
    const { key, topic, projection } = body;
    return { by: 'key', key, topic, projection };
  }
  return { by: 'filter', filter: filterOf(body.filter), limit: body.limit ?? lettersMax };
};

/** Who names letters means it; who describes them has to say so. */
const isDryRun = (body: ChangeLettersBody): boolean => body.dryRun ?? !('ids' in body);
