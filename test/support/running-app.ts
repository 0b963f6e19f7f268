import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type App, accessFor, type Role, startApp } from '../../src/app/start-app.ts';
import type { Config } from '../../src/config/settings.ts';
import { silentLog } from './silent-log.ts';
import { operatorKey, type Workspace } from './stack.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export interface Client {
  readonly url: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** A command, with an idempotency key of its own unless the headers bring one. */
  send(
    method: 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
}

/** A client as any other: JSON over HTTP, with a key. */
export const clientOf = (url: string, key: string = operatorKey): Client => {
  const call = async (path: string, init: RequestInit): Promise<Answer> => {
    const response = await fetch(`${url}${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, ...(init.headers as Record<string, string>) },
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
    };
  };
  const send: Client['send'] = (method, path, body, headers = {}) =>
    call(path, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      headers: {
        'idempotency-key': randomUUID(),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    });
  return {
    url,
    get: (path, headers = {}) => call(path, { headers }),
    send,
    post: (path, body, headers) => send('POST', path, body, headers),
  };
};

/** The app in this process, stopped with the workspace at the latest. */
export const startTestApp = async (
  workspace: Workspace,
  role: Role = 'all',
  { streams = {}, log = silentLog() }: { streams?: Partial<Config['streams']>; log?: Logger } = {},
): Promise<App & { client: Client }> => {
  const { endpoints } = workspace;
  const config = { ...workspace.config, streams: { ...workspace.config.streams, ...streams } };
  const access = await accessFor(config, role);
  const app = await startApp({ config, endpoints, role, access, log });
  workspace.closeAtEnd(() => app.stop());
  return { ...app, client: clientOf(app.url) };
};
