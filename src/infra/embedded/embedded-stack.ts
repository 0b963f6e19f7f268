import { OperatorError } from '../../operator-error.ts';
import type { DataDir } from './data-dir.ts';
import { chooseFreePorts } from './free-ports.ts';
import { ManagedServer, type ServerSpec } from './managed-server.ts';
import type { OwnerLock } from './owner-lock.ts';
import { ownIdentity } from './process-identity.ts';
import type { StackOrder } from './stack-kit.ts';
import { type EmbeddedEndpoints, readStackState, type StackState, writeStackState } from './stack-state.ts';
import { stopStaleChildren } from './stale-children.ts';
import { portNames, startServers } from './start-servers.ts';
import { Supervisor } from './supervisor.ts';

/** Clients stop before what they use: the registry keeps its schemas in PostgreSQL. */
const stopOrder = [/^registry$/, /^kafka-/, /^redis$/, /^postgres$/];

/** Real servers as child processes of this one. Belongs to whoever holds the lock of the data directory. */
export class EmbeddedStack {
  readonly servers = new Map<string, ManagedServer>();
  readonly failed: Promise<Error>;
  readonly #dir: DataDir;
  readonly #order: StackOrder;
  readonly #lock: OwnerLock;
  readonly #fail: (error: Error) => void;
  #state: StackState;
  #supervisor: Supervisor | undefined;
  #stopped: Promise<void> | undefined;

  private constructor(lock: OwnerLock, dir: DataDir, order: StackOrder, earlier: StackState | undefined) {
    this.#lock = lock;
    this.#dir = dir;
    this.#order = order;
    this.#state = {
      phase: 'starting',
      owner: ownIdentity(),
      // Until they are stopped, the children of an earlier owner stay on record: this one may crash as well.
      children: earlier?.children ?? [],
      endpoints: {},
      ports: earlier?.ports ?? {},
      brokers: order.config.infra.brokers,
    };
    const { promise, resolve } = Promise.withResolvers<Error>();
    this.failed = promise;
    this.#fail = resolve;
  }

  /** Comes back with every server healthy, or throws with none left running. */
  static async start(lock: OwnerLock, dir: DataDir, order: StackOrder): Promise<EmbeddedStack> {
    const earlier = readStackState(dir.state);
    const stack = new EmbeddedStack(lock, dir, order, earlier);
    try {
      await stack.#start(earlier);
      return stack;
    } catch (error) {
      await stack.stop();
      if (!order.signal?.aborted) throw error;
      throw new OperatorError('The start was interrupted', {
        remedy: 'Start again with: npm start',
        exitCode: 130,
      });
    }
  }

  get endpoints(): EmbeddedEndpoints {
    return this.#state.endpoints;
  }

  /** Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #start(earlier: StackState | undefined): Promise<void> {
    this.#save({});
    await stopStaleChildren(earlier, this.#order.log);
    const ports = await chooseFreePorts(portNames(this.#order), this.#state.ports);
    this.#save({ ports, children: [] });
    this.#supervisor = await Supervisor.open({
      log: this.#order.log,
      cwd: this.#dir.root,
      env: serverEnvironment(this.#order.env, this.#dir),
      onChange: (children) => this.#save({ children: [...children] }),
    });
    const endpoints = await this.#startServers(this.#supervisor);
    this.#save({ phase: 'ready', endpoints });
  }

  #startServers(supervisor: Supervisor): Promise<EmbeddedEndpoints> {
    const { signal: calledOff } = this.#order;
    const failure = new AbortController();
    const signal = calledOff ? AbortSignal.any([calledOff, failure.signal]) : failure.signal;
    return startServers({
      ...this.#order,
      dir: this.#dir,
      ports: this.#state.ports,
      supervisor,
      signal,
      callOff: (reason) => failure.abort(reason),
      run: (spec) => this.#serverFrom(spec, supervisor).start(signal),
    });
  }

  #serverFrom(spec: ServerSpec, supervisor: Supervisor): ManagedServer {
    const server = new ManagedServer(spec, {
      supervisor,
      startTimeoutMs: this.#order.config.infra.startTimeoutMs,
      onUnexpectedExit: (error) => this.#fail(error),
    });
    this.servers.set(server.name, server);
    return server;
  }

  async #stop(): Promise<void> {
    this.#save({ phase: 'stopped' });
    try {
      for (const pattern of stopOrder) {
        const servers = [...this.servers.values()].filter((server) => pattern.test(server.name));
        await Promise.all(servers.map((server) => server.stop()));
      }
      await this.#supervisor?.close();
    } finally {
      this.#lock.release();
    }
  }

  #save(change: Partial<StackState>): void {
    this.#state = { ...this.#state, ...change };
    writeStackState(this.#dir.state, this.#state);
  }
}

/** Settings of the user's shell that are meant for other programs, such as PGDATA, must not reach the servers. */
const serverEnvironment = (env: NodeJS.ProcessEnv, dir: DataDir): NodeJS.ProcessEnv => {
  const passed = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];
  const entries = passed.map((name) => [name, env[name]]).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(entries), MILLRACE_STACK: dir.root };
};
