// The form of a plan. Its fields are those of load.Plan; what is left empty takes the server's default.

import { $, h } from './dom.js';

const lines = (text) => text.split('\n').map((s) => s.trim()).filter(Boolean);

// Fields. 'when' says for which choices a field is there.
const isUrl = (v) => v.source === 'url';
const isScenario = (...names) => (v) => v.source === 'scenario' && (names.length === 0 || names.includes(v.scenario) || v.scenario === 'mix');
const model = (...names) => (v) => names.includes(v.model) && v.mode !== 'adaptive' && !(v.mode === 'classic' && v.model === 'stages');
const GROUPS = [
  { legend: 'What is asked for', fields: [
    { name: 'source', kind: 'radio', label: 'Ask', options: [['url', 'One URL'], ['scenario', 'A scenario']], own: true },
    { name: 'url', label: 'URL', kind: 'url', placeholder: 'http://127.0.0.1:8080/next', when: isUrl, need: true },
    { name: 'scenario', label: 'Scenario', kind: 'select', when: isScenario(), options: [['feed', 'feed: items for random users'], ['predict', 'predict: scores of items'],
      ['sequence', 'sequence: Fibonacci values'], ['poll', 'poll: readers of feeds'], ['requests', 'requests: from a file'], ['mix', 'a mix, by weights']] },
    { name: 'mix', label: 'Mix', placeholder: 'feed=3,predict=1', own: true, when: (v) => v.source === 'scenario' && v.scenario === 'mix', need: true },
    { name: 'target', label: 'Target', kind: 'url', placeholder: 'http://127.0.0.1:8080', hint: 'The origin that the scenario asks.', when: (v) => v.source === 'scenario' },
    { name: 'items', label: 'Items a request', kind: 'int', when: isScenario('feed', 'predict'), half: true },
    { name: 'max_item', label: 'Largest item id', kind: 'int', when: isScenario('predict'), half: true, placeholder: '1000000' },
    { name: 'max_index', label: 'Back to 0 after', kind: 'int', when: isScenario('sequence'), half: true, placeholder: '1000' },
    { name: 'feeds', label: 'Feeds a user', kind: 'int', when: isScenario('poll'), half: true, placeholder: '25' },
    { name: 'feed_pool', label: 'Different feeds', kind: 'int', when: isScenario('poll'), half: true, placeholder: 'a tenth of all' },
    { name: 'feed_url', label: 'Path of a feed', when: isScenario('poll'), placeholder: '/feed/{feed}.rss' },
    { name: 'feed_urls', label: 'File of feeds', when: isScenario('poll'), placeholder: 'feeds.txt', hint: 'A URL a line, in the folder of --files.' },
    { name: 'requests', label: 'File of requests', placeholder: 'requests.jsonl', hint: 'In the folder of --files.', when: isScenario('requests') },
    { name: 'vars', label: 'File of variables', placeholder: 'users.csv', when: isScenario('requests') },
    { name: 'vars_order', label: 'Rows are taken', kind: 'select', when: isScenario('requests'), options: [['sequential', 'in order'], ['random', 'at random']] },
  ] },
  { legend: 'How much', fields: [
    { name: 'mode', kind: 'radio', label: 'Mode', options: [['constant', 'Constant'], ['classic', 'Classic'], ['adaptive', 'Adaptive']] },
    { name: 'mode-note', kind: 'note', text: (v) => ({
      constant: 'One load, for as long as you say.',
      classic: 'A load that grows by ramp or stages, until a condition stops it.',
      adaptive: 'Looks for the most that the target bears, and follows it.',
    })[v.mode] },
    { name: 'model', kind: 'select', label: 'Load is given as', own: true, when: (v) => v.mode !== 'adaptive', options: [['rate', 'a rate (open model)'], ['users', 'users who come again (open model)'], ['connections', 'connections (closed model)'], ['stages', 'stages of rates']] },
    { name: 'rate', label: 'Rate', placeholder: '5000/s', when: (v) => model('rate')(v), hint: 'Per second, minute or hour: 5000/s, 300/m. Of users who come again, a multiple: 60x.', need: true },
    { name: 'rate', id: 'begin', label: 'Begin at', placeholder: 'chosen by the search', when: (v) => v.mode === 'adaptive' },
    { name: 'connections', label: 'Connections', kind: 'int', placeholder: '64', when: (v) => model('connections')(v), hint: 'Each sends its next request once the last is answered.', need: true },
    { name: 'users', label: 'Users', kind: 'int', half: true, placeholder: '5000', when: (v) => model('users')(v) || isScenario('feed', 'predict', 'poll')(v) },
    { name: 'every', label: 'Each comes every', half: true, placeholder: '5m', when: (v) => model('users')(v), need: true },
    { name: 'stages', label: 'Stages', placeholder: '1000/s:30s,2000/s:30s', when: (v) => v.mode !== 'adaptive' && v.model === 'stages', need: true },
    { name: 'duration', label: 'Duration', half: true, placeholder: (v) => v.mode === 'adaptive' ? '60s' : '30s', when: (v) => v.model !== 'stages' || v.mode === 'adaptive' },
    { name: 'warmup', label: 'Warm-up', half: true, placeholder: '0s' },
    { name: 'ramp', label: 'Ramp', half: true, placeholder: '0s', when: (v) => v.mode !== 'adaptive' && v.model !== 'stages' },
    { name: 'arrivals', label: 'Arrivals', half: true, kind: 'select', when: (v) => v.mode === 'adaptive' || v.model !== 'connections', options: [['constant', 'even'], ['poisson', 'Poisson']] },
  ] },
  { legend: 'Conditions', closed: true, fields: [
    { name: 'healthy', label: 'Healthy is', kind: 'lines', placeholder: 'p99 < 50ms', hint: 'One a line. What the search keeps true; empty is a good choice.', when: (v) => v.mode === 'adaptive' },
    { name: 'stop_when', label: 'Stop when', kind: 'lines', placeholder: 'p95 > 50ms for 5s', hint: 'One a line. Any of them ends the run.' },
    { name: 'fail_when', label: 'Fail when', kind: 'lines', placeholder: 'errors > 1%', hint: 'One a line. Judged over the whole run.' },
  ] },
  { legend: 'The request', closed: true, when: isUrl, fields: [
    { name: 'method', label: 'Method', placeholder: 'GET', half: true },
    { name: 'headers', label: 'Headers', kind: 'lines', placeholder: 'Accept: application/json', hint: 'One a line.' },
    { name: 'body', label: 'Body', kind: 'text' },
  ] },
  { legend: 'More', closed: true, fields: [
    { name: 'name', label: 'Name of the run', placeholder: 'before the change' },
    { name: 'target_metrics', label: 'Target\u2019s metrics', kind: 'url', placeholder: 'http://127.0.0.1:8081/metrics', hint: 'Prometheus metrics, for the target\u2019s CPU and memory.' },
    { name: 'timeout', label: 'Timeout', half: true, placeholder: '10s' },
    { name: 'seed', label: 'Seed', half: true, kind: 'int', placeholder: '1' },
    { name: 'pipeline', label: 'Pipelined', half: true, kind: 'int', placeholder: '1' },
    { name: 'max_connections', label: 'Connections at most', half: true, kind: 'int', placeholder: '10000' },
    { name: 'warm', label: 'Opened beforehand', half: true, kind: 'int', placeholder: '64' },
    { name: 'threads', label: 'Threads', half: true, kind: 'int', placeholder: 'as many as fit' },
    { name: 'first_user', label: 'Smallest user id', half: true, kind: 'int', placeholder: '0', when: isScenario('feed', 'predict', 'poll') },
    { name: 'no_check', label: 'Begin without asking the target first', kind: 'check' },
    { name: 'http2', label: 'HTTP/2', kind: 'check', half: true },
    { name: 'insecure', label: 'Believe any certificate', kind: 'check', half: true },
    { name: 'agents', label: 'Runners on other machines', placeholder: 'host:port, host:port', kind: 'list' },
  ] },
];

