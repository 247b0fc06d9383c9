// One result, and two beside each other.

import { $, add, h, sure, trouble } from './dom.js';
import { call } from './api.js';
import { Plot } from './plots.js';
import { RUN_PLOTS } from './runplots.js';
import * as f from './format.js';

let open = []; // plots

export function closeResult() {
  for (const p of open) p.close();
  open = [];
  $('result').replaceChildren();
  $('comparison').replaceChildren();
}

const tile = (name, value, warn, wide) => h('div', { class: 'tile' + (warn ? ' warn' : '') + (wide ? ' wide' : '') }, h('dt', {}, name), h('dd', {}, value));
const row = (...cells) => h('tr', {}, cells.map((c, i) => i === 0 ? h('th', { scope: 'row' }, c) : h('td', {}, c)));

export async function showResult(id, { rerun }) {
  closeResult();
  let r;
  try { r = await call('GET', '/api/history/' + encodeURIComponent(id)); } catch (problem) {
    closeResult();
    if (problem.status !== 404) { $('result-title').textContent = 'Result'; trouble(problem.message); return; }
    $('result-title').textContent = 'No such result';
    add($('result'), h('p', { id: 'no-result' }, 'There is no result ' + id + ': it was deleted, or made room for newer ones. ', h('a', { href: '#/history' }, 'History')));
    return;
  }
  closeResult();
  $('result-title').textContent = r.name || 'Run of ' + f.when(r.started);
  const done = r.requests || 1;
  const g = r.generator;
  const files = [['JSON', 'json'], ['CSV', 'csv'], ['HTML', 'html']].map(([text, form]) =>
    h('a', { class: 'button', id: 'download-' + form, href: `/api/history/${id}.${form}`, download: true }, text));
  const plots = h('div', { class: 'plots' });
  add($('result'),
    h('p', { class: 'muted' }, [f.when(r.started), f.seconds(r.seconds) + ' measured', r.plan?.mode, r.reason && 'ended: ' + r.reason].filter(Boolean).join(' \u00b7 ')),
    h('p', { class: 'actions' }, h('button', { type: 'button', class: 'primary', onclick: () => rerun(r.plan) }, 'Run again'),
      h('span', { class: 'group-label', id: 'download-label' }, 'Download'), h('span', { class: 'actions', role: 'group', 'aria-labelledby': 'download-label' }, files),
      sure('Delete', 'Delete for good?', async () => {
        try { await call('DELETE', '/api/history/' + id); location.hash = '#/history'; } catch (problem) { trouble(problem.message); }
      })),
    r.marks?.length > 0 && h('div', { class: 'panel marks', role: 'note' }, h('h2', {}, '\u26a0 With these figures, mind'), h('ul', {}, r.marks.map((m) => h('li', {}, m)))),
    r.verdicts?.length > 0 && h('div', { class: 'panel' }, h('h2', {}, 'Conditions'), h('ul', { class: 'verdicts' }, r.verdicts.map((v) =>
      h('li', { class: v.failed ? 'failed' : 'held' }, h('b', {}, v.failed ? '\u2717 Failed' : '\u2713 Passed'), ' fails when ', h('code', {}, v.condition), v.got && ': it was ' + v.got)))),
    h('div', { class: 'panel' }, h('dl', { class: 'tiles' },
      r.ceiling && tile(r.ceiling.converged ? 'Ceiling' : 'Ceiling, not sure yet', f.rate(r.ceiling.rate), !r.ceiling.converged),
      r.ceiling && !r.ceiling.high && tile('At least', f.rate(r.ceiling.low)),
      r.ceiling?.high && r.ceiling.low !== r.ceiling.high && (r.ceiling.low === r.ceiling.rate // held, or stopped by a condition
        ? tile('Too much', f.rate(r.ceiling.high))
        : tile('95 % confidence', f.rate(r.ceiling.low) + ' \u2013 ' + f.rate(r.ceiling.high), false, true)),
      r.ceiling && tile('Found in', f.seconds(r.ceiling.seconds)),
      r.ceiling?.limit && tile('Limited by', r.ceiling.limit, r.ceiling.limit === 'generator'),
      tile('Intended', f.rate(r.rate.intended)), tile('Achieved', f.rate(r.rate.achieved)), tile('Served', f.rate(r.rate.served)),
      tile('p50', f.micros(r.latency_us.p50)), tile('p99', f.micros(r.latency_us.p99)),
      tile('Errors', f.percent(r.errors / done), r.errors > 0), tile('Shed', f.percent(r.shed / done), r.shed > 0), tile('Requests', f.count(r.requests)))),
    plots,
    h('div', { class: 'columns' },
      h('div', { class: 'panel' }, h('h2', {}, 'Latency'), h('table', { class: 'figures' },
        h('thead', {}, h('tr', {}, h('td', {}), h('th', { scope: 'col' }, 'Answers'), r.shed > 0 && h('th', { scope: 'col' }, 'Shed'))),
        h('tbody', {}, [['Mean', 'mean'], ['p50', 'p50'], ['p90', 'p90'], ['p95', 'p95'], ['p99', 'p99'], ['p99.9', 'p999'], ['Max', 'max']].map(([name, k]) =>
          row(name, f.micros(r.latency_us[k]), ...(r.shed > 0 ? [f.micros(r.shed_latency_us?.[k])] : [])))))),
      h('div', { class: 'panel' }, h('h2', {}, 'Requests'), h('table', { class: 'figures' }, h('tbody', {},
        row('Served', f.count(r.served)), row('Shed', f.count(r.shed)), row('Errors', f.count(r.errors)),
        Object.entries(r.failures ?? {}).filter(([, n]) => n > 0).map(([kind, n]) => row('\u2003' + kind.replaceAll('_', ' '), f.count(n))),
        Object.entries(r.statuses ?? {}).map(([code, n]) => row('Status ' + code, f.count(n))),
        r.redirects > 0 && row('Redirects, not followed', f.count(r.redirects)),
        row('Read', f.bytes(r.bytes.in)), row('Written', f.bytes(r.bytes.out))))),
      h('div', { class: 'panel' }, h('h2', {}, 'The generator'), h('table', { class: 'figures' }, h('tbody', {},
        row('CPU a request', f.micros(g.cpu_us_per_request)), row('Busiest thread', f.percent(g.busy)), row('Lag p99', f.micros(g.lag_p99_us)), row('Lag max', f.micros(g.lag_max_us)),
        row('Runners', f.count(g.runners)), row('Was the limit', g.saturated ? '\u26a0 yes' : 'no'))))),
    r.parts?.length > 0 && h('div', { class: 'panel scroll' }, h('h2', {}, 'Parts'), h('table', { class: 'figures' },
      h('thead', {}, h('tr', {}, h('td', {}), ['Served', 'Shed', 'Errors', 'Mean', 'Max'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, r.parts.map((p) => row(p.name, f.count(p.served), f.count(p.shed), f.count(p.errors), f.micros(p.mean_us), f.micros(p.max_us)))))),
    r.samples?.length > 0 && h('div', { class: 'panel' }, h('h2', {}, 'Errors, for example'), h('ul', { id: 'samples' }, r.samples.map((s) =>
      h('li', {}, h('code', {}, s.request), ': ' + s.kind.replaceAll('_', ' ') + (s.detail ? ', ' + s.detail : ''))))),
    h('details', { class: 'panel' }, h('summary', {}, h('h2', {}, 'Plan')), h('pre', { tabindex: '0' }, JSON.stringify(r.plan, null, 2))),
  );
  for (const spec of RUN_PLOTS) {
    const p = new Plot(plots, { ...spec, id: 'result-' + spec.id, ended: true, empty: spec.empty && 'The plan did not name the target\u2019s metrics.' });
    p.draw(r.trace ?? []);
    open.push(p);
  }
}

const UNITS = { '1/s': f.rate, us: f.micros, share: f.percent };
const JUDGED = { better: '\u25b2 better', worse: '\u25bc worse', same: '= same', undecided: '? undecided below ', unknown: '? too little measured' };

// figure is one value of a comparison, with its 95 % interval where that is known.
function figure(v, unit) {
  const show = UNITS[unit] ?? f.count;
  return h('td', {}, h('span', {}, show(v.value)), v.known && v.high > v.low && h('small', { class: 'interval muted' }, show(v.low) + ' \u2013 ' + show(v.high)));
}

export async function showComparison(a, b) {
  closeResult();
  let two;
  try { two = await call('GET', `/api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`); } catch (problem) { trouble(problem.message); return; }
  closeResult();
  const names = [two.a, two.b].map((r, i) => `${'AB'[i]}: ${r.name || f.when(r.started)}`);
  const plots = h('div', { class: 'plots' });
  add($('comparison'),
    h('p', {}, h('a', { href: '#/history/' + a }, names[0]), ' and ', h('a', { href: '#/history/' + b }, names[1])),
    h('div', { class: 'panel scroll', tabindex: '0', role: 'region', 'aria-label': 'Figures compared' }, h('table', { class: 'figures compared' },
      h('thead', {}, h('tr', {}, h('td', {}), ['A', 'B', 'Change'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, two.comparison.rows.map((row) => h('tr', {}, h('th', { scope: 'row' }, row.name), figure(row.a, row.unit), figure(row.b, row.unit),
        h('td', { class: row.judgement }, row.change == null ? (row.a.value === row.b.value ? 'none' : 'new') : f.change(row.change),
          JUDGED[row.judgement] && h('small', {}, JUDGED[row.judgement] + (row.decides ? f.percent(row.decides) : '')))))))),
    two.comparison.warnings?.length > 0 && h('div', { class: 'panel marks', role: 'note' }, h('h2', {}, '\u26a0 With this comparison, mind'), h('ul', {}, two.comparison.warnings.map((m) => h('li', {}, m)))),
    plots);
  const points = overlay(two.a.trace ?? [], two.b.trace ?? []);
  const of = (run, get) => (p) => p[run] ? get(p[run]) : null;
  for (const [id, title, value, axis, log, get] of [
    ['served', 'Served, requests a second', f.rate, f.short, false, (p) => p.served],
    ['p99', 'Latency, p99', f.micros, f.micros, true, (p) => p.p99],
    ['p50', 'Latency, p50', f.micros, f.micros, true, (p) => p.p50],
    ['cpu', 'The target\u2019s CPU', f.cpus, f.short, false, (p) => p.target_cpu],
  ]) {
    const p = new Plot(plots, { id: 'two-' + id, title, value, axis, log, ended: true, span: true, empty: id === 'cpu' ? 'Neither plan named the target\u2019s metrics.' : null, series: [
      { name: 'A', color: 'achieved', get: of('a', get), width: 2 },
      { name: 'B', color: 'shed', dash: [7, 4], get: of('b', get), width: 2 },
    ] });
    p.draw(points);
    open.push(p);
  }
}

// overlay puts two traces on one time line: tenths of seconds that either has.
function overlay(a, b) {
  const at = new Map();
  const add = (trace, run) => {
    for (const p of trace) {
      const t = Math.round(p.t * 10) / 10;
      const both = at.get(t) ?? { t, measured: true, phase: '' };
      both[run] = p;
      at.set(t, both);
    }
  };
  add(a, 'a');
  add(b, 'b');
  return [...at.values()].sort((x, y) => x.t - y.t);
}
