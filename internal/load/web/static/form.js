// The form of a plan. Its fields are those of load.Fields; what is left empty takes the server's default.

import { $, h } from './dom.js';
import { FIELDS } from './fields.js';

const lines = (text) => text.split('\n').map((s) => s.trim()).filter(Boolean);

// asked makes a function of what load.Field says in When.
const asked = (text) => (v) => text.split('|').some((one) => {
  const [key, names] = one.split(':');
  const among = (value) => names.split(',').includes(value);
  switch (key) {
    case 'scenario': return v.source === 'scenario' && (among(v.scenario) || v.scenario === 'mix');
    case 'model': return v.mode === 'constant' && among(v.model);
    default: return among(v[key]);
  }
});

// Fields that are the form's own, by the field that they stand before.
const OWN = {
  url: [{ name: 'source', kind: 'radio', label: 'Ask', options: [['url', 'One URL'], ['scenario', 'A scenario']], own: true }],
  target: [{ name: 'mix', label: 'Mix', placeholder: 'feed=3,predict=1', own: true, when: (v) => v.source === 'scenario' && v.scenario === 'mix', need: true }],
  rate: [
    { name: 'mode-note', kind: 'note', text: (v) => ({
      constant: 'One load, for as long as you say.',
      classic: 'A load that grows by stages, until a condition stops it.',
      adaptive: 'Looks for the most that the target sustains, and follows it.',
    })[v.mode] },
    { name: 'model', kind: 'select', label: 'Load is given as', own: true, when: (v) => v.mode === 'constant',
      options: [['rate', 'a rate (open model)'], ['users', 'users who come again (open model)'],
        ['connections', 'connections (closed model)']] },
  ],
  connections: [{ name: 'rate', id: 'begin', label: 'Begin at', placeholder: 'chosen by the search', when: (v) => v.mode === 'adaptive' }],
};

const CHANGED = { duration: { placeholder: () => 'by the preset' } };
const OPEN = ['What is asked for', 'How much'];
const GROUPS = [...new Set(FIELDS.map((f) => f.group).filter(Boolean))].map((legend) => ({
  legend, closed: !OPEN.includes(legend), when: legend === 'The request' ? asked('source:url') : null,
  fields: FIELDS.filter((f) => f.group === legend)
    .flatMap((f) => [...(OWN[f.name] ?? []), { ...f, when: f.when && asked(f.when), ...CHANGED[f.name] }]),
}));

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
    v.model = plan.connections ? 'connections' : plan.every && plan.every !== '0s' ? 'users' : 'rate';
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
      const entry = [...this.inputs.values()].find((x) => x.f.flag === name && x.f.label);
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