const DEFAULTS = { source: 'url', scenario: 'feed', mode: 'constant', model: 'rate', rate: '1000/s', arrivals: 'constant' };
const KEPT = 'weir-load-plan';

export class PlanForm {
  constructor(form, { onStart, onCheck, onChange }) {
    this.form = form;
    this.inputs = new Map(); // by id
    this.groups = [];
    for (const g of GROUPS) {
      const fields = h('div', { class: 'fields' }, g.fields.map((f) => this.field(f)));
      const group = g.closed
        ? h('details', { class: 'group' }, h('summary', {}, g.legend), fields)
        : h('fieldset', { class: 'group' }, h('legend', {}, g.legend), fields);
      this.groups.push({ g, element: group });
      form.append(group);
    }
    this.wrong = h('p', { class: 'wrong', id: 'plan-error', role: 'alert', hidden: true });
    this.good = h('p', { class: 'good', role: 'status', hidden: true });
    this.startButton = h('button', { class: 'primary', id: 'start' }, 'Start');
    this.checkButton = h('button', { type: 'button', id: 'check', onclick: () => onCheck(this.plan()) }, 'Check');
    this.busyNote = h('span', { class: 'muted', hidden: true }, 'A run is going on.');
    form.append(h('div', { class: 'submit' }, this.wrong, this.good, h('p', { class: 'actions' }, this.startButton, this.checkButton, this.busyNote)));
    form.addEventListener('submit', (e) => { e.preventDefault(); if (!this.startButton.disabled) onStart(this.plan()); });
    form.addEventListener('input', (e) => { this.clear(e.target.name); this.arrange(); onChange(this.short()); });
    this.set(DEFAULTS);
    try { this.fill(JSON.parse(localStorage.getItem(KEPT))); } catch { /* nothing was kept, or nowhere */ }
    onChange(this.short());
  }

