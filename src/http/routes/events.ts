import type { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { type LiveKind, liveKinds } from '../../live/live-message.ts';
import { callerOf } from '../access-control.ts';
import type { ApiPorts } from '../api-ports.ts';
import type { Operation } from '../operation.ts';
import { problem } from '../problem.ts';
import { sendProblem } from '../problem-responses.ts';

const followEvents: Operation = {
  id: 'followEvents',
  tag: 'Live',
  summary: 'Statistics and orders as they change',
  description: `Server-sent events. A shopper hears of all statistics and of its own orders, an operator of everything.

- \`product-statistic\` and \`order\`: what it is now, as the query of it would answer; changes that follow each other quickly are told as one
- \`ready\`: from here on nothing is missed; with \`resumed\` true everything since \`Last-Event-ID\` has come before
- \`reset\`: what changed since \`Last-Event-ID\` is not known any more (\`reason\`: \`too-old\`, \`too-much\` or \`unknown-position\`), or a read model was rebuilt or rolled back (\`model-replaced\`, with \`kinds\`: which of \`statistics\` and \`orders\`), so that everything shown so far may differ; ask the queries, and listen on
- \`closed\`: the stream ends (\`reason\`: \`too-slow\`, \`time-is-up\` or \`shutting-down\`); come back with \`Last-Event-ID\``,
  access: 'shopper',
  isStream: true,
  problems: ['too-many-streams', 'streams-full'],
};

const EventsQuery = Type.Object(
  {
    kind: Type.Optional(
      Type.Union([Type.Literal('statistics'), Type.Literal('orders')], {
        description: 'Only these; both unless told',
      }),
    ),
  },
  { additionalProperties: false },
);

/** Text, which is sent while it is made. */
const EventStream = Type.Unsafe<Readable>(Type.String());
const mediaType = 'text/event-stream';

export const eventRoutes: FastifyPluginAsyncTypebox<ApiPorts> = async (server, { live }) => {
  // A stream that is open would keep the server from stopping.
  server.addHook('preClose', () => live.close());

  server.get(
    '/events',
    {
      config: { operation: followEvents },
      exposeHeadRoute: false,
      schema: {
        querystring: EventsQuery,
        response: { 200: { content: { [mediaType]: { schema: EventStream } } } },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { kind } = request.query;
      const subscription = live.subscribe({
        identity: caller.identity,
        userId: caller.role === 'shopper' ? caller.userId : undefined,
        kinds: new Set<LiveKind>(kind === undefined ? liveKinds : [kind]),
        lastEventId: lastEventIdOf(request.headers['last-event-id']),
      });
      if (subscription.kind === 'refused') {
        return sendProblem(
          reply,
          subscription.reason === 'caller-full'
            ? problem('too-many-streams', {})
            : problem('streams-full', {}),
        );
      }
      // Nothing may happen for longer than a connection is left idle elsewhere; heartbeats look after this one.
      reply.raw.setTimeout(0, () => {});
      return reply.type(mediaType).header('x-accel-buffering', 'no').send(subscription.stream);
    },
  );
};

const lastEventIdOf = (value: string | readonly string[] | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;
