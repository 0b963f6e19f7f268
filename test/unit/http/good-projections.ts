import type { ProjectionAdmin } from '../../../src/projection-admin/projection-admin.ts';

const pause = { by: 'operator:ann', since: new Date(1000), because: 'a bad release' };

/** Projections of which one is paused; every name that is asked for is one of them. */
export const goodProjections: ProjectionAdmin = {
  list: async () => [
    { name: 'product-statistic', pause },
    { name: 'order-view', pause: null },
  ],
  pause: async (projection, { who, because, dryRun }) => ({
    projection,
    dryRun,
    changed: true,
    pause: { by: who, since: new Date(1000), because },
    stillCommitting: false,
  }),
  resume: async (projection, { dryRun }) => ({ projection, dryRun, ended: pause }),
};
