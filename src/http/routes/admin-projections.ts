import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { UnknownProjection } from '../../projection-admin/projection-admin.ts';
import { callerOf } from '../access-control.ts';
import { changeProblems, refuseIfMatch } from '../admin-changes.ts';
import {
  PauseProjectionAnswer,
  ProjectionListAnswer,
  ProjectionPath,
  ResumeProjectionAnswer,
} from '../admin-projection-schemas.ts';
import { PauseBody } from '../admin-relay-schemas.ts';
import type { ApiPorts } from '../api-ports.ts';
import { withIsoTimes } from '../iso-times.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';
import { NoBody, NoQuery } from '../schemas.ts';

const list: Operation = {
  id: 'listProjections',
  tag: 'Projections',
  summary: 'Every projection, and whether it is paused',
  access: 'operator',
};

const pause: Operation = {
  id: 'pauseProjection',
  tag: 'Projections',
  summary: 'Hold a projection still until further notice',
  description:
    'In every process, and over restarts: it reads nothing, commits nothing and closes no windows. Commands and other projections go on. Events wait in Kafka, for as long as the topics keep them.',
  access: 'operator',
  problems: [...changeProblems, 'projection-unknown'],
};

const resume: Operation = {
  id: 'resumeProjection',
  tag: 'Projections',
  summary: 'Let a projection go on where it stood',
  description: 'Every process notices within about a second.',
  access: 'operator',
  problems: [...changeProblems, 'projection-unknown'],
};

export const adminProjectionRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { projections }) => {
  refuseIfMatch(server);

  server.get(
    '/admin/projections',
    {
      config: { operation: list },
      schema: { querystring: NoQuery, response: { 200: ProjectionListAnswer } },
    },
    async () => {
      const known = await projections.list();
      return {
        projections: known.map((projection) => ({
          ...withIsoTimes(projection),
          state: projection.pause ? ('paused' as const) : ('active' as const),
        })),
      };
    },
  );

  server.post(
    '/admin/projections/:name/pause',
    {
      config: { operation: pause },
      schema: {
        params: ProjectionPath,
        querystring: NoQuery,
        body: PauseBody,
        response: { 200: PauseProjectionAnswer },
      },
    },
    async (request, reply) => {
      const who = callerOf(request).identity;
      const because = request.body?.reason ?? null;
      try {
        const { dryRun: _, ...report } = await projections.pause(request.params.name, {
          who,
          because,
          dryRun: false,
        });
        return withIsoTimes(report);
      } catch (error) {
        return sendProblem(reply, unknownOf(error));
      }
    },
  );

  server.post(
    '/admin/projections/:name/resume',
    {
      config: { operation: resume },
      schema: {
        params: ProjectionPath,
        querystring: NoQuery,
        body: NoBody,
        response: { 200: ResumeProjectionAnswer },
      },
    },
    async (request, reply) => {
      const who = callerOf(request).identity;
      try {
        const { dryRun: _, ...report } = await projections.resume(request.params.name, {
          who,
          dryRun: false,
        });
        return withIsoTimes(report);
      } catch (error) {
        return sendProblem(reply, unknownOf(error));
      }
    },
  );
};

const unknownOf = (error: unknown) => {
  if (error instanceof UnknownProjection) return problem('projection-unknown', { detail: error.line });
  throw error;
};
