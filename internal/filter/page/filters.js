// The pages of filters: which one is shown is said by the place in the address, #/edit/ID.

import { $, announce, trouble, h } from './dom.js';
import { listen } from './live.js';
import { show as list } from './filters-list.js';
import { add, edit } from './filters-edit.js';
import { show as one } from './filters-one.js';
import { show as rules } from './filters-rules.js';
import { show as opml } from './filters-opml.js';

const views = { list, add, edit, filter: one, rules, opml };
let current = 0;

// go shows what the address says. A view gets the rest of the place, its parameters, and whether it is still the one that is shown.
async function go() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const mine = ++current;
  const box = $('filters');
  const alive = () => mine === current;
  box.setAttribute('aria-busy', 'true');
  trouble('');
  try {
    await (views[name] ?? list)({ box, alive, id: rest.join('/'), query: new URLSearchParams(query) });
  } catch (problem) {
    if (!alive()) return;
    box.replaceChildren(h('div', { class: 'panel filters-empty', role: 'alert' },
      h('h2', {}, problem.status === 404 ? 'There is no such filter' : 'This could not be loaded'), h('p', {}, problem.message),
      h('p', { class: 'actions' }, h('button', { type: 'button', class: 'primary', onclick: go }, 'Try again'), h('a', { class: 'button', href: '#/' }, 'All filters'))));
    announce(problem.message);
  } finally {
    if (alive()) {
      box.setAttribute('aria-busy', 'false');
      document.documentElement.dataset.ready = 'yes';
    }
  }
}

addEventListener('hashchange', async () => {
  await go();
  const heading = $('filters').querySelector('h2');
  if (heading && !$('filters').contains(document.activeElement)) { heading.tabIndex = -1; heading.focus(); }
});
listen('snapshot', () => {}); // for the frame, which says whether the server is there
go();
