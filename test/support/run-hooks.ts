import { stopSharedStack } from './stack.ts';

/** What a process may still hold when all is over: its own streams. */
const ownResources = new Set(['TTYWrap', 'PipeWrap', 'FSReqCallback', 'Immediate']);
const settleMs = 3000;

const leftovers = (): readonly string[] =>
  process.getActiveResourcesInfo().filter((resource) => !ownResources.has(resource));

/** The run fails when a test has left a pool, a consumer, a server or a timer behind. */
export const mochaGlobalTeardown = async (): Promise<void> => {
  await stopSharedStack();
  const deadline = Date.now() + settleMs;
  while (leftovers().length > 0 && Date.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const leaked = leftovers();
  if (leaked.length === 0) return;
  process.stderr.write(`\nLeaked handles: ${leaked.join(', ')}\n`);
  process.exit(70);
};
