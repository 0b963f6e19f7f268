import { connect } from 'node:net';
import { expect } from 'chai';
import type { FastifyInstance } from 'fastify';
import { listen } from '../../src/http/listen.ts';
import { buildServer } from '../../src/http/server.ts';
import { eventually } from '../support/eventually.ts';
import { silentLog } from '../support/silent-log.ts';

/** What only shows on a real connection: bytes that are no request, and a server that is stopping. */
describe('HTTP on the socket', () => {
  let server: FastifyInstance;
  let port: number;
  let slowCheck: () => Promise<void>;
  beforeEach(async () => {
    slowCheck = async () => {};
    server = buildServer({
      log: silentLog(),
      bodyBytesMax: 1024,
      requestTimeoutMs: 1000,
      newRequestId: () => 'request-1',
      healthChecks: { slow: () => slowCheck() },
      scrape: async () => ({ contentType: 'text/plain', text: '' }),
      observer: { answered: () => {} },
    });
    port = Number(new URL(await listen(server, { host: '127.0.0.1', port: 0 })).port);
  });
  afterEach(() => server.close());

  /** A connection that sends what it is told, and everything that came back by its end. */
  const openConnection = () => {
    const socket = connect(port, '127.0.0.1');
    const received = new Promise<string>((resolve, reject) => {
      let text = '';
      socket.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      socket.on('error', reject).on('close', () => resolve(text));
    });
    return { send: (text: string) => void socket.write(text), received };
  };
  const talk = (text: string): Promise<string> => {
    const { send, received } = openConnection();
    send(text);
    return received;
  };
  const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

  const expectProblem = (response: string, status: number, name: string): void => {
    const [head = '', body = ''] = response.split('\r\n\r\n');
    expect(head).to.match(new RegExp(`^HTTP/1.1 ${status} [A-Z]`));
    expect(head)
      .to.match(/content-type: application\/problem\+json/i)
      .and.match(/x-request-id: request-1/i);
    expect(JSON.parse(body)).to.include({ type: `urn:millrace:problem:${name}`, status });
  };

  it('answers what is no HTTP with a problem', async () => {
    expectProblem(await talk('hello\r\n\r\n'), 400, 'malformed-http');
  });

  it('answers headers without end with a problem', async () => {
    const response = await talk(`GET /livez HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`);
    expectProblem(response, 431, 'headers-too-large');
  });

  it('does not wait for ever for a request that never comes', async function () {
    this.timeout(60_000);
    expectProblem(await talk('GET /livez HTTP/1.1\r\nHost: a\r\n'), 408, 'request-timeout');
  });

  const slowly = () => {
    let finish = (): void => {};
    const started = new Promise<void>((resolve) => {
      slowCheck = () => {
        resolve();
        return new Promise((done) => {
          finish = done;
        });
      };
    });
    return { started, finish: () => finish() };
  };

  const beginToStop = async (): Promise<{ stopped: Promise<unknown> }> => {
    const stopped = server.close();
    await eventually(async () => expect(server.server.listening).to.equal(false));
    return { stopped };
  };

  it('finishes what it has begun when it stops, and then hangs up', async () => {
    const { started, finish } = slowly();
    const response = talk(request('/readyz'));
    await started;
    const { stopped } = await beginToStop();
    finish();
    expect(await response)
      .to.match(/^HTTP\/1.1 200 /)
      .and.match(/connection: close/i);
    await stopped;
  });

  it('answers a request that is complete only after the stop began with 503', async () => {
    const { started, finish } = slowly();
    const begun = talk(request('/readyz'));
    const { send, received } = openConnection();
    send('GET /livez HTTP/1.1\r\nHost: a\r\n');
    await started;
    const { stopped } = await beginToStop();
    send('\r\n');
    const response = await received;
    expectProblem(response, 503, 'shutting-down');
    expect(response)
      .to.match(/retry-after: 1/i)
      .and.match(/connection: close/i);
    finish();
    expect(await begun).to.match(/^HTTP\/1.1 200 /);
    await stopped;
  });
});
