// The list of filters, a page at a time, by folder, tag, state and words.

import { h, add } from './dom.js';
import { call } from './api.js';
import { count } from './format.js';
import { nameOf, time, icon, state, copier, address, tags, filters } from './filters-parts.js';

const atOnce = 50;

export async function show({ box, alive, query }) {
  const at = { q: query.get('q') ?? '', folder: query.get('folder') ?? '', tag: query.get('tag') ?? '', state: query.get('state') ?? '' };
  const [labels, page] = await Promise.all([call('GET', '/admin/filters/labels'), ask(at)]);
  if (!alive()) return;
  box.replaceChildren(head(labels));
  if (!labels.filters) return add(box, nothing());
  const rows = h('tbody', {});
  const table = h('table', { class: 'list filters-list' }, h('caption', { class: 'unseen' }, 'Filters'),
    h('thead', {}, h('tr', {}, ['Filter', 'Folder and tags', 'State', 'Last success', 'Address'].map((t) => h('th', { scope: 'col' }, t)))), rows);
  const more = h('button', { type: 'button' }, 'Show more');
  const note = h('p', { class: 'muted', role: 'status' });
  let after = '';
  let number = 0; // of the last request: what an older one is answered comes too late
  const take = (answer, fresh) => {
    if (fresh) rows.replaceChildren();
    rows.append(...answer.filters.map(row));
    after = answer.after ?? '';
    more.hidden = !after;
    const shown = rows.childElementCount;
    table.hidden = !shown;
    note.textContent = shown ? `${filters(shown)}${after ? ', and more' : ''}.` : 'No filter is like that.';
  };
  const load = async (fresh) => {
    const mine = ++number;
    table.setAttribute('aria-busy', 'true');
    more.disabled = true;
    try {
      const answer = await ask(at, fresh ? '' : after);
      if (mine === number && alive()) take(answer, fresh);
    } catch (problem) {
      if (mine === number && alive()) note.textContent = problem.message;
    } finally {
      if (mine === number) { table.removeAttribute('aria-busy'); more.disabled = false; }
    }
  };
  more.addEventListener('click', () => load(false));
  let soon = 0;
  const search = h('input', { type: 'search', id: 'filters-q', value: at.q, autocomplete: 'off', placeholder: 'Title, address, folder or tag', oninput: () => {
    at.q = search.value.trim();
    clearTimeout(soon);
    soon = setTimeout(() => { history.replaceState(null, '', place(at)); load(true); }, 250);
  } });
  const failing = h('input', { type: 'checkbox', id: 'filters-failing', checked: at.state === 'failing', onchange: () => {
    at.state = failing.checked ? 'failing' : '';
    history.replaceState(null, '', place(at));
    load(true);
  } });
  const side = h('details', { class: 'panel filters-side', open: matchMedia('(min-width: 60rem)').matches },
    h('summary', {}, h('h2', {}, 'Folders and tags')), choices(labels, at));
  add(box, h('div', { class: 'filters-browse' }, side, h('section', { class: 'filters-main', 'aria-label': 'Filters' },
    h('div', { class: 'filters-bar' }, h('div', { class: 'field' }, h('label', { for: 'filters-q' }, 'Search'), search),
      h('div', { class: 'field check' }, failing, h('label', { for: 'filters-failing' }, `Failing only (${count(labels.failing)} of ${count(labels.sources)} sources)`))),
    where(at), table, h('p', { class: 'actions' }, note, more))));
  take(page, true);
}

const place = (at) => '#/?' + new URLSearchParams(Object.entries(at).filter(([, v]) => v));

function ask(at, after = '') {
  const query = new URLSearchParams({ limit: atOnce, after });
  for (const [name, value] of Object.entries(at)) if (value) query.set(name, value);
  return call('GET', '/admin/filters?' + query);
}

