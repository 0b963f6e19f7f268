import { expect } from 'chai';
import fc from 'fast-check';
import { createDocumentCheck, problemMediaType, type Seen } from '../../support/openapi-document.ts';
import {
  createConformanceCheck,
  type FuzzRequest,
  mutatedRequest,
  operationsOf,
  validRequest,
} from '../../support/openapi-fuzz.ts';
import { keys, startTestApi, type TestApi } from './api-server.ts';

const options = { authorization: `Bearer ${keys.operator}` };
const operationIds = [
  'registerProduct',
  'adjustStock',
  'recordProductView',
  'getProduct',
  'getProductStatistic',
  'listProducts',
  'getTrends',
  'getRisingProducts',
  'likeProduct',
  'unlikeProduct',
  'placeOrder',
  'cancelOrder',
  'createPayment',
  'getOrder',
  'getOrderEvents',
  'getOrderReceipt',
  'listOrders',
  'listAbandonedOrders',
  'listStockOutages',
  'followEvents',
  'confirmPayment',
  'failPayment',
  'listFailedEvents',
  'listDeadEvents',
  'getOutboxEvent',
  'retryEvents',
  'dropEvent',
  'getRelayStatus',
  'pauseRelay',
  'resumeRelay',
  'resyncRelay',
  'reshardRelay',
  'listGhostEvents',
  'dismissGhostEvents',
  'returnRelayToWal',
  'listProjections',
  'pauseProjection',
  'resumeProjection',
  'listDeadLetters',
  'countDeadLetters',
  'getDeadLetter',
  'replayDeadLetters',
  'skipVersion',
  'dropDeadLetters',
];

/** 304 to who happens to have the answer already. */
const goodStatuses = [200, 201, 304];

/** Requests made from the document, against a server that would do whatever it is asked. */
describe('the API under fuzz from its own document', function () {
  this.timeout(120_000);
  let api: TestApi;
  let expectDocumented: (seen: Seen) => void;
  before(async () => {
    api = await startTestApi();
    expectDocumented = createDocumentCheck(api.document);
  });
  after(() => api.close());

  const send = async ({ method, url, headers, body }: FuzzRequest): Promise<Seen> => {
    const response = await api.server.inject({
      method: method as 'POST',
      url,
      headers,
      ...(body && { payload: body }),
    });
    const { statusCode } = response;
    return { method, url, statusCode, headers: response.headers, body: response.body };
  };
  const operation = (id: string) =>
    operationsOf(api.document).find(({ operationId }) => operationId === id) ?? expect.fail(`no ${id}`);

  it('covers every operation that asks for credentials', () => {
    const documented = operationsOf(api.document).filter(({ security }) => security.length > 0);
    expect(documented.map(({ operationId }) => operationId).toSorted()).to.deep.equal(
      operationIds.toSorted(),
    );
  });

  for (const id of operationIds) {
    it(`${id} takes everything that the document calls right`, async () => {
      await fc.assert(
        fc.asyncProperty(validRequest(operation(id), options), async (request) => {
          const seen = await send(request);
          expectDocumented(seen);
          expect(seen.statusCode, seen.body).to.be.oneOf(goodStatuses);
        }),
        { numRuns: 60 },
      );
    });

    it(`${id} refuses everything else with a problem, and never breaks`, async () => {
      const conforms = createConformanceCheck(api.document, options);
      await fc.assert(
        fc.asyncProperty(mutatedRequest(operation(id), options), async (request) => {
          const seen = await send(request);
          expect(seen.statusCode, seen.body).to.be.below(500);
          expectDocumented(seen);
          if (conforms(request)) {
            expect(seen.statusCode, seen.body).to.be.oneOf(goodStatuses);
          } else {
            expect(seen.statusCode).to.be.at.least(400);
            const [mediaType] = String(seen.headers['content-type']).split(';');
            expect(mediaType).to.equal(problemMediaType);
          }
        }),
        { numRuns: 250 },
      );
    });
  }
});
