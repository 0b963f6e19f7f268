import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../../operator-error.ts';
import { lastTroubleIn, rotateLog } from './server-log.ts';
import { type Launch, type Supervisor, signalGroup } from './supervisor.ts';

export interface ServerSpec extends Omit<Launch, 'output'> {
  /** As a person would call it: "Kafka broker 1". */
  readonly title: string;
  readonly logFile: string;
  readonly stopTimeoutMs: number;
  readonly isHealthy: () => Promise<boolean>;
  /** Trouble that passes by itself, so that starting again a moment later helps. */
  readonly passingTrouble?: RegExp;
}

const healthPollMs = 100;
const killTimeoutMs = 5000;

/** One server as a child process: started until it is healthy, stopped for good, and watched in between. */
export class ManagedServer {
  readonly name: string;
  readonly #spec: ServerSpec;
  readonly #supervisor: Supervisor;
  readonly #startTimeoutMs: number;
  readonly #onUnexpectedExit: (error: OperatorError) => void;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #isExpectedToRun = false;

  constructor(
    spec: ServerSpec,
    options: {
      supervisor: Supervisor;
      startTimeoutMs: number;
      onUnexpectedExit: (error: OperatorError) => void;
    },
  ) {
    this.name = spec.name;
    this.#spec = spec;
    this.#supervisor = options.supervisor;
    this.#startTimeoutMs = options.startTimeoutMs;
    this.#onUnexpectedExit = options.onUnexpectedExit;
  }

  /** Undefined while the server does not run. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(signal?: AbortSignal): Promise<void> {
    const deadlineMs = Date.now() + this.#startTimeoutMs;
    while (true) {
      signal?.throwIfAborted();
      await this.#launch();
      const outcome = await this.#waitUntilHealthy(deadlineMs, signal);
      if (outcome === 'healthy') break;
      if (outcome === 'too late') {
        await this.kill();
        throw this.#problem(`was not ready within ${this.#startTimeoutMs / 1000} s`);
      }
      const trouble = lastTroubleIn(this.#spec.logFile) ?? '';
      if (!this.#spec.passingTrouble?.test(trouble))
        throw this.#problem(`stopped while starting (${outcome})`);
      await delay(healthPollMs, undefined, signal ? { signal } : {});
    }
    this.#isExpectedToRun = true;
  }

  /** Asks first, and ends the server after a bounded time whatever it does. */
  async stop(): Promise<void> {
    this.#isExpectedToRun = false;
    if (!this.#child?.pid) return;
    signalGroup(this.#child.pid, this.#spec.stopSignal);
    if (!(await this.#isGoneWithin(this.#spec.stopTimeoutMs))) await this.kill();
  }

  /** As a crash would: at once, without a chance to finish anything. */
  async kill(): Promise<void> {
    this.#isExpectedToRun = false;
    if (!this.#child?.pid) return;
    signalGroup(this.#child.pid, 'SIGKILL');
    if (!(await this.#isGoneWithin(killTimeoutMs))) {
      throw new Error(
        `${this.#spec.title} (pid ${this.#child.pid}) did not end ${killTimeoutMs} ms after SIGKILL`,
      );
    }
  }

  async #launch(): Promise<void> {
    rotateLog(this.#spec.logFile);
    const output = openSync(this.#spec.logFile, 'a', 0o644);
    try {
      const child = await this.#supervisor.launch({ ...this.#spec, output });
      this.#child = child;
      this.#exited = new Promise((resolve) => {
        const onExit = () => {
          this.#child = undefined;
          if (this.#isExpectedToRun) this.#reportUnexpectedExit(child);
          resolve();
        };
        // It may have died before anybody could listen.
        if (child.exitCode !== null || child.signalCode !== null) onExit();
        else child.once('exit', onExit);
      });
    } finally {
      closeSync(output);
    }
  }

  /** Healthy only counts while the child lives: otherwise a stranger answers on its port. */
  async #waitUntilHealthy(deadlineMs: number, signal?: AbortSignal): Promise<string> {
    const child = this.#child;
    while (child && Date.now() < deadlineMs) {
      signal?.throwIfAborted();
      const isHealthy = await this.#spec.isHealthy();
      if (child !== this.#child) break;
      if (isHealthy) return 'healthy';
      await Promise.race([this.#exited, delay(healthPollMs)]);
      if (child !== this.#child) break;
    }
    return child === this.#child && child ? 'too late' : howItEnded(child);
  }

  #reportUnexpectedExit(child: ChildProcess): void {
    this.#isExpectedToRun = false;
    this.#onUnexpectedExit(this.#problem(`stopped unexpectedly (${howItEnded(child)})`));
  }

  #problem(what: string): OperatorError {
    const detail = lastTroubleIn(this.#spec.logFile) ?? 'its log is empty';
    return new OperatorError(`${this.#spec.title} ${what}: ${detail} (log: ${this.#spec.logFile})`, {
      remedy: 'Start again; if its data directory is damaged, remove all data with: npm run reset',
    });
  }

  async #isGoneWithin(timeoutMs: number): Promise<boolean> {
    const giveUp = new AbortController();
    const late = delay(timeoutMs, 'late', { signal: giveUp.signal }).catch(() => 'late');
    const outcome = await Promise.race([this.#exited.then(() => 'gone'), late]);
    giveUp.abort();
    return outcome === 'gone';
  }
}

const howItEnded = (child: ChildProcess | undefined): string =>
  child?.signalCode ? `signal ${child.signalCode}` : `exit code ${child?.exitCode ?? 'unknown'}`;