function head(labels) {
  return h('div', { class: 'headline filters-head' },
    h('p', { class: 'lead muted' }, labels.filters ? `${filters(labels.filters)} of ${count(labels.sources)} sources` + (labels.failing ? `, of which ${count(labels.failing)} cannot be fetched.` : ', all of which can be fetched.') : 'Other people’s feeds, without what you do not want to read.'),
    h('p', { class: 'actions' }, h('a', { class: 'button primary', id: 'filters-add', href: '#/add' }, 'Add a filter'),
      h('a', { class: 'button', href: '#/rules' }, 'Global rules'), h('a', { class: 'button', href: '#/opml' }, 'Import and export')));
}

function nothing() {
  return h('div', { class: 'panel filters-empty' }, h('h2', {}, 'No filters yet'),
    h('p', {}, 'A filter takes somebody’s feed, leaves out what its rules drop, and gives it an address of its own to subscribe to.'),
    h('p', { class: 'actions' }, h('a', { class: 'button primary', href: '#/add' }, 'Add the first'), h('a', { class: 'button', href: '#/opml' }, 'Import a list of subscriptions')));
}

// where says what the list is narrowed to, with the way back.
function where(at) {
  const parts = [at.folder && `in ${at.folder}`, at.tag && `tagged ${at.tag}`].filter(Boolean);
  if (!parts.length) return null;
  return h('p', { class: 'filters-where' }, 'Filters ', h('strong', {}, parts.join(', ')), ' ', h('a', { href: place({ ...at, folder: '', tag: '' }) }, 'Show all'));
}

function choices(labels, at) {
  const choice = (href, text, n, current, depth) => h('li', { class: 'filters-depth-' + Math.min(depth, 4) },
    h('a', { href, 'aria-current': current ? 'true' : null }, h('span', {}, text), h('span', { class: 'muted' }, count(n))));
  // A folder counts what is within it, and is there though it has nothing but folders.
  const all = new Map();
  for (const { name, filters } of labels.folders) {
    name.split('/').reduce((parent, part) => {
      const full = parent ? parent + '/' + part : part;
      all.set(full, (all.get(full) ?? 0) + filters);
      return full;
    }, '');
  }
  const names = [...all.keys()].sort((a, b) => a.split('/').join('\0') < b.split('/').join('\0') ? -1 : 1);
  return [h('nav', { 'aria-label': 'Folders' }, h('ul', { class: 'filters-choices' }, choice('#/', 'All', labels.filters, !at.folder && !at.tag, 0),
    names.map((name) => choice(place({ folder: name }), name.split('/').pop() || '(no name)', all.get(name), at.folder === name, name.split('/').length - 1)))),
  labels.tags.length ? h('nav', { 'aria-label': 'Tags' }, h('h3', {}, 'Tags'), h('ul', { class: 'filters-choices' },
    labels.tags.map((t) => choice(place({ tag: t.name }), t.name, t.filters, at.tag === t.name, 0)))) : null];
}

function row(f) {
  const name = nameOf(f);
  const source = f.sources?.[0];
  const from = f.urls.length > 1 ? `${f.urls.length} sources` : (source?.title && source.title !== name ? source.title + ' · ' : '') + f.urls[0].replace(/^https?:\/\//, '');
  const last = f.sources?.map((s) => s.succeeded).filter(Boolean).sort().pop();
  const label = f.folder || f.tags?.length;
  return h('tr', {},
    h('td', { class: 'run' }, h('div', { class: 'filters-name' }, icon(f), h('div', {}, h('a', { href: '#/filter/' + f.id }, name), h('small', {}, from)))),
    h('td', { 'data-label': 'Folder and tags', class: label ? null : 'filters-none' }, f.folder ? h('a', { class: 'filters-folder', href: place({ folder: f.folder }) }, f.folder) : null, ' ', tags(f)),
    h('td', { 'data-label': 'State' }, state(f)),
    h('td', { 'data-label': 'Last success' }, last ? time(last) : '–'),
    h('td', { 'data-label': 'Actions' }, copier(address(f), name)));
}
