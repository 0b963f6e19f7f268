import { readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge } from 'prom-client';
import type { MetricRegistry } from './metric-registry.ts';

/**
 * The process itself, under the names that dashboards know. Not the library's own set: its timer for the delay of the event
 * loop wakes an idle process a hundred times a second, and its observer of garbage collections cannot be taken away again.
 */
export const measureProcess = ({ register, onScrape }: MetricRegistry): void => {
  const registers = [register];
  const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers });
  const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });

  const cpu = counter('process_cpu_seconds_total', 'Processor time spent by this process');
  const startTime = gauge('process_start_time_seconds', 'When this process started, since the epoch');
  const resident = gauge('process_resident_memory_bytes', 'Memory that this process has in RAM');
  const openFds = gauge('process_open_fds', 'Files and sockets that are open; not told on every platform');
  const heapUsed = gauge('nodejs_heap_size_used_bytes', 'Heap of JavaScript in use');
  const heapTotal = gauge('nodejs_heap_size_total_bytes', 'Heap of JavaScript reserved');
  const external = gauge('nodejs_external_memory_bytes', 'Buffers and other memory outside of that heap');
  const loopActive = counter('nodejs_eventloop_active_seconds_total', 'Time the event loop had work to do');
  const loopIdle = counter('nodejs_eventloop_idle_seconds_total', 'Time the event loop waited for work');

  startTime.set(performance.timeOrigin / 1000);
  onScrape(() => {
    const { user, system } = process.cpuUsage();
    cpu.reset();
    cpu.inc((user + system) / 1e6);
    const memory = process.memoryUsage();
    resident.set(memory.rss);
    heapUsed.set(memory.heapUsed);
    heapTotal.set(memory.heapTotal);
    external.set(memory.external);
    const { active, idle } = performance.eventLoopUtilization();
    loopActive.reset();
    loopActive.inc(active / 1000);
    loopIdle.reset();
    loopIdle.inc(idle / 1000);
    const open = countOpenFiles();
    if (open === undefined) openFds.remove();
    else openFds.set(open);
  });
};

const countOpenFiles = (): number | undefined => {
  try {
    // The list itself is open while it is read.
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return undefined;
  }
};
