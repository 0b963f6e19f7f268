import { Command } from 'commander';
import { adoptByHand } from '../rebuild/adopt-build.ts';
import type { Topology } from '../streams/topology.ts';
import { operatorHere } from './operator-here.ts';
import { withDatabase } from './session.ts';

/** A newer version takes over by itself. This is for going back to an older one. */
export const adoptCommand = (find: (name: string) => Topology): Command =>
  new Command('adopt')
    .description(
      'Let this version of a projection that cannot be rebuilt go on where another one stands; needed to go back to an older version only',
    )
    .argument('<projection>', 'its name')
    .action((name: string) =>
      withDatabase(async ({ database }) => {
        const topology = find(name);
        const adoption = await adoptByHand({ database, who: operatorHere() }, topology);
        if (!adoption) {
          console.log(`${name}: version ${topology.version} has it already`);
          return;
        }
        const dropped = adoption.droppedStates.map(({ state, keys }) => `${state} (${keys})`);
        console.log(
          `${name}: version ${adoption.to} goes on where version ${adoption.from} stood${dropped.length === 0 ? '' : `; dropped states: ${dropped.join(', ')}`}`,
        );
      }),
    );
