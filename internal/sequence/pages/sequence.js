import { $, h, announce } from './dom.js';
import { call } from './api.js';
import { listen } from './live.js';
import { section, every, tiles } from './section.js';
import * as f from './format.js';

function draw(s) {
  $('sequence-loading').hidden = true;
  $('sequence-found').hidden = false;
  tiles($('sequence-index'), [['Index', f.count(s.index)], ['Largest', f.count(s.maxIndex), 'wide'], ['Digits of the value', f.count(s.digits)],
    ['Not synced for', f.seconds(s.lagSeconds)]]);
  $('sequence-value').textContent = !s.first ? `F(${s.index}) is computed when somebody asks for it.`
    : `F(${s.index}) = ` + s.first + (s.last ? ' \u2026 ' + s.last : '');
  const c = s.cache, all = c.direct + c.close + c.miss;
  const kinds = [['As they were', c.direct], ['By steps from others', c.close], ['Computed from nothing', c.miss]];
  $('sequence-share').replaceChildren(...kinds.map(([, n]) => {
    const part = h('span');
    part.style.flex = `${all ? n / all : 0} 0 0`;
    return part;
  }));
  $('sequence-share').setAttribute('aria-label', all ? kinds.map(([name, n]) => `${name}: ${f.percent(n / all)}`).join(', ') : 'No value was given yet');
  tiles($('sequence-cache'), [...kinds.map(([name, n]) => [name, f.count(n)]), ['Pairs kept', f.count(c.pairs)],
    ['Size of these', f.bytes(c.bytes)], ['Bound', f.bytes(c.limit)]]);
  const w = s.computations;
  tiles($('sequence-computations'), [['Requests waiting', f.count(w.waiting), w.waiting >= w.maxWaiting], ['May wait', f.count(w.maxWaiting)],
    ['Memory', f.bytes(w.bytes)], ['Memory bound', f.bytes(w.maxBytes)], ['Refused', f.count(w.refused)], ['Given up', f.count(w.cancelled)]]);
  $('sequence-values').replaceChildren(w.values.length === 0 ? h('p', { class: 'muted' }, 'Nothing is being computed.')
    : h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Values under way' }, h('table', { class: 'figures' },
      h('thead', {}, h('tr', {}, ['Value', 'Digits', 'Requests', 'State'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, w.values.map((v) => h('tr', {}, h('th', { scope: 'row' }, `F(${v.index})`), h('td', {}, f.count(v.digits)),
        h('td', {}, f.count(v.waiting)), h('td', {}, v.started ? 'computing' : 'waits for its turn')))))));
}

const refresh = section($('sequence'), () => call('GET', '/admin/sequence'), draw);
every(1000, refresh);
listen('snapshot', refresh);

$('sequence-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  const wrong = (text) => { $('sequence-wrong').textContent = text; $('sequence-wrong').hidden = !text; $('sequence-to').setAttribute('aria-invalid', String(Boolean(text))); };
  const text = $('sequence-to').value.trim();
  if (!/^\d{1,10}$/.test(text)) { wrong('The index is a whole number of up to ten digits.'); return; }
  try {
    const at = await call('PUT', '/current', { index: Number(text) });
    wrong('');
    $('sequence-to').value = '';
    announce(`The index is ${at.index}.`);
    refresh();
  } catch (problem) { wrong(problem.message); }
});
