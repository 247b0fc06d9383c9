// One filter: its address, its rules and what they match, its sources and how they were fetched.

import { h, announce, sure, trouble } from './dom.js';
import { call } from './api.js';
import { bytes, count } from './format.js';
import { path, nameOf, time, icon, state, copier, address, tags, items, link } from './filters-parts.js';

export async function show({ box, alive, id }) {
  const f = await call('GET', path(id));
  if (alive()) draw(box, alive, f);
}

function draw(box, alive, f) {
  const name = nameOf(f);
  const fetching = f.sources.some((s) => s.fetching);
  const now = h('button', { type: 'button', id: 'filters-fetch', disabled: fetching, onclick: async () => {
    now.disabled = true;
    now.textContent = 'Fetching';
    try {
      const after = await call('POST', path(f.id) + '/fetch');
      if (!alive()) return;
      draw(box, alive, after);
      const bad = after.sources.find((s) => s.failures > 0);
      announce(bad ? 'It could not be fetched: ' + bad.error : 'It was fetched.');
      box.querySelector('#filters-fetch').focus();
    } catch (problem) {
      trouble(problem.message);
      now.disabled = false;
      now.textContent = 'Fetch now';
    }
  } }, fetching ? 'Fetching' : 'Fetch now');
  const remove = sure('Delete', 'Really delete it?', async () => {
    try {
      await call('DELETE', path(f.id));
      announce(`${name} was deleted.`);
      location.hash = '#/';
    } catch (problem) {
      trouble(problem.message);
    }
  }, { class: 'danger' });
  const feed = h('input', { id: 'filters-address', readonly: true, value: address(f), onfocus: () => feed.select() });
  box.replaceChildren(h('p', { class: 'filters-back' }, h('a', { href: '#/' }, '← All filters')),
    h('div', { class: 'headline filters-head' },
      h('div', { class: 'filters-name' }, icon(f), h('div', {}, h('h2', { class: 'filters-title' }, name), h('p', { class: 'muted' }, state(f), f.folder ? [' · ', h('a', { href: '#/?folder=' + encodeURIComponent(f.folder) }, f.folder)] : null, f.tags?.length ? [' ', tags(f)] : null))),
      h('p', { class: 'actions' }, now, h('a', { class: 'button primary', id: 'filters-edit', href: '#/edit/' + f.id }, 'Edit'), remove)),
    h('section', { class: 'panel', 'aria-labelledby': 'filters-address-title' }, h('h2', { id: 'filters-address-title' }, 'The filtered feed'),
      h('div', { class: 'filters-address' }, h('label', { class: 'unseen', for: 'filters-address' }, 'Address of the feed'), feed, copier(address(f), name)),
      h('p', { class: 'hint' }, f.url ? 'Subscribe to it in a reader. Whoever has this address can read it. ' : 'This is the path on the public port: start weir with --filter-url to see whole addresses here. ', 'With ', h('code', {}, '.rss'), ', ', h('code', {}, '.atom'), ' or ', h('code', {}, '.json'), ' at its end it is converted.')),
    rules(f), ...f.sources.map((s, i) => source(s, f.urls[i])));
  if (fetching) setTimeout(() => { if (alive()) call('GET', path(f.id)).then((g) => { if (alive()) draw(box, alive, g); }, () => {}); }, 1500);
}

function rules(f) {
  const other = [f.limit && `the first ${f.limit}`, f.sort === 'newest' && 'the newest first', f.dedup?.length && `each once, by ${f.dedup.join(', ')}`, f.format && `as ${f.format}`, f.report_failures && 'with an item that says so while a source fails'].filter(Boolean);
  const verb = f.mode === 'keep' ? 'Keeps only' : 'Drops';
  return h('section', { class: 'panel', 'aria-labelledby': 'filters-rules-title' }, h('h2', { id: 'filters-rules-title' }, 'Rules'),
    f.rules?.length ? [h('p', {}, `${verb} the items that one of these matches:`), h('ol', { class: 'filters-rules' }, f.rules.map((rule, i) => {
      const m = f.matches?.[i];
      return h('li', {}, h('code', {}, rule), m ? h('small', { class: 'muted' }, m.items ? ` matches ${items(m.items)} now` : '') : null,
        f.notes?.filter((n) => n.rule === i + 1).map((n) => h('small', { class: 'filters-note' }, n.text.replace(/^line \d+, column \d+: /, ''))));
    }))] : h('p', { class: 'muted' }, f.mode === 'keep' ? 'It keeps what a rule matches, and has no rule: nothing is kept.' : 'It has no rules of its own: nothing is dropped.'),
    other.length ? h('p', {}, 'It gives ', other.join(', '), '.') : null);
}

function source(s, url) {
  const facts = [
    ['State', s.gone ? 'Gone: it has said so, and is asked no more' : s.failures ? `Failing, ${s.failures === 1 ? 'once' : count(s.failures) + ' times'}` : s.succeeded ? 'Works' : 'Not fetched yet'],
    ['Last success', s.succeeded ? time(s.succeeded) : '–'],
    ['Next fetch', s.gone ? '–' : s.next ? time(s.next) : 'when somebody reads it'],
    ['New items, ever', count(s.items)], ['Filters that have it', count(s.filters)],
  ];
  return h('section', { class: 'panel filters-source' }, h('h2', {}, s.title || 'Source'), h('p', { class: 'filters-url' }, link(url, s.url)),
    s.error ? h('p', { class: 'wrong' }, s.error, s.gone ? '' : '. It is asked again after a pause that doubles with each failure, or when it says; meanwhile readers get what came last.') : null,
    h('dl', { class: 'tiles' }, facts.map(([name, value]) => h('div', { class: 'tile' + (name === 'State' && (s.failures || s.gone) ? ' warn' : '') }, h('dt', {}, name), h('dd', {}, value)))),
    s.history?.length ? h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Fetches of ' + (s.title || s.url) }, h('table', { class: 'filters-history' },
      h('caption', {}, 'Last fetches'), h('thead', {}, h('tr', {}, ['When', 'Status', 'Size', 'Took', 'What came'].map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', {}, s.history.map((a) => h('tr', { class: a.error ? 'failed' : null }, h('td', {}, time(a.at)), h('td', {}, a.status ? String(a.status) : '–'), h('td', {}, a.bytes ? bytes(a.bytes) : '–'), h('td', {}, a.seconds < 0.001 ? '<1\u00a0ms' : a.seconds < 1 ? Math.round(a.seconds * 1000) + '\u00a0ms' : a.seconds.toFixed(1) + '\u00a0s'),
        h('td', {}, a.error ? [h('strong', {}, a.error), a.detail ? h('small', {}, a.detail) : null] : a.unchanged ? h('span', { class: 'muted' }, 'unchanged') : 'a new version')))))) : h('p', { class: 'muted' }, 'It was not fetched yet: fetch it now, or ask for the feed.'));
}
