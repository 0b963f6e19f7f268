import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { IncompatibleSchema } from '../../../src/registry/incompatible-schema.ts';
import { connectSchemaRegistry } from '../../../src/registry/schema-registry.ts';

const schema = JSON.stringify({ type: 'record', name: 'Spec', fields: [{ name: 'a', type: 'string' }] });

describe('schema registry that does not take a schema', () => {
  let server: Server;
  /** How it answers when it is to register one. */
  let register: (response: ServerResponse) => void;
  let registrations = 0;

  before(async () => {
    server = createServer((request, response) => {
      const json = (status: number, body: unknown) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      if (request.url?.startsWith('/config/')) return void json(200, { compatibilityLevel: 'FULL' });
      if (request.method === 'GET') return void json(200, []);
      registrations++;
      register(response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });

  after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });

  const failureOfRegistering = async (): Promise<unknown> => {
    const { port } = server.address() as AddressInfo;
    const registry = connectSchemaRegistry({
      url: `http://127.0.0.1:${port}`,
      requestTimeoutMs: 200,
      compatibility: 'FULL',
    });
    return registry.idOf('spec', schema).catch((error: unknown) => error);
  };
  const answerWith = (status: number) => (response: ServerResponse) => {
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ error_code: status, message: `because of ${status}` }));
  };

  for (const status of [409, 422]) {
    it(`refuses it with ${status}, and that is told with the registry's reason`, async () => {
      register = answerWith(status);
      const error = await failureOfRegistering();
      expect(error).to.be.instanceOf(IncompatibleSchema);
      expect((error as Error).message)
        .to.contain('schema of spec')
        .and.contain(`because of ${status}`);
    });
  }

  it('is in trouble with 500, which is not the fault of the schema', async () => {
    register = answerWith(500);
    expect(await failureOfRegistering())
      .to.be.instanceOf(Error)
      .and.not.instanceOf(IncompatibleSchema);
  });

  it('is in trouble when it does not answer, and nobody waits for it for long', async () => {
    register = () => {};
    const before = registrations;
    const error = await failureOfRegistering();
    expect(registrations).to.equal(before + 1);
    expect(error).to.be.instanceOf(Error).and.not.instanceOf(IncompatibleSchema);
    expect((error as Error).message).to.equal('The registry did not answer within 200 ms');
  });
});
