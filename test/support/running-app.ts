import { type App, type Role, startApp } from '../../src/app/start-app.ts';
import { silentLog } from './silent-log.ts';
import type { Workspace } from './stack.ts';

export interface Client {
  readonly url: string;
  post(path: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> }>;
  get(path: string): Promise<{ status: number; body: Record<string, unknown> }>;
}

/** A client as any other: JSON over HTTP. */
export const clientOf = (url: string): Client => {
  const call = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${url}${path}`, init);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return {
    url,
    get: (path) => call(path),
    post: (path, body) =>
      call(path, {
        method: 'POST',
        ...(body !== undefined && {
          body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' },
        }),
      }),
  };
};

/** The app in this process, stopped with the workspace at the latest. */
export const startTestApp = async (
  workspace: Workspace,
  role: Role = 'all',
): Promise<App & { client: Client }> => {
  const { config, endpoints } = workspace;
  const app = await startApp({ config, endpoints, role, log: silentLog() });
  workspace.closeAtEnd(() => app.stop());
  return { ...app, client: clientOf(app.url) };
};
