#!/usr/bin/env node
import { CommanderError } from 'commander';
import { OperatorError } from '../operator-error.ts';
import { buildProgram } from './program.ts';

/** Exit codes: 0 done, 1 failed, 2 wrong usage, 3 found something. */
const main = async (): Promise<void> => {
  try {
    await buildProgram().parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
};

const report = (error: unknown): number => {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof OperatorError) {
    console.error(`millrace: ${error.line}`);
    return error.exitCode;
  }
  console.error('millrace: this should not happen; the details are:');
  console.error(error);
  return 1;
};

await main();
// Everything is stopped or given up by now; a connection that still waits for an answer must not keep the process.
process.exit();