  field(f) {
    const id = 'plan-' + (f.id ?? f.name);
    const hint = f.hint && h('p', { class: 'hint muted', id: id + '-hint' }, f.hint);
    const wrong = h('p', { class: 'wrong', id: id + '-error', hidden: true });
    const described = [f.hint && id + '-hint', id + '-error'].filter(Boolean).join(' ');
    const common = { id, name: f.name, 'aria-describedby': described, placeholder: typeof f.placeholder === 'function' ? null : f.placeholder, autocomplete: 'off', spellcheck: 'false' };
    const entry = { f, wrong };
    switch (f.kind) {
      case 'note':
        entry.note = h('p', { class: 'hint muted' });
        entry.element = entry.note;
        break;
      case 'radio':
        entry.radios = f.options.map(([value]) => h('input', { type: 'radio', name: f.name, value, id: id + '-' + value }));
        entry.element = h('div', { class: 'field', role: 'radiogroup', 'aria-label': f.label },
          h('div', { class: 'choices' }, f.options.map(([, text], i) => h('label', {}, entry.radios[i], h('span', {}, text)))), wrong);
        break;
      case 'select':
        entry.input = h('select', { ...common, placeholder: null }, f.options.map(([value, text]) => h('option', { value }, text)));
        break;
      case 'lines':
        entry.input = h('textarea', { ...common, rows: 2 });
        break;
      case 'text':
        entry.input = h('textarea', { ...common, rows: 3 });
        break;
      case 'check':
        entry.input = h('input', { ...common, type: 'checkbox', placeholder: null });
        entry.element = h('div', { class: 'field check' + (f.half ? ' half' : '') }, entry.input, h('label', { for: id }, f.label), wrong);
        break;
      default:
        entry.input = h('input', { ...common, type: 'text', inputmode: f.kind === 'int' ? 'numeric' : f.kind === 'url' ? 'url' : null, required: f.need });
    }
    entry.element ??= h('div', { class: 'field' + (f.half ? ' half' : '') }, h('label', { for: id }, f.label), entry.input, hint, wrong);
    this.inputs.set(f.id ?? f.name, entry);
    return entry.element;
  }

  get(e) {
    if (e.radios) return e.radios.find((r) => r.checked)?.value ?? '';
    if (e.f.kind === 'check') return e.input.checked;
    return e.input ? e.input.value.trim() : '';
  }

  put(e, value) {
    if (e.radios) for (const r of e.radios) r.checked = r.value === value;
    else if (e.f.kind === 'check') e.input.checked = Boolean(value);
    else if (e.input) e.input.value = Array.isArray(value) ? value.join(e.f.kind === 'list' ? ', ' : '\n') : value ?? '';
  }

  values() {
    const v = {};
    for (const [id, e] of this.inputs) v[id] = this.get(e);
    return v;
  }

  // set puts values into all fields; those that are not named are emptied.
  set(values) {
    for (const [id, e] of this.inputs) this.put(e, values[id] ?? (id === 'begin' ? values.rate_begin : undefined) ?? (e.f.kind === 'select' ? e.f.options[0][0] : ''));
    this.arrange();
  }

  // arrange shows the fields that the choices ask for.
  arrange() {
    const v = this.values();
    for (const e of this.inputs.values()) {
      e.shown = !e.f.when || e.f.when(v);
      e.element.hidden = !e.shown;
      if (typeof e.f.placeholder === 'function') e.input.placeholder = e.f.placeholder(v);
      if (e.note) e.note.textContent = e.f.text(v);
    }
    for (const { g, element } of this.groups) element.hidden = Boolean(g.when && !g.when(v));
  }

