// How the server is: one sentence, figures that change every second, and plots of the last hour, day or week.

import { $, h } from './dom.js';
import { call } from './api.js';
import { listen } from './live.js';
import { Plot } from './plots.js';
import * as f from './format.js';

const MOST_POINTS = 1200; // seconds that came since the history was asked for; then it is asked again
const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];
const POWERS = Array.from({ length: 45 }, (_, i) => 2 ** i);

let range = 'hour';
let paused = false;
let points = [];
let plots = [];
let asked = 0; // counts requests of the history: only the last one's answer is shown

const clocks = {
  hour: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }),
  day: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  week: new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
};
const time = (t) => clocks[range].format(t * 1000);
const seconds = (s) => s == null ? f.NONE : f.micros(s * 1e6);
const micros = (key) => (p) => p[key] == null ? null : p[key] * 1e6;

const COLORS = [['served'], ['achieved', [7, 4]], ['ceiling', [2, 3]], ['memory', [9, 3, 2, 3]], ['shed', [14, 5]], ['q50', [4, 2]], ['q90', [5, 5]], ['qmax', [1, 2]]];

function specs(services) {
  const shared = { time, incrs: STEPS, all: 'Whole range' };
  return [
    { id: 'requests', title: 'Requests a second', value: f.rate, axis: f.short, series: [
      { name: 'All', color: 'achieved', get: (p) => p.requests, width: 2 },
      { name: 'Rejected', color: 'shed', dash: [2, 3], get: (p) => p.rejected },
      { name: 'Errors', color: 'errors', dash: [9, 3, 2, 3], get: (p) => p.errors },
    ] },
    { id: 'latency', title: 'Latency', value: f.micros, axis: f.micros, log: true, series: [
      { name: 'p50', color: 'q50', get: micros('p50') },
      { name: 'p90', color: 'q90', dash: [7, 4], get: micros('p90') },
      { name: 'p99', color: 'q99', dash: [2, 3], get: micros('p99'), width: 2 },
    ] },
    { id: 'services', title: 'Requests a second by service', value: f.rate, axis: f.short, empty: 'No service has answered yet.',
      series: services.map((name, i) => ({ name, color: COLORS[i % COLORS.length][0], dash: COLORS[i % COLORS.length][1], get: (p) => p.services[name]?.requests })) },
    { id: 'pressure', title: 'Overload', value: f.percent, axis: f.percent, least: 0.1, series: [
      { name: 'Pressure', color: 'busy', get: (p) => p.pressure },
      { name: 'Rejected', color: 'errors', dash: [7, 4], get: (p) => p.probability, width: 2 },
    ] },
    { id: 'cpu', title: 'Processors and memory', value: f.cpus, axis: f.short, least: 0.1, series: [
      { name: 'CPU', color: 'cpu', get: (p) => p.cpu, width: 2 },
      { name: 'Memory', color: 'memory', dash: [7, 4], get: (p) => p.memory, scale: 'y2', value: f.bytes, steps: POWERS },
      { name: 'Heap', color: 'qmax', dash: [2, 3], get: (p) => p.heap, scale: 'y2', value: f.bytes },
    ] },
    { id: 'counts', title: 'Connections, goroutines, sync lag', value: f.count, axis: f.short, series: [
      { name: 'Connections', color: 'achieved', get: (p) => p.connections },
      { name: 'Goroutines', color: 'served', dash: [7, 4], get: (p) => p.goroutines },
      { name: 'Sync lag', color: 'busy', dash: [2, 3], get: (p) => p.sync_lag, scale: 'y2', value: seconds },
    ] },
  ].map((spec) => ({ ...spec, ...shared }));
}

// The history.

// rows makes points of columns.
function rows(past) {
  const names = Object.entries(past.services);
  return past.time.map((t, i) => {
    const p = { t, services: {} };
    for (const [name, column] of Object.entries(past.columns)) p[name] = column[i];
    for (const [name, columns] of names) p.services[name] = { requests: columns.requests[i] };
    return p;
  });
}

