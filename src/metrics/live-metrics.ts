import { Counter, Gauge } from 'prom-client';
import type { LiveObserver } from '../live/live-updates.ts';
import type { MetricRegistry } from './metric-registry.ts';

export const measureLive = ({ register }: MetricRegistry): LiveObserver => {
  const registers = [register];
  const clients = new Gauge({
    name: 'millrace_live_clients',
    help: 'Streams of events that are open',
    registers,
  });
  const messages = new Counter({
    name: 'millrace_live_messages_total',
    help: 'Changes told, once however many clients hear them',
    labelNames: ['kind'],
    registers,
  });
  const joined = new Counter({
    name: 'millrace_live_joined_total',
    help: 'Clients that came, by whether they could go on where they had been',
    labelNames: ['how'],
    registers,
  });
  const ended = new Counter({
    name: 'millrace_live_ended_total',
    help: 'Clients that are gone, by the reason',
    labelNames: ['reason'],
    registers,
  });
  return {
    clients: (count) => clients.set(count),
    told: (kind, count) => messages.inc({ kind }, count),
    joined: (how) => joined.inc({ how }),
    ended: (reason) => ended.inc({ reason }),
  };
};
