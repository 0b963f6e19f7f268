import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Endpoints } from '../../../src/infra/infrastructure.ts';
import { eventually } from '../../support/eventually.ts';

interface Said {
  readonly state?: string;
  readonly subject?: string;
  readonly line?: string;
  readonly logged?: string;
  readonly owned?: number;
  readonly endpoints?: Endpoints;
}

const script = fileURLToPath(new URL('../../support/own-stack.ts', import.meta.url));

/** Another process that owns or joins a stack, to be interrupted or killed. */
export class OwnerProcess {
  readonly said: Said[] = [];
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  constructor(env: Readonly<Record<string, string>>, options: { script?: string } = {}) {
    this.#child = spawn(process.execPath, [options.script ?? script], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (this.#child.stdout) {
      createInterface(this.#child.stdout).on('line', (line) => this.said.push(JSON.parse(line) as Said));
    }
    this.#exited = once(this.#child, 'close');
  }

  async ready(): Promise<Said> {
    return eventually(() => this.find('ready') ?? this.#complain(), { timeoutMs: 60_000, what: 'ready' });
  }

  find(state: string): Said | undefined {
    return this.said.find((said) => said.state === state && said.subject === undefined);
  }

  async exited(): Promise<{ code: number | null; line: string | undefined }> {
    await this.#exited;
    return { code: this.#child.exitCode, line: this.find('failed')?.line };
  }

  async signal(signal: NodeJS.Signals): Promise<{ code: number | null; line: string | undefined }> {
    this.#child.kill(signal);
    return this.exited();
  }

  /** For an after hook: nothing of a failed test stays behind. */
  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.signal('SIGKILL');
  }

  #complain(): never {
    throw new Error(JSON.stringify(this.said.slice(-3)));
  }
}
