import { expect } from 'chai';
import { eventually } from '../support/eventually.ts';
import { startTestApp } from '../support/running-app.ts';
import { useWorkspace } from '../support/stack.ts';

const figuresOf = async (url: string): Promise<ReadonlyMap<string, number>> => {
  const answer = await fetch(`${url}/metrics`);
  expect(answer.status).to.equal(200);
  const lines = (await answer.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
};

describe('metrics of running processes', function () {
  this.timeout(180_000);
  const workspace = useWorkspace({ METRICS_OUTBOX_INTERVAL_MS: '0' });

  it('tell what waits, what was published and how long it took, whoever is asked', async () => {
    const api = await startTestApp(workspace(), 'api');
    const { body } = await api.client.post('/v1/products', {
      name: 'Mill',
      priceMinor: 1,
      currency: 'EUR',
      stock: 1,
    });
    for (let turn = 0; turn < 4; turn++) await api.client.post(`/v1/products/${body.productId}/views`);
    const waiting = await figuresOf(api.url);
    expect(waiting.get('millrace_outbox_readable')).to.equal(1);
    expect(waiting.get('millrace_outbox_pending_events')).to.equal(5);
    expect(waiting.get('millrace_outbox_overdue_events')).to.equal(0);
    expect(waiting.get('millrace_outbox_oldest_pending_age_seconds')).to.be.greaterThan(0);
    const views =
      'millrace_http_request_duration_seconds_count{method="POST",route="/v1/products/:productId/views",status="201"}';
    expect(waiting.get(views)).to.equal(4);
    expect(waiting.get('millrace_relay_paused')).to.equal(0);
    expect([...waiting.keys()].some((name) => name.startsWith('millrace_relay_page'))).to.equal(false);

    const relay = await startTestApp(workspace(), 'relay');
    await eventually(async () => {
      expect((await figuresOf(api.url)).get('millrace_outbox_pending_events')).to.equal(0);
    });
    const after = await figuresOf(relay.url);
    const topic = workspace().unique('product-view-events');
    expect(after.get(`millrace_relay_published_events_total{topic="${topic}"}`)).to.equal(4);
    expect(after.get('millrace_relay_commit_to_publish_seconds_count')).to.equal(5);
    expect(after.get('millrace_relay_lease_held{lease="outbox-relay-main"}')).to.equal(1);
    expect(after.get('millrace_relay_circuit_state{state="closed"}')).to.equal(1);
    expect(after.get('millrace_relay_failed_events_total')).to.equal(0);
    expect(after.get('millrace_outbox_oldest_pending_age_seconds')).to.equal(0);
  });
});