async function load() {
  const mine = ++asked;
  const wanted = range;
  $('history-state').textContent = points.length === 0 ? 'Loading the history' : '';
  try {
    const past = await call('GET', `/admin/history?range=${wanted}&points=${innerWidth < 700 ? 240 : 360}`);
    if (mine !== asked) return;
    const newer = wanted === 'hour' ? points.filter((p) => p.live && p.t > (past.time.at(-1) ?? 0)) : [];
    points = rows(past).concat(newer);
    $('history-state').textContent = points.length === 0 ? 'Nothing is known yet of this range. It begins to fill as the server runs.' : '';
    draw();
  } catch (problem) {
    if (mine !== asked) return;
    $('history-state').replaceChildren(h('span', { class: 'wrong' }, 'The history cannot be had: ' + problem.message + ' '),
      h('button', { type: 'button', onclick: load }, 'Try again'));
  }
}

function add(now) {
  const p = { t: now.time, live: true, ...now.figures, services: Object.fromEntries(now.services.map((s) => [s.name, s])) };
  if (range !== 'hour') {
    if (now.time % 60 === 0) load();
    return;
  }
  if (points.length > 0 && p.t <= points.at(-1).t) return;
  points.push(p);
  while (points.length > 0 && points[0].t < p.t - 3600) points.shift();
  if (points.filter((one) => one.live).length > MOST_POINTS) {
    points = points.filter((one) => !one.live);
    load();
    return;
  }
  $('history-state').textContent = '';
  draw();
}

let names = '';
function draw() {
  if (paused || document.hidden || points.length === 0) return;
  const services = [...new Set(points.flatMap((p) => Object.keys(p.services)))];
  if (services.join() !== names) {
    names = services.join();
    for (const p of plots) p.close();
    plots = [];
  }
  if (plots.length === 0) plots = specs(services).map((spec) => new Plot($('plots'), spec));
  for (const p of plots) p.draw(points);
}

// What is now.

const TILES = [
  ['Requests', (o) => f.rate(o.figures.requests)],
  ['p50', (o) => seconds(o.figures.p50)],
  ['p99', (o) => seconds(o.figures.p99)],
  ['Errors', (o) => f.rate(o.figures.errors), (o) => o.figures.errors > 0],
  ['Rejected', (o) => f.percent(o.figures.probability), (o) => o.figures.probability > 0],
  ['CPU', (o) => o.figures.cpu == null ? f.NONE : `${o.figures.cpu.toFixed(2)} of ${o.processors}`, (o) => o.figures.cpu > 0.95 * o.processors],
  ['Memory', (o) => f.bytes(o.figures.memory), (o) => o.cgroup_limit != null && o.figures.memory > 0.95 * o.cgroup_limit],
  ['Connections', (o) => f.count(o.figures.connections)],
];
const tiles = TILES.map(([name]) => {
  const value = h('dd', {}, f.NONE);
  const tile = h('div', { class: 'tile' }, h('dt', {}, name), value);
  $('tiles').append(tile);
  return { tile, value };
});

function long(s) {
  const d = Math.floor(s / 86400);
  return d > 0 ? `${d} d ${Math.floor(s % 86400 / 3600)} h` : f.seconds(s);
}

const table = (cls, head, body, caption) => h('table', { class: 'figures ' + cls }, h('caption', { class: 'unseen' }, caption),
  head && h('thead', {}, h('tr', {}, head.map((text) => h('th', { scope: 'col' }, text)))), h('tbody', {}, body));

function show(o) {
  $('sentence').textContent = o.sentence[0].toUpperCase() + o.sentence.slice(1);
  $('sentence').parentElement.dataset.state = o.state;
  $('since').textContent = `weir ${o.version}, up for ${long(o.uptime_seconds)}`;
  $('retry').hidden = true;
  TILES.forEach(([, text, warn], i) => {
    tiles[i].value.textContent = text(o);
    tiles[i].tile.classList.toggle('warn', Boolean(warn?.(o)));
  });
  services(o);
  pressure(o);
  box(o);
  data(o);
}

