import { $, h, announce, sure } from './dom.js';
import { call } from './api.js';
import { listen } from './live.js';
import { section, every, tiles } from './section.js';
import { Plot } from './plots.js';
import * as f from './format.js';

const AT_ONCE = 25; // arms of a page
const MOST = 6; // curves
const COLORS = ['achieved', 'served', 'shed', 'errors', 'ceiling', 'memory'];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 5], [4, 4]];

const chance = (v) => v == null ? f.NONE : (100 * v).toPrecision(3).replace(/\.?0+$/, '') + '\u00a0%';
const pulls = (v) => v == null ? f.NONE : f.short(v);

// What it knows, and how fast it learns.

const rates = new Plot($('bandit-rates'), {
  id: 'bandit-rates', title: 'Events and scores a second', value: f.rate, axis: f.short, all: 'All', group: 'rates',
  time: (t) => new Date(t * 1000).toTimeString().slice(0, 8), empty: 'Nothing is asked of the bandit.', series: [
    { name: 'Events', color: 'served', get: (p) => p.events, width: 2 },
    { name: 'Refused', color: 'errors', dash: [2, 3], get: (p) => p.rejected },
    { name: 'Scores', color: 'achieved', dash: [7, 4], get: (p) => p.scores, scale: 'y2', value: f.rate },
  ],
});
const points = []; // of five minutes, the first before anybody asked
for (let i = 300; i > 0; i--) points.push({ t: Date.now() / 1000 - i });
let before = null;

function drawNow(s) {
  const i = s.imported;
  tiles($('bandit-state'), [
    ['Imported arms', s.loading ? 'loading' : i ? f.count(i.arms) : 'none'], ['Learned: items', f.count(s.learned.item)],
    ['For segments', f.count(s.learned.segment)], ['For users', f.count(s.learned.pair)], ['Events', f.count(s.events.accepted)],
    ['Twice', f.count(s.events.duplicates)], ['Refused', f.count(s.events.rejected), s.events.rejected > 0], ['Scores given', f.count(s.scores)],
    ['Prior', s.prior.join(', ')], ['Half-life', s.halfLifeSeconds ? f.seconds(s.halfLifeSeconds) : 'for ever'], ['Not synced for', f.seconds(s.lagSeconds)],
  ]);
  $('bandit-problem').textContent = s.problem ?? '';
  $('bandit-problem').hidden = !s.problem;
  $('bandit-durability').textContent = 'Events: ' + s.durability + '.';
  $('bandit-reload').hidden = !i;
  const t = Date.now() / 1000;
  if (before) {
    const a = (key) => Math.max(0, (key(s) - key(before.s)) / (t - before.t));
    points.push({ t, events: a((x) => x.events.accepted), rejected: a((x) => x.events.rejected), scores: a((x) => x.scores) });
    points.shift();
    rates.draw(points);
  }
  before = { s, t };
  drawStore(s.store);
}

function drawStore(s) {
  const box = $('bandit-store');
  if (!s) {
    box.replaceChildren(h('p', { class: 'muted' }, 'There is none: posteriors come from a file of arms and from events. ', h('code', {}, '--bandit-store'), ' names one.'));
    return;
  }
  const facts = h('dl', { class: 'tiles' });
  const kind = (name, e) => [[`${name} in memory`, f.count(e.cached)], ['From memory', f.percent(e.hits / Math.max(1, e.hits + e.misses))],
    ['Given stale', f.count(e.stale), e.stale > 0], ['Skipped', f.count(e.skipped), e.skipped > 0], ['Fetched', f.count(e.fetched)], ['Unknown there', f.count(e.unknown)]];
  tiles(facts, [['Fetches now', f.count(s.fetches)], ['Fetch, p50', f.micros(s.p50Seconds * 1e6)], ['Fetch, p99', f.micros(s.p99Seconds * 1e6)],
    ...kind('Items', s.items), ...(s.users ? kind('Users', s.users) : []), ...Object.entries(s.errors).map(([name, n]) => ['Failed: ' + name, f.count(n), true])]);
  box.replaceChildren(h('p', { class: s.ready ? 'good' : 'wrong' }, s.ready ? 'The last fetch succeeded.' : 'The last fetch failed: ' + s.reason + '.'), facts);
}

const now = section($('bandit-now'), () => call('GET', '/admin/bandit'), drawNow);
every(1000, now);
listen('snapshot', now);

