import { Type } from 'typebox';
import { Pause } from './admin-relay-schemas.ts';

const closed = { additionalProperties: false };
const NullablePause = Type.Union([Pause, Type.Null()]);

export const ProjectionPath = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[a-z0-9-]+$',
      description: 'As the list of projections has it',
      examples: ['product-statistic'],
    }),
  },
  closed,
);

export const ProjectionListAnswer = Type.Object(
  {
    projections: Type.Array(
      Type.Object(
        {
          name: Type.String({ examples: ['product-statistic'] }),
          state: Type.Union([Type.Literal('active'), Type.Literal('paused')]),
          pause: NullablePause,
        },
        closed,
      ),
    ),
  },
  closed,
);

export const PauseProjectionAnswer = Type.Object(
  {
    projection: Type.String(),
    changed: Type.Boolean({ description: 'False when it was paused already; then the first pause stands' }),
    pause: NullablePause,
    stillCommitting: Type.Boolean({
      description: 'A batch that was being committed when the pause came, and may still be',
    }),
  },
  closed,
);

export const ResumeProjectionAnswer = Type.Object(
  {
    projection: Type.String(),
    ended: Type.Union([Pause, Type.Null()], {
      description: 'The pause that is over; null if there was none',
    }),
  },
  closed,
);
