// The editor of rules, and the page of those that come before each filter's own.

import { h } from './dom.js';
import { call } from './api.js';

// RuleEditor is a field for the text of rules. It marks the place of an error and the rule that somebody points at, and says beside
// each rule how many items it matches.
export class RuleEditor {
  constructor({ id, label, value, onInput }) {
    this.rules = [];
    this.marked = 0;
    this.bad = null;
    this.gutter = h('div', { class: 'filters-gutter', 'aria-hidden': 'true' });
    this.mirror = h('div', { class: 'filters-mirror', 'aria-hidden': 'true' });
    this.text = h('textarea', { id, rows: 8, wrap: 'off', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', 'aria-describedby': `${id}-wrong ${id}-hint`,
      placeholder: 'title contains "sponsored"', oninput: () => { this.bad = null; this.rules = []; this.draw(); onInput?.(); }, onscroll: () => this.scrolled() });
    this.text.value = value ?? '';
    this.wrong = h('p', { class: 'wrong', id: id + '-wrong', hidden: true, role: 'status' });
    this.element = h('div', { class: 'field' }, h('label', { for: id }, label), h('div', { class: 'filters-editor' }, this.gutter, h('div', { class: 'filters-text' }, this.mirror, this.text)), this.wrong,
      h('p', { class: 'hint', id: id + '-hint' }, 'A rule a line: a field, how to compare, and a value, with and, or, not and parentheses. ', h('code', {}, 'age > 30d'), ', ', h('code', {}, 'author = "bot" and not title contains words "go"'), ', ', h('code', {}, 'any matches /black ?friday/'), '.'));
    this.draw();
  }

  get value() { return this.text.value; }

  // fail marks the place where a rule stops making sense.
  fail(bad) {
    this.bad = bad;
    this.rules = [];
    this.draw();
  }

  // show says what each rule matches.
  show(rules) {
    this.bad = null;
    this.rules = rules;
    this.draw();
  }

  // mark points at a rule by its number; 0 is none.
  mark(number) {
    this.marked = number;
    this.draw();
  }

  draw() {
    const lines = this.value.split('\n');
    const from = this.rules[this.marked - 1]?.line;
    const until = this.rules[this.marked]?.line ?? Infinity;
    this.mirror.replaceChildren(...lines.map((line, i) => {
      const n = i + 1;
      if (this.bad?.line === n) {
        const chars = [...line];
        const at = this.bad.column - 1;
        const rest = chars.slice(at).join('');
        const word = rest.match(/^("[^"]*"?|[\w.:+-]+|\S)/)?.[0] ?? ' ';
        return h('div', {}, chars.slice(0, at).join(''), h('mark', {}, word), rest.slice(word.length) || '\u200b');
      }
      return h('div', { class: from && n >= from && n < until && line.trim() ? 'marked' : null }, line || '\u200b');
    }));
    this.gutter.replaceChildren(...lines.map((_, i) => {
      const rule = this.rules.find((r) => r.line === i + 1);
      if (this.bad?.line === i + 1) return h('div', { class: 'bad' }, '✗');
      return h('div', { class: rule && !rule.matched ? 'none' : null }, rule ? String(rule.matched) : '\u200b');
    }));
    this.wrong.hidden = !this.bad;
    this.wrong.textContent = this.bad ? this.bad.text : '';
    if (this.bad) this.text.setAttribute('aria-invalid', 'true');
    else this.text.removeAttribute('aria-invalid');
    this.scrolled();
  }

  scrolled() {
    this.mirror.scrollTop = this.gutter.scrollTop = this.text.scrollTop;
    this.mirror.scrollLeft = this.text.scrollLeft;
  }
}

// modes is the choice of what becomes of what a rule matches.
export function modes(id, value, onChange) {
  const radios = ['drop', 'keep'].map((mode) => h('input', { type: 'radio', name: id, id: `${id}-${mode}`, value: mode, checked: (value || 'drop') === mode, onchange: onChange }));
  const element = h('div', { class: 'field', role: 'radiogroup', 'aria-label': 'What becomes of items that a rule matches' },
    h('div', { class: 'choices' }, ['Drop what a rule matches', 'Keep only that'].map((text, i) => h('label', {}, radios[i], h('span', {}, text)))));
  return { element, get value() { return radios.find((r) => r.checked).value; } };
}

export async function show({ box, alive }) {
  const now = await call('GET', '/admin/filters/rules');
  if (!alive()) return;
  const said = h('p', { class: 'good', role: 'status', hidden: true });
  const fresh = () => { said.hidden = true; };
  const editor = new RuleEditor({ id: 'filters-global', label: 'Rules', value: now.text, onInput: fresh });
  const mode = modes('filters-global-mode', now.mode, fresh);
  const save = h('button', { class: 'primary' }, 'Save');
  box.replaceChildren(h('p', { class: 'filters-back' }, h('a', { href: '#/' }, '← All filters')),
    h('form', { class: 'panel filters-narrow', novalidate: true, 'aria-labelledby': 'filters-global-title', onsubmit: async (e) => {
      e.preventDefault();
      save.disabled = true;
      try {
        const answer = await call('PUT', '/admin/filters/rules', { mode: mode.value, rules: editor.value });
        editor.show([]);
        said.textContent = answer.text ? 'Saved. They hold for the next answer of every filter.' : 'Saved: there are no global rules.';
        said.hidden = false;
      } catch (problem) {
        editor.fail({ text: problem.message, ...problem.place });
        editor.text.focus();
      } finally {
        save.disabled = false;
      }
    } }, h('h2', { id: 'filters-global-title' }, 'Global rules'), h('p', {}, 'They come before the rules of each filter: what one of them matches is decided here, and everything else is left to the filter.'),
    mode.element, editor.element, said, h('p', { class: 'actions' }, save)));
}
