// Parts of a page that are asked for, and what they show meanwhile and when that fails.

import { h } from './dom.js';

// section fills an element: ask gets what draw shows in it. Until then it says what it did, and when asking fails why, with a button that
// tries again. It returns a function that asks anew.
export function section(element, ask, draw) {
  const failed = h('div', { class: 'panel actions', role: 'alert', hidden: true });
  element.before(failed);
  let turn = 0;
  const refresh = async () => {
    const mine = ++turn;
    let found;
    try {
      found = await ask();
    } catch (problem) {
      if (mine !== turn) return;
      element.removeAttribute('aria-busy');
      element.hidden = true;
      failed.replaceChildren(h('p', { class: 'wrong' }, problem.message), h('button', { type: 'button', onclick: refresh }, 'Try again'));
      failed.hidden = false;
      return;
    }
    if (mine !== turn) return; // it was asked for anew meanwhile
    failed.hidden = true;
    element.hidden = false;
    element.removeAttribute('aria-busy');
    draw(found);
  };
  return refresh;
}

// every calls f now and then, unless nobody looks at the page; the next call comes after the one before has ended.
export function every(milliseconds, f) {
  const again = async () => {
    if (!document.hidden) await f();
    setTimeout(again, milliseconds);
  };
  again();
}

// tiles shows names and values: [name, value, true or 'warn' for what needs a look, or 'wide' for what is long].
export function tiles(list, values) {
  list.replaceChildren(...values.map(([name, value, kind]) =>
    h('div', { class: 'tile' + (kind ? ' ' + (kind === true ? 'warn' : kind) : '') }, h('dt', {}, name), h('dd', {}, value))));
}
