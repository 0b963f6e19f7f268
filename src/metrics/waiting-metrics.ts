import { Gauge } from 'prom-client';
import type { WaitingRoomObserver } from '../consistency/waiting-room.ts';
import type { MetricRegistry } from './metric-registry.ts';

export const measureWaiting = ({ register }: MetricRegistry): WaitingRoomObserver => {
  const waiting = new Gauge({
    name: 'millrace_queries_waiting',
    help: 'Queries that wait for the events of their Consistency-Token',
    registers: [register],
  });
  return { waitersChanged: (count) => waiting.set(count) };
};