$('bandit-reload').addEventListener('click', async () => {
  const say = (text, bad) => { $('bandit-reloaded').textContent = text; $('bandit-reloaded').className = bad ? 'wrong' : 'good'; };
  $('bandit-reload').disabled = true;
  try {
    const taken = await call('POST', '/admin/bandit/reload');
    say(`Generation ${taken.generation} serves, ${f.count(taken.arms)} arms.`);
  } catch (problem) { say(problem.message, true); }
  $('bandit-reload').disabled = false;
});

// The list.

const nameOf = (a) => a.item + (a.segment ? ' for the segment ' + a.segment : a.user ? ' for the user ' + a.user : '');
const only = (a) => ({ item: a.item, ...(a.segment ? { segment: a.segment } : {}), ...(a.user ? { user: a.user } : {}) });
const keyOf = (a) => JSON.stringify(only(a));
let offset = 0;

const svg = (name, attributes, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};

// interval draws where a chance is with a probability of 95 %, and its mean, on a scale that all rows share.
function interval(a, lo, hi) {
  const x = (v) => 100 * (v - lo) / (hi - lo) + '%';
  return svg('svg', { class: 'bandit-interval', role: 'img', 'aria-label': `${chance(a.low)} to ${chance(a.high)}` },
    svg('line', { class: 'axis', x1: 0, x2: '100%', y1: '50%', y2: '50%' }),
    svg('line', { class: 'range', x1: x(a.low), x2: x(a.high), y1: '50%', y2: '50%' }),
    svg('circle', { class: 'mean', cx: x(a.mean), cy: '50%', r: 4.5 }));
}

function drawList(page) {
  const { arms } = page;
  $('bandit-count').textContent = page.matched === page.taught ? `${f.count(page.taught)} arms` : `${f.count(page.matched)} of ${f.count(page.taught)} arms`;
  const list = $('bandit-list');
  if (arms.length === 0) {
    list.replaceChildren(h('p', { class: 'panel muted' }, page.taught === 0 ? 'No event has taught of an arm yet. POST /events teaches; imported arms are predicted with, and can be drawn above.'
      : offset > 0 ? 'There are no more.' : 'No arm has that in its name.'));
    if (offset === 0) return;
  } else {
    let lo = Math.min(...arms.map((a) => a.low)), hi = Math.max(...arms.map((a) => a.high));
    if (hi - lo < 1e-9) { lo = Math.max(0, lo - 0.01); hi = Math.min(1, hi + 0.01); }
    const head = ['', 'Item', ['Pulls'], ['Mean'], h('span', { class: 'bandit-ends' }, h('span', {}, chance(lo)), h('span', {}, '95 % interval'), h('span', {}, chance(hi))), ''];
    list.replaceChildren(h('table', { class: 'list bandit-table' },
      h('thead', {}, h('tr', {}, head.map((t, i) => i === 0 || i === 5 ? h('td', {}) : h('th', { scope: 'col', class: Array.isArray(t) ? 'number' : null }, t)))),
      h('tbody', {}, arms.map((a) => {
        const box = h('input', { type: 'checkbox', checked: chosen.has(keyOf(a)), onchange: () => { if (!choose(a, box.checked)) box.checked = false; } });
        box.dataset.arm = keyOf(a);
        box.setAttribute('aria-label', 'Draw ' + nameOf(a));
        return h('tr', {}, h('td', { class: 'choose' }, box),
          h('th', { scope: 'row' }, a.item, a.segment && h('small', {}, 'segment ' + a.segment), a.user && h('small', {}, 'user ' + a.user)),
          h('td', { class: 'number', 'data-label': 'Pulls' }, pulls(a.pulls)), h('td', { class: 'number', 'data-label': 'Mean' }, chance(a.mean)),
          h('td', { class: 'interval', 'data-label': '95 % interval' }, interval(a, lo, hi), h('small', {}, `${chance(a.low)} to ${chance(a.high)}`)),
          h('td', { 'data-label': 'Actions' }, sure('Forget', 'Press again to forget', () => forget(a), { title: 'Forget what events have taught of ' + nameOf(a) })));
      }))));
  }
  const last = offset + arms.length;
  const turn = (label, to, off) => h('button', { type: 'button', disabled: off, onclick: () => { offset = to; ask(); } }, label);
  list.append(h('div', { class: 'actions bandit-pager' }, turn('Back', Math.max(0, offset - AT_ONCE), offset === 0),
    h('span', { class: 'muted' }, arms.length ? `${f.count(offset + 1)} to ${f.count(last)}` + (page.ranked < page.matched ? `; the order goes as far as ${f.count(page.ranked)}, search for others` : '') : ''),
    turn('Further', offset + AT_ONCE, last >= page.ranked)));
}

