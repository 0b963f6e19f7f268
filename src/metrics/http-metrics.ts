import { Histogram } from 'prom-client';
import type { HttpObserver } from '../http/observe-requests.ts';
import type { MetricRegistry } from './metric-registry.ts';

const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export const measureHttp = ({ register }: MetricRegistry): HttpObserver => {
  const requests = new Histogram({
    name: 'millrace_http_request_duration_seconds',
    help: 'Requests by method, route and status, from their first byte to the end of the answer',
    labelNames: ['method', 'route', 'status'],
    buckets: durationBuckets,
    registers: [register],
  });
  return {
    answered: ({ method, route, status, durationMs }) =>
      requests.observe({ method, route, status }, durationMs / 1000),
  };
};
