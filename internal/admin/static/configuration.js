// Settings that change while weir serves. What is typed and not saved yet stays, whatever comes from elsewhere.

import { $, h, add, announce, trouble } from './dom.js';
import { call } from './api.js';
import { when } from './format.js';
import { listen } from './live.js';

let state = null;
const rows = new Map(); // by the name of a setting

// plain leaves out of a time what is nothing: 24h0m0s is 24h.
const plain = (setting, value) => setting.kind === 'duration' ? value.replace(/(?<=[hm])0s$/, '').replace(/(?<=h)0m$/, '') : value;

const sources = { 'default': 'the default', 'command line': 'the command line', environment: 'the environment', file: 'the file' };

class Row {
  constructor(setting) {
    const id = 'setting-' + setting.name;
    this.input = setting.words?.length
      ? h('select', { id }, setting.words.map((word) => h('option', { value: word }, word)))
      : h('input', { id, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
    this.input.setAttribute('aria-describedby', `${id}-bounds ${id}-wrong`);
    this.input.addEventListener('input', () => { this.wrong(''); this.touched(); });
    this.input.addEventListener('keydown', (e) => { if (e.key === 'Escape') this.discard(); });
    this.save = h('button', { type: 'submit', class: 'primary', hidden: true }, 'Save');
    this.cancel = h('button', { type: 'button', hidden: true, onclick: () => { this.discard(); this.input.focus(); } }, 'Discard');
    this.reset = h('button', { type: 'button', hidden: true, onclick: () => this.put(null) }, 'Reset');
    this.error = h('p', { id: id + '-wrong', class: 'wrong', hidden: true });
    this.note = h('p', { class: 'note', hidden: true });
    this.origin = h('div', { class: 'setting-origin' });
    const form = h('form', { class: 'setting-edit', onsubmit: (e) => { e.preventDefault(); this.put(this.input.value.trim()); } },
      this.input, this.save, this.cancel, this.reset);
    this.element = h('li', { class: 'setting' },
      h('div', {}, h('label', { for: id, class: 'setting-name' }, setting.name), h('p', { class: 'hint' }, setting.help)),
      h('div', {}, form, h('p', { id: id + '-bounds', class: 'hint' }, setting.bounds), this.error, this.note),
      this.origin);
  }

  get dirty() { return this.setting && this.input.value.trim() !== this.shown; }

  // show takes up what the server says. What a person has typed stays, with a note when it was changed elsewhere meanwhile.
  show(setting) {
    const dirty = this.dirty;
    const before = this.shown;
    this.setting = setting;
    this.shown = plain(setting, setting.value);
    if (!dirty) this.input.value = this.shown;
    else if (before !== this.shown) this.noted(`It was set to ${this.shown} elsewhere meanwhile.`);
    this.element.classList.toggle('changed', !!setting.by);
    const flags = plain(setting, setting.flags);
    this.origin.replaceChildren();
    if (setting.by) {
      add(this.origin, h('p', {}, 'Set by ', h('strong', {}, setting.by), ', ', h('time', { datetime: setting.at }, when(setting.at)), '.'),
        h('p', { class: 'muted' }, `Before: ${flags}, from ${sources[setting.source]}.`));
    } else {
      add(this.origin, h('p', {}, 'From ', sources[setting.source], '.'));
    }
    if (setting.source !== 'default' || setting.by) {
      add(this.origin, h('p', { class: 'muted' }, `Default: ${plain(setting, setting.default)}.`));
    }
    this.reset.setAttribute('aria-label', `Reset ${setting.name} to ${flags}`);
    this.reset.title = `Return to ${flags}`;
    this.touched();
  }

  touched() {
    const dirty = this.dirty;
    this.element.classList.toggle('dirty', dirty);
    this.save.hidden = this.cancel.hidden = !dirty;
    this.reset.hidden = dirty || !this.setting.by;
    if (!dirty) this.noted('');
  }

  discard() {
    this.input.value = this.shown;
    this.wrong('');
    this.touched();
  }

  wrong(text) {
    this.error.textContent = text;
    this.error.hidden = !text;
    this.input.toggleAttribute('aria-invalid', false);
    if (text) this.input.setAttribute('aria-invalid', 'true');
  }

  noted(text) { this.note.textContent = text; this.note.hidden = !text; }

  // put sets the value, to what the flags say with null.
  async put(value) {
    this.wrong('');
    this.save.disabled = this.reset.disabled = true;
    try {
      const name = this.setting.name;
      const answer = value === null ? await call('DELETE', '/admin/settings/' + encodeURIComponent(name))
        : await call('PATCH', '/admin/settings', { [name]: value });
      const now = answer.settings.find((s) => s.name === name);
      this.shown = this.input.value = plain(now, now.value); // the server's way to write it
      take(answer);
      say(`${name} is ${this.shown}.`);
      if (document.activeElement === document.body) this.input.focus();
    } catch (problem) {
      const text = problem.fields?.[this.setting.name] ?? problem.message;
      this.wrong(text);
      announce(text);
      this.input.focus();
    } finally {
      this.save.disabled = this.reset.disabled = false;
    }
  }
}

function say(text) {
  $('configuration-said').replaceChildren(text ? h('span', { class: 'good' }, text) : '');
}

// take shows what the server says.
function take(answer) {
  state = answer;
  const box = $('configuration-groups');
  const services = [...new Set(answer.settings.map((s) => s.service))];
  if (box.dataset.services !== services.join()) {
    box.dataset.services = services.join();
    box.replaceChildren(...services.map((service) => {
      const title = 'configuration-' + service;
      return h('section', { class: 'configuration-group', 'aria-labelledby': title },
        h('h2', { id: title }, service === 'kernel' ? 'The server' : service[0].toUpperCase() + service.slice(1)),
        h('ul', { class: 'configuration-list' }, answer.settings.filter((s) => s.service === service).map((s) => {
          rows.set(s.name, new Row(s));
          return rows.get(s.name).element;
        })));
    }));
    if (!services.length) box.replaceChildren(h('p', { class: 'panel muted' }, 'No setting of this server may change while it serves.'));
  }
  box.setAttribute('aria-busy', 'false');
  answer.settings.forEach((s) => rows.get(s.name).show(s));
  $('configuration-undo').disabled = !answer.undo;
  filter();
  history(answer);
}

function filter() {
  const text = $('configuration-find').value.trim().toLowerCase();
  const only = $('configuration-changed').checked;
  let any = false;
  for (const { setting, element } of rows.values()) {
    const found = `${setting.name} ${setting.service} ${setting.help}`.toLowerCase().includes(text) && (!only || !!setting.by);
    element.hidden = !found;
    any ||= found;
  }
  for (const group of document.querySelectorAll('.configuration-group')) {
    group.hidden = !group.querySelector('.setting:not([hidden])');
  }
  if (rows.size && !any) $('configuration-said').textContent = only ? 'Nothing was changed that fits.' : 'No setting fits.';
  else if (!$('configuration-said').querySelector('.good')) $('configuration-said').textContent = '';
}

const value = (v) => v === null ? h('span', { class: 'muted' }, 'what the flags say') : h('code', {}, v);

// history shows what was changed, and what is kept and has no effect.
function history(answer) {
  const box = $('configuration-history');
  box.replaceChildren();
  if (answer.unused.length) {
    add(box, h('p', {}, 'Kept from before, and without effect:'), h('ul', {}, answer.unused.map((u) => h('li', {},
      h('code', {}, `${u.name} = ${u.value}`), ': ', u.why, ' ', h('button', { type: 'button', onclick: () => act('DELETE', '/admin/settings/' + encodeURIComponent(u.name), `${u.name} is forgotten.`) }, 'Forget')))));
  }
  if (!answer.changes.length) {
    add(box, h('p', { class: 'muted' }, 'Nothing was changed yet. Edit a value above, and save it.'));
    return;
  }
  add(box, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-labelledby': 'configuration-history-title' }, h('table', { class: 'list' },
    h('thead', {}, h('tr', {}, ['When', 'By', 'What', 'Undone'].map((t) => h('th', { scope: 'col' }, t)))),
    h('tbody', {}, answer.changes.map((c) => h('tr', {},
      h('td', { 'data-label': 'When' }, h('time', { datetime: c.at }, when(c.at))),
      h('td', { 'data-label': 'By' }, c.by),
      h('td', { class: 'run', 'data-label': 'What' }, c.values.map((v) => h('div', {}, h('strong', {}, v.name), ': ', value(v.from), ' → ', value(v.to)))),
      h('td', { 'data-label': 'Undone' }, c.undone_by ? [`by ${c.undone_by}, `, h('time', { datetime: c.undone_at }, when(c.undone_at))] : '–')))))));
}

async function act(method, path, said) {
  try {
    take(await call(method, path));
    trouble('');
    say(said);
  } catch (problem) {
    trouble(problem.message);
  }
}

async function load() {
  try {
    take(await call('GET', '/admin/settings'));
    trouble('');
  } catch (problem) {
    trouble(`The settings could not be loaded: ${problem.message}`);
    if (!state) $('configuration-groups').replaceChildren(h('p', { class: 'panel' }, 'Without them there is nothing to change. ', h('button', { type: 'button', onclick: load }, 'Try again')));
  }
}

$('configuration-find').addEventListener('input', filter);
$('configuration-changed').addEventListener('change', filter);
$('configuration-undo').addEventListener('click', () => act('POST', '/admin/settings/undo', 'The last change is undone.'));
addEventListener('beforeunload', (e) => { if ([...rows.values()].some((r) => r.dirty)) e.preventDefault(); });
listen('setting', load);
listen('snapshot', load);
load();
