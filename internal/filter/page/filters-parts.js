// What several pages of filters show.

import { h, announce } from './dom.js';

export const path = (id) => '/admin/filters/' + encodeURIComponent(id);
export const nameOf = (f) => f.title || f.sources?.[0]?.title || f.urls[0].replace(/^https?:\/\//, '');
export const items = (n) => n === 1 ? '1 item' : n.toLocaleString('en') + ' items';
export const filters = (n) => n === 1 ? '1 filter' : n.toLocaleString('en') + ' filters';

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const steps = [[60, 'second'], [60, 'minute'], [24, 'hour'], [7, 'day'], [4.35, 'week'], [12, 'month'], [Infinity, 'year']];

// time shows how long ago something is, or how soon; exactly to who points at it.
export function time(at) {
  let n = (new Date(at) - Date.now()) / 1000;
  let unit = 'second';
  for (const [many, name] of steps) {
    unit = name;
    if (Math.abs(n) < many) break;
    n /= many;
  }
  return h('time', { datetime: at, title: exact.format(new Date(at)) }, relative.format(Math.round(n), unit));
}

// icon shows the icon of a filter, and a letter until there is one.
export function icon(f) {
  const letter = h('span', { class: 'filters-icon', 'aria-hidden': 'true' }, (nameOf(f).match(/[\p{L}\p{N}]/u)?.[0] ?? '·').toUpperCase());
  if (!f.icon) return letter;
  const img = h('img', { class: 'filters-icon', alt: '', width: 24, height: 24, loading: 'lazy', hidden: true, src: f.icon });
  let tries = 0;
  img.addEventListener('load', () => { img.hidden = false; letter.hidden = true; });
  img.addEventListener('error', () => { // it is being looked for, perhaps
    if (++tries < 3 && img.isConnected) setTimeout(() => { img.src = f.icon + '?' + tries; }, 2000 * tries);
  });
  img.loading = 'eager'; // a hidden one would never be near the window
  return h('span', { class: 'filters-icons' }, letter, img);
}

// state says how the sources of a filter are, in few words.
export function state(f) {
  const all = f.sources ?? [];
  const gone = all.find((s) => s.gone);
  const bad = all.find((s) => s.failures > 0);
  const oldest = all.map((s) => s.succeeded).sort()[0];
  if (gone) return h('span', { class: 'filters-state failing' }, 'Gone for good');
  if (bad) return h('span', { class: 'filters-state failing' }, 'Failing: ', bad.error);
  if (!oldest) return h('span', { class: 'filters-state new' }, 'Not fetched yet');
  return h('span', { class: 'filters-state well' }, 'Works');
}

// copier is a button that copies a text.
export function copier(text, what) {
  const b = h('button', { type: 'button', 'aria-label': 'Copy the address of ' + what, title: text, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      b.textContent = 'Copied';
      announce('Copied: ' + text);
    } catch {
      prompt('The address of the feed:', text);
    }
    setTimeout(() => { b.textContent = 'Copy'; }, 2000);
  } }, 'Copy');
  return b;
}

// address is where readers get a filter: its URL, or the path where nobody has said what the public port is called.
export const address = (f) => f.url ?? f.path;

// link makes a link to another site of what a feed says, where that is one.
export function link(url, text) {
  if (!/^https?:\/\//i.test(url ?? '')) return h('span', {}, text);
  return h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, text);
}

export const tags = (f) => f.tags?.map((t) => h('a', { class: 'filters-tag', href: '#/?tag=' + encodeURIComponent(t) }, t));
