// The list of results.

import { $, h, sure, trouble } from './dom.js';
import { call } from './api.js';
import * as f from './format.js';

export class History {
  constructor({ rerun }) {
    this.rerun = rerun;
    this.chosen = new Set();
    $('compare').addEventListener('click', () => {
      const [a, b] = this.order();
      if (b) location.hash = `#/compare/${a}/${b}`;
    });
  }

  // order is the older of the two first.
  order() { return this.runs.map((r) => r.id).filter((id) => this.chosen.has(id)).reverse(); }

  async load() {
    $('history').setAttribute('aria-busy', 'true');
    try {
      const { runs, keep } = await call('GET', '/api/history');
      this.runs = runs;
      $('history-note').textContent = runs.length === 0 ? 'No runs yet.' : `${f.count(runs.length)} ${runs.length === 1 ? 'run' : 'runs'}, newest first. The last ${f.count(keep)} are kept.`;
      this.show();
    } catch (problem) { trouble(problem.message); }
    $('history').setAttribute('aria-busy', 'false');
  }

  // recent lists the newest runs where no run is shown yet.
  async recent() {
    try {
      const { runs } = await call('GET', '/api/history');
      $('recent').hidden = runs.length === 0;
      $('recent').querySelector('ul').replaceChildren(...runs.filter((r) => !r.broken).slice(0, 6).map((r) => h('li', {},
        h('a', { href: '#/history/' + r.id }, r.name || r.target || r.id),
        h('span', { class: 'muted' }, [f.when(r.started), r.ceiling != null ? f.rate(r.ceiling) + ' ceiling' : f.rate(r.served), 'p99 ' + f.micros(r.p99_us)].join(' \u00b7 ')))));
    } catch (problem) { if (problem.status !== 401) trouble(problem.message); }
  }

  show() {
    const ids = new Set(this.runs.map((r) => r.id));
    for (const id of this.chosen) if (!ids.has(id)) this.chosen.delete(id);
    const focused = document.activeElement?.id;
    $('history').replaceChildren(this.runs.length === 0 ? '' : h('table', { class: 'list' },
      h('caption', { class: 'unseen' }, 'Runs, newest first'),
      h('thead', {}, h('tr', {}, ['Compare', 'Run', 'Mode', 'Found or served', 'p99', 'Errors', 'Shed', 'Actions'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, this.runs.map((r) => this.row(r)))));
    if (focused) $(focused)?.focus();
    this.count();
  }

  row(r) {
    const cell = (label, ...content) => h('td', { 'data-label': label }, h('span', { class: 'cell' }, content));
    const remove = sure('Delete', 'Sure?', async () => {
      try { await call('DELETE', '/api/history/' + r.id); } catch (problem) { trouble(problem.message); }
    }, { id: 'delete-' + r.id, 'aria-label': 'Delete ' + (r.name || r.id) });
    if (r.broken) {
      return h('tr', { 'data-run': r.id }, h('td', {}), h('td', { colspan: 6, 'data-label': 'Run' }, h('strong', {}, r.id), h('p', { class: 'wrong' }, r.broken)), cell('Actions', remove));
    }
    const label = r.name || r.target || r.id;
    const box = h('input', { type: 'checkbox', id: 'choose-' + r.id, 'aria-label': 'Compare ' + label + ', ' + f.when(r.started), onchange: () => {
      if (box.checked) this.chosen.add(r.id); else this.chosen.delete(r.id);
      this.count();
    } });
    box.checked = this.chosen.has(r.id);
    const signs = [r.failed && 'failed a condition', r.marks > 0 && `${r.marks} ${r.marks === 1 ? 'mark' : 'marks'}`].filter(Boolean);
    return h('tr', { 'data-run': r.id },
      h('td', { class: 'choose' }, h('label', {}, box, h('span', { class: 'phone' }, 'Compare'))),
      h('td', { class: 'run' }, h('a', { href: '#/history/' + r.id }, label), h('small', {}, [f.when(r.started), r.name && r.target, f.seconds(r.seconds)].filter(Boolean).join(' \u00b7 ')),
        signs.length > 0 && h('small', { class: 'sign' }, '\u26a0 ' + signs.join(', '))),
      cell('Mode', r.mode ?? f.NONE),
      cell('Found or served', r.ceiling != null ? h('span', {}, h('b', {}, f.rate(r.ceiling)), ' ceiling') : f.rate(r.served)),
      cell('p99', f.micros(r.p99_us)),
      cell('Errors', f.percent(r.requests ? r.errors / r.requests : 0)),
      cell('Shed', f.percent(r.requests ? r.shed / r.requests : 0)),
      cell('Actions', h('span', { class: 'actions' }, h('button', { type: 'button', 'aria-label': 'Run again: ' + label, onclick: () => this.again(r.id) }, 'Run again'), remove)));
  }

  async again(id) {
    try { this.rerun((await call('GET', '/api/history/' + id)).plan); } catch (problem) { trouble(problem.message); }
  }

  count() {
    const n = this.chosen.size;
    $('compare').disabled = n !== 2;
    $('compare-note').textContent = n === 2 ? 'Two runs are chosen.' : n > 2 ? `${n} runs are chosen: choose two.` : n === 1 ? 'Choose one more run to compare.' : 'Choose two runs to compare them.';
  }
}