const ask = section($('bandit-list'), () => {
  const [by, ascending] = $('bandit-by').value.split(',');
  const query = new URLSearchParams({ by, ascending, offset, limit: AT_ONCE, search: $('bandit-search').value.trim(), ...($('bandit-level').value ? { level: $('bandit-level').value } : {}) });
  return call('GET', '/admin/bandit/ranking?' + query);
}, drawList);

let typed = 0;
$('bandit-form').addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(() => { offset = 0; ask(); }, 250); });
$('bandit-form').addEventListener('submit', (e) => { e.preventDefault(); clearTimeout(typed); offset = 0; ask(); });

async function forget(a) {
  try {
    await call('POST', '/admin/bandit/forget', only(a));
    announce(`What events have taught of ${nameOf(a)} is forgotten.`);
    if (chosen.has(keyOf(a))) await load(a);
  } catch (problem) { announce(problem.message); wrong(problem.message); }
  ask();
}

// Curves.

const chosen = new Map(); // by keyOf: the arm and its curve
let plot = null;

function wrong(text) {
  $('bandit-wrong').textContent = text;
  $('bandit-wrong').hidden = !text;
}

// choose draws an arm, or no more; it returns false where there are enough already.
function choose(a, on) {
  wrong('');
  if (!on) { chosen.delete(keyOf(a)); drawCurves(); return true; }
  if (chosen.size >= MOST) { wrong(`Six curves are enough to tell apart: take one away first.`); announce('Six curves are drawn already.'); return false; }
  load(a);
  return true;
}

async function load(a) {
  chosen.set(keyOf(a), null);
  try {
    chosen.set(keyOf(a), await call('GET', '/admin/bandit/arm?' + new URLSearchParams(only(a))));
  } catch (problem) {
    chosen.delete(keyOf(a));
    wrong(problem.message);
  }
  drawCurves();
}

function drawCurves() {
  const arms = [...chosen].filter(([, d]) => d);
  $('bandit-nothing').hidden = arms.length > 0;
  $('bandit-chosen').replaceChildren(...arms.map(([key, d]) => {
    const label = nameOf(d) + (d.level === 'prior' ? ': the prior' : '');
    return h('button', { type: 'button', title: 'Take away', onclick: () => {
      chosen.delete(key);
      for (const box of document.querySelectorAll('#bandit-list input')) if (box.dataset.arm === key) box.checked = false;
      drawCurves();
    } }, `${label}: ${chance(d.mean)} (${chance(d.low)} to ${chance(d.high)}) \u00d7`);
  }));
  plot?.close();
  plot = null;
  if (arms.length === 0) return;
  plot = new Plot($('bandit-plot'), {
    id: 'bandit-densities', title: 'Densities, each in shares of its highest', value: f.percent, axis: (v) => f.percent(v), group: 'densities', all: 'All', still: true, span: true, time: chance,
    series: arms.map(([, d], i) => ({ name: nameOf(d), color: COLORS[i], dash: DASHES[i], exact: true, width: 2, get: (p) => p.y[i] })),
  });
  // All curves at the points of each: between its own a curve is straight, beyond them it is nothing.
  const xs = [...new Set(arms.flatMap(([, d]) => d.x))].sort((a, b) => a - b);
  const reach = arms.map(() => 0);
  plot.draw(xs.map((x) => ({ t: x, y: arms.map(([, d], i) => {
    while (reach[i] < d.x.length - 1 && d.x[reach[i] + 1] <= x) reach[i]++;
    const k = reach[i];
    if (d.x[k] === x) return d.density[k];
    if (x < d.x[0] || k === d.x.length - 1) return null;
    return d.density[k] + (d.density[k + 1] - d.density[k]) * (x - d.x[k]) / (d.x[k + 1] - d.x[k]);
  }) })));
}

$('bandit-for').addEventListener('change', () => {
  $('bandit-of').disabled = !$('bandit-for').value;
  $('bandit-of').required = !$('bandit-of').disabled;
});
$('bandit-add').addEventListener('submit', (e) => {
  e.preventDefault();
  const kind = $('bandit-for').value;
  const a = { item: $('bandit-item').value, ...(kind ? { [kind]: $('bandit-of').value } : {}) };
  if (choose(a, true)) $('bandit-item').value = '';
});

ask();