  // plan is what the form says, as the server wants it.
  plan() {
    const v = this.values();
    const plan = {};
    for (const [id, e] of this.inputs) {
      if (e.f.own || e.f.kind === 'note' || !e.shown || this.groups.some((x) => x.element.hidden && x.g.fields.includes(e.f))) continue;
      let value = v[id];
      if (value === '' || value === false) continue;
      if (e.f.kind === 'int' && /^\d{1,15}$/.test(value)) value = Number(value);
      if (e.f.kind === 'lines') value = lines(value);
      if (e.f.kind === 'list') value = value.split(/[\s,]+/).filter(Boolean);
      plan[e.f.name] = value;
    }
    if (plan.scenario === 'mix') plan.scenario = v.mix;
    return plan;
  }

  // fill makes the form say what a plan says.
  fill(plan) {
    if (!plan) return;
    const v = { ...plan };
    v.source = plan.scenario ? 'scenario' : 'url';
    const names = this.inputs.get('scenario').f.options.map(([n]) => n);
    if (plan.scenario && !names.includes(plan.scenario)) { v.scenario = 'mix'; v.mix = plan.scenario; }
    v.model = plan.stages ? 'stages' : plan.connections ? 'connections' : plan.every && plan.every !== '0s' ? 'users' : 'rate';
    for (const k of ['every', 'warmup', 'ramp', 'duration']) if (v[k] === '0s') v[k] = '';
    for (const k of ['first_user', 'max_index', 'feed_pool', 'users', 'items', 'max_item', 'feeds', 'threads']) if (v[k] === 0) v[k] = '';
    if (plan.mode === 'adaptive') { v.rate_begin = plan.rate; v.rate = ''; }
    this.set(v);
    for (const { g, element } of this.groups) {
      if (g.closed) element.open = g.fields.some((f) => f.name !== 'name' && f.name !== 'seed' && v[f.name] && String(v[f.name]) !== String(f.placeholder ?? '') && v[f.name] !== 'GET');
    }
  }

  // keep remembers a plan that was started for the next visit, without what may be secret.
  keep(plan) {
    const { headers, body, ...rest } = plan;
    try { localStorage.setItem(KEPT, JSON.stringify(rest)); } catch { /* then not */ }
  }

  short() {
    const v = this.values();
    const what = v.source === 'url' ? v.url : v.scenario === 'mix' ? v.mix : v.scenario;
    return [what || 'nothing yet', v.mode].join(', ');
  }

  clear(name) {
    this.wrong.hidden = true;
    this.good.hidden = true;
    for (const e of this.inputs.values()) {
      if (name !== undefined && e.f.name !== name) continue;
      e.wrong.hidden = true;
      e.input?.removeAttribute('aria-invalid');
    }
  }

  // error shows what is wrong, beside its field when it is about one that is seen.
  error(problem) {
    this.clear();
    const e = [...this.inputs.values()].find((x) => x.f.name === (problem.field || null) && x.shown && x.input);
    if (!e) {
      this.wrong.textContent = this.words(problem.message);
      this.wrong.hidden = false;
      this.wrong.scrollIntoView({ block: 'nearest' });
      return;
    }
    e.wrong.textContent = this.words(problem.message.replace(/^--[a-z0-9-]+: /, '')); // where it stands says which
    e.wrong.hidden = false;
    e.input.setAttribute('aria-invalid', 'true');
    const closed = e.element.closest('details:not([open])');
    if (closed) closed.open = true;
    $('plan-panel').open = true;
    e.input.focus();
  }

  // words says of a message of the command what the page calls its fields.
  words(message) {
    return message.replace(/--([a-z0-9][a-z0-9-]*)/g, (flag, name) => {
      const field = { header: 'headers', 'healthy-when': 'healthy' }[name] ?? name.replaceAll('-', '_');
      const entry = [...this.inputs.values()].find((x) => x.f.name === field && x.f.label);
      return entry ? '\u201c' + entry.f.label + '\u201d' : flag;
    });
  }

  ok(text) {
    this.clear();
    this.good.textContent = text;
    this.good.hidden = false;
  }

  busy(on, waiting) {
    this.startButton.disabled = on || waiting;
    this.checkButton.disabled = waiting;
    this.startButton.textContent = waiting ? 'Checking\u2026' : 'Start';
    this.busyNote.hidden = !on;
  }
}