function services(o) {
  const body = o.services.map((s) => h('tr', {}, h('th', { scope: 'row' }, s.name), h('td', { class: s.state }, s.state),
    h('td', {}, f.rate(s.requests)), h('td', {}, f.rate(s.client_errors)), h('td', {}, f.rate(s.errors)), h('td', {}, seconds(s.p50)), h('td', {}, seconds(s.p99))));
  const why = o.services.filter((s) => s.reason).map((s) => h('p', { class: 'why' }, `${s.name}: ${s.reason}`));
  $('services').replaceChildren(table('services', ['Service', 'State', 'Requests', '4xx', '5xx', 'p50', 'p99'], body, 'What each service does now'), ...why);
}

const UNITS = { bytes: f.bytes, seconds, share: f.percent, number: f.short };
function pressure(o) {
  if (!o.shed) {
    $('pressure').replaceChildren(h('p', { class: 'muted' }, 'Nothing is ever rejected: the server runs with --shed=false.'));
    return;
  }
  const body = o.shed.signals.map((s) => {
    const worst = s.on && s.pressure > 0 && s.name === o.shed.dominant ? 'worst' : null;
    const bar = h('span', {});
    bar.style.width = `${Math.min(1, s.pressure) * 100}%`;
    const unit = UNITS[s.unit] ?? f.short;
    return h('tr', {}, h('th', { scope: 'row', class: worst }, s.name.replaceAll('_', ' ')), h('td', { class: worst }, s.on ? unit(s.value) : 'off'),
      h('td', {}, s.on ? `${unit(s.soft)} to ${unit(s.hard)}` : ''), h('td', { class: worst }, s.on ? [h('div', { class: 'gauge', 'aria-hidden': 'true' }, bar), f.percent(s.pressure)] : ''));
  });
  $('pressure').replaceChildren(table('signals', ['Signal', 'Now', 'Soft to hard', 'Pressure'], body, 'What may have requests rejected'));
}

function facts(list, caption) {
  return table('facts', null, list.map(([name, value]) => h('tr', {}, h('th', { scope: 'row' }, name), h('td', {}, value))), caption);
}

const of = (value, limit, show) => limit == null ? show(value) : `${show(value)} of ${show(limit)}`;

function box(o) {
  $('box').replaceChildren(facts([
    ['Memory of the process', of(o.figures.memory, o.cgroup_limit, f.bytes)],
    ['Go heap, of GOMEMLIMIT', of(o.figures.heap, o.memory_limit, f.bytes)],
    ['Garbage collections', `${f.count(o.gc_cycles)}, ${f.percent(o.figures.gc)} paused`],
    ['Goroutines', f.count(o.figures.goroutines)],
    ['Descriptors', of(o.figures.descriptors, o.descriptors_limit, f.count)],
    ['Age of what is not synced', seconds(o.figures.sync_lag)],
  ], 'The process and its limits'));
}

function data(o) {
  const list = [...o.generations.map((g) => [`Generation of ${g.name}`, f.count(g.number)]), ...o.sizes.map((s) => [s.name, f.bytes(s.bytes)])];
  $('data').replaceChildren(list.length === 0 ? h('p', { class: 'muted' }, 'No service has data yet.') : facts(list, 'Data of the services'));
}

// What happens.

async function first() {
  try {
    show(await call('GET', '/admin/overview'));
  } catch (problem) {
    $('sentence').textContent = problem.message;
    $('sentence').parentElement.dataset.state = 'bad';
    $('retry').hidden = false;
  }
}

for (const input of document.querySelectorAll('[name="range"]')) {
  input.addEventListener('change', () => {
    range = input.value;
    points = [];
    for (const p of plots) p.zoom(null);
    load();
  });
}
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  $('pause').textContent = paused ? 'Go on' : 'Pause';
  draw();
});
$('retry').addEventListener('click', first);
document.addEventListener('visibilitychange', draw);

first();
load();
listen('second', (o) => { add(o); if (!paused) show(o); });
listen('snapshot', () => load());
