// What the plots of a run show.

import * as f from './format.js';

const POWERS = Array.from({ length: 45 }, (_, i) => 2 ** i); // steps of an axis of bytes

export const RUN_PLOTS = [
  { id: 'rate', title: 'Requests a second', value: f.rate, axis: f.short, phases: true, series: [
    { name: 'Intended', color: 'intended', dash: [7, 4], get: (p) => p.intended },
    { name: 'Achieved', color: 'achieved', get: (p) => p.achieved, width: 1.25 },
    { name: 'Served', color: 'served', get: (p) => p.served, width: 2.25 },
    { name: 'Shed', color: 'shed', dash: [2, 3], get: (p) => p.shed },
    { name: 'Errors', color: 'errors', dash: [9, 3, 2, 3], get: (p) => p.errors },
    { name: 'Ceiling', color: 'ceiling', dash: [14, 5], get: (p) => p.ceiling, width: 2, optional: true, exact: true },
  ] },
  { id: 'latency', title: 'Latency', value: f.micros, axis: f.micros, log: true, series: [
    { name: 'p50', color: 'q50', get: (p) => p.p50 },
    { name: 'p90', color: 'q90', dash: [7, 4], get: (p) => p.p90 },
    { name: 'p99', color: 'q99', get: (p) => p.p99, width: 2.25 },
    { name: 'max', color: 'qmax', dash: [2, 3], get: (p) => p.max },
  ] },
  { id: 'target', title: 'The target', value: f.cpus, axis: f.short, empty: 'Give the plan the URL of the target\u2019s metrics to see its CPU and memory.', series: [
    { name: 'CPU', color: 'cpu', get: (p) => p.target_cpu, width: 2 },
    { name: 'Memory', color: 'memory', dash: [7, 4], get: (p) => p.target_memory, scale: 'y2', value: f.bytes, steps: POWERS },
  ] },
  { id: 'generator', title: 'Connections and the generator', value: f.count, axis: f.short, series: [
    { name: 'Connections', color: 'achieved', get: (p) => p.connections },
    { name: 'In flight', color: 'served', dash: [7, 4], get: (p) => p.in_flight },
    { name: 'Generator busy', color: 'busy', dash: [2, 3], get: (p) => p.busy, scale: 'y2', value: f.percent, range: [0, 1] },
  ] },
];
