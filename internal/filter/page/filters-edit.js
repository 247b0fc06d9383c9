// Adding a filter, by the address of a feed or of a page that links to some, and changing one. What the filter would keep and drop is
// shown while somebody types.

import { h, add as append, announce } from './dom.js';
import { call } from './api.js';
import { count } from './format.js';
import { path, nameOf, items, time, link } from './filters-parts.js';
import { RuleEditor, modes } from './filters-rules.js';

const typing = 300; // ms without a key until the preview is asked for

const back = (href, text) => h('p', { class: 'filters-back' }, h('a', { href }, '← ' + text));

// field is a labelled input with the place for what is wrong with it.
function field(name, label, input, hint, half) {
  const id = 'filters-' + name;
  const wrong = h('p', { class: 'wrong', id: id + '-wrong', hidden: true });
  input.id = id;
  input.setAttribute('aria-describedby', [id + '-wrong', hint && id + '-hint'].filter(Boolean).join(' '));
  const element = h('div', { class: 'field' + (half ? ' half' : '') }, h('label', { for: id }, label), input, hint && h('p', { class: 'hint', id: id + '-hint' }, hint), wrong);
  return { element, input, fail(text) {
    wrong.textContent = text ?? '';
    wrong.hidden = !text;
    if (text) input.setAttribute('aria-invalid', 'true'); else input.removeAttribute('aria-invalid');
  } };
}

export async function add({ box, alive, query }) {
  const input = h('input', { type: 'url', inputmode: 'url', autocomplete: 'off', spellcheck: 'false', placeholder: 'https://example.org/', value: query.get('url') ?? '' });
  const url = field('url', 'Address of a feed, or of a page that has one', input);
  const find = h('button', { class: 'primary', id: 'filters-find' }, 'Find feeds');
  const found = h('div', { role: 'status' });
  const rest = h('div', {});
  let number = 0;
  input.addEventListener('input', () => url.fail(''));
  const form = h('form', { class: 'panel filters-narrow', novalidate: true, onsubmit: async (e) => {
    e.preventDefault();
    const mine = ++number;
    url.fail('');
    rest.replaceChildren();
    let text = input.value.trim();
    if (!text) { url.fail('Enter an address, such as https://example.org/'); input.focus(); return; }
    if (!/^[a-z]+:/i.test(text)) input.value = text = 'https://' + text;
    found.replaceChildren(h('p', { class: 'muted' }, 'Looking for feeds.'));
    find.disabled = true;
    try {
      const answer = await call('POST', '/admin/filters/discover', { url: text });
      if (mine !== number || !alive()) return;
      const feeds = answer.feeds.filter((f) => !f.icon);
      found.replaceChildren();
      if (!feeds.length) { url.fail('There is no feed at this address, and the page links to none.'); input.focus(); return; }
      if (feeds.length === 1) return open([feeds[0]]);
      choose(feeds);
    } catch (problem) {
      if (mine !== number || !alive()) return;
      found.replaceChildren();
      url.fail(problem.fields.url ?? problem.message);
      input.focus();
    } finally {
      if (mine === number) find.disabled = false;
    }
  } }, h('h2', {}, 'Add a filter'), h('div', { class: 'filters-find' }, url.element, find), found);
  // choose lets somebody choose among the feeds of a page.
  function choose(feeds) {
    const boxes = feeds.map((f, i) => h('input', { type: 'checkbox', id: 'filters-feed-' + i, checked: i === 0, onchange: () => { go.disabled = !boxes.some((b) => b.checked); } }));
    const go = h('button', { type: 'button', id: 'filters-choose', class: 'primary', onclick: () => open(feeds.filter((_, i) => boxes[i].checked)) }, 'Continue');
    found.replaceChildren(h('fieldset', { class: 'filters-found' }, h('legend', {}, `The page links to ${feeds.length} feeds. Several become one, the newest items first.`),
      feeds.map((f, i) => h('div', { class: 'field check' }, boxes[i], h('label', { for: 'filters-feed-' + i }, f.title || f.url, h('small', { class: 'muted' }, f.title ? f.url : f.type ?? ''))))), h('p', { class: 'actions' }, go));
    boxes[0].focus();
  }
  function open(feeds) {
    rest.replaceChildren(new Editor({ urls: feeds.map((f) => f.url), title: feeds[0].title ?? '' }, alive).element);
    rest.querySelector('textarea[id="filters-rules"]').focus({ preventScroll: true });
    rest.scrollIntoView({ block: 'start' });
  }
  box.replaceChildren(back('#/', 'All filters'), form, rest);
  input.focus();
  if (input.value) form.requestSubmit();
}

export async function edit({ box, alive, id }) {
  const f = await call('GET', path(id));
  if (!alive()) return;
  box.replaceChildren(back('#/filter/' + id, nameOf(f)), h('h2', { class: 'filters-title' }, 'Edit ' + nameOf(f)), new Editor(f, alive).element);
}

const lines = (text) => text.split('\n').map((s) => s.trim()).filter(Boolean);

// Editor is the form of a filter with its preview. A filter without an id is new.
class Editor {
  constructor(f, alive) {
    this.filter = f;
    this.alive = alive;
    this.number = 0;
    const changed = () => this.later();
    const text = (value, more) => h('input', { value: value ?? '', autocomplete: 'off', oninput: changed, ...more });
    const option = (value, label, now) => h('option', { value, selected: value === (now ?? '') }, label);
    this.rules = new RuleEditor({ id: 'filters-rules', label: 'Rules', value: f.rules?.length ? f.rules.join('\n') + '\n' : '', onInput: changed });
    this.mode = modes('filters-mode', f.mode, changed);
    this.fields = {
      urls: field('urls', 'Sources', h('textarea', { rows: Math.min(4, Math.max(1, f.urls.length)), spellcheck: 'false', wrap: 'off', oninput: changed }), 'One a line; several become one feed.'),
      title: field('title', 'Title', text(f.title)),
      folder: field('folder', 'Folder', text(f.folder, { list: 'filters-folders', placeholder: 'News/Local' }), null, true),
      tags: field('tags', 'Tags', text(f.tags?.join(', '), { placeholder: 'go, work' }), null, true),
      limit: field('limit', 'At most', text(f.limit || '', { inputmode: 'numeric', placeholder: 'all items' }), null, true),
      sort: field('sort', 'Order', h('select', { oninput: changed }, option('', 'as the source has it', f.sort), option('newest', 'newest first', f.sort)), null, true),
      dedup: field('dedup', 'Each item once, by', h('select', { oninput: changed }, ['', 'guid', 'link', 'title', 'guid,link', 'guid,link,title'].map((v) => option(v, v ? v.replace('guid', 'GUID').replaceAll(',', ' or ') : 'nothing: leave repeats', f.dedup?.join(',')))), null, true),
      format: field('format', 'Format', h('select', { oninput: changed }, option('', 'that of the source', f.format), option('rss', 'RSS', f.format), option('atom', 'Atom', f.format), option('json', 'JSON Feed', f.format)), null, true),
    };
    const dedup = f.dedup?.join(',');
    if (dedup && this.fields.dedup.input.value !== dedup) append(this.fields.dedup.input, h('option', { value: dedup, selected: true }, dedup.replaceAll(',', ' or ')));
    this.fields.urls.input.value = f.urls.join('\n');
    this.report = h('input', { type: 'checkbox', id: 'filters-report', checked: f.report_failures, onchange: changed });
    this.folders = h('datalist', { id: 'filters-folders' });
    call('GET', '/admin/filters/labels').then((l) => this.folders.replaceChildren(...l.folders.map((x) => h('option', { value: x.name }))), () => {});
    this.wrong = h('p', { class: 'wrong', role: 'alert', hidden: true });
    this.save = h('button', { class: 'primary', id: 'filters-save' }, f.id ? 'Save' : 'Add the filter');
    const { title, folder, tags, urls, limit, sort, dedup: once, format } = this.fields;
    const form = h('form', { class: 'panel filters-form', novalidate: true, 'aria-label': 'Filter', onsubmit: (e) => { e.preventDefault(); this.store(); } },
      this.mode.element, this.rules.element,
      h('div', { class: 'fields' }, title.element, folder.element, tags.element, this.folders),
      h('details', { open: Boolean(f.limit || f.sort || dedup || f.format || f.report_failures) || null }, h('summary', {}, 'Sources, order and number'),
        h('div', { class: 'fields' }, urls.element, limit.element, sort.element, once.element, format.element,
          h('div', { class: 'field check' }, this.report, h('label', { for: 'filters-report' }, 'An item says so while the source fails')))),
      this.wrong, h('p', { class: 'actions' }, this.save, h('a', { class: 'button', href: f.id ? '#/filter/' + f.id : '#/' }, 'Cancel')));
    this.status = h('p', { role: 'status', class: 'muted' }, 'Loading the preview.');
    this.notes = h('ul', { class: 'filters-notes', tabindex: 0, 'aria-label': 'Notes' });
    this.kept = h('ul', { class: 'filters-items', tabindex: 0, 'aria-labelledby': 'filters-kept' });
    this.dropped = h('ul', { class: 'filters-items', tabindex: 0, 'aria-labelledby': 'filters-dropped' });
    this.keptTitle = h('h3', { id: 'filters-kept' }, 'Kept');
    this.droppedTitle = h('h3', { id: 'filters-dropped' }, 'Dropped');
    this.columns = h('div', { class: 'filters-columns' }, h('section', { 'aria-labelledby': 'filters-kept' }, this.keptTitle, this.kept), h('section', { 'aria-labelledby': 'filters-dropped' }, this.droppedTitle, this.dropped));
    this.preview = h('section', { class: 'panel filters-preview', id: 'filters-preview', 'aria-labelledby': 'filters-preview-title', 'aria-busy': 'true' }, h('div', { class: 'headline' }, h('h2', { id: 'filters-preview-title' }, 'Preview'), this.status), this.notes, this.columns);
    this.element = h('div', { class: 'filters-editing' }, form, this.preview);
    this.look();
  }

  // input is what the form says, as the server wants it.
  input() {
    const v = (name) => this.fields[name].input.value.trim();
    const limit = v('limit');
    return { urls: lines(v('urls')), title: v('title'), folder: v('folder').replace(/^\/+|\/+$/g, ''), tags: v('tags').split(',').map((t) => t.trim()).filter(Boolean),
      mode: this.mode.value, rules: this.rules.value, limit: limit === '' ? 0 : /^\d{1,9}$/.test(limit) ? Number(limit) : -1,
      sort: v('sort'), dedup: v('dedup').split(',').filter(Boolean), format: v('format'), report_failures: this.report.checked };
  }

  clear() {
    for (const f of Object.values(this.fields)) f.fail('');
    this.wrong.hidden = true;
  }

  // fail shows an error where it belongs, and whether it had a place.
  fail(problem) {
    let placed = false;
    for (const [name, text] of Object.entries(problem.fields ?? {})) {
      if (name === 'rules') { this.rules.fail({ text, ...problem.place }); placed = true; continue; }
      const f = this.fields[name === 'url' ? 'urls' : name];
      if (!f) continue;
      f.fail(text);
      const details = f.element.closest('details');
      if (details) details.open = true;
      placed = true;
    }
    return placed;
  }

  later() {
    this.number++; // what is under way comes too late
    this.preview.setAttribute('aria-busy', 'true');
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.look(), typing);
  }

  // look asks what the filter would keep and drop. Of answers only that to the last question is shown.
  async look() {
    const mine = ++this.number;
    const current = () => mine === this.number && this.alive();
    this.preview.setAttribute('aria-busy', 'true');
    try {
      const answer = await call('POST', '/admin/filters/preview', this.input());
      if (!current()) return;
      this.clear();
      if (answer.wrong) {
        this.rules.fail(answer.wrong);
        this.say('The rules cannot be read yet. What is below is from before.');
      } else {
        this.draw(answer);
      }
      this.preview.setAttribute('aria-busy', 'false');
    } catch (problem) {
      if (!current()) return;
      this.clear();
      const placed = this.fail(problem);
      this.preview.setAttribute('aria-busy', 'false');
      this.say(placed && problem.status === 422 ? 'Mend what is marked to see what would stay.' : problem.message,
        problem.status === 422 ? null : h('button', { type: 'button', onclick: () => this.look() }, 'Try again'));
    }
  }

  say(text, ...more) { this.status.replaceChildren(text, ...more.filter(Boolean)); }

  draw(p) {
    this.rules.show(p.rules);
    this.rules.mark(0);
    this.say(p.kept + p.dropped === 0 ? (p.feeds?.length ? 'This is a page, not a feed.' : 'The source has no items.') : `${count(p.kept)} of ${items(p.kept + p.dropped)} would stay.`);
    const numbered = (n) => (n.rule ? `Rule ${n.rule}: ` : '') + n.text;
    this.notes.replaceChildren(...(p.notes ?? []).map((n) => h('li', {}, numbered(n))), ...(p.damage ?? []).map((d) => h('li', {}, 'The source is damaged, which was mended: ' + d)),
      ...(p.feeds ?? []).filter((f) => !f.icon).map((f) => h('li', {}, 'The page links to ', h('a', { href: '#/add?url=' + encodeURIComponent(f.url) }, f.title || f.url))));
    this.keptTitle.textContent = `Kept (${count(p.kept)})`;
    this.droppedTitle.textContent = `Dropped (${count(p.dropped)})`;
    const fill = (to, kept, all, empty) => {
      const shown = p.items.filter((i) => i.kept === kept);
      to.replaceChildren(...shown.map((i) => this.item(i)));
      if (!shown.length) to.append(h('li', { class: 'muted filters-nothing' }, empty));
      else if (shown.length < all) to.append(h('li', { class: 'muted filters-nothing' }, `and ${count(all - shown.length)} more`));
    };
    fill(this.kept, true, p.kept, 'Nothing stays.');
    fill(this.dropped, false, p.dropped, 'Nothing is dropped.');
  }

  item(i) {
    const point = (number) => () => this.rules.mark(number);
    const why = i.rule ? (i.number
      ? h('button', { type: 'button', class: 'filters-why', onclick: () => { this.rules.mark(i.number); this.rules.element.scrollIntoView({ block: 'nearest' }); }, onfocus: point(i.number), onblur: point(0) }, h('b', {}, 'Rule ' + i.number), ' ', h('code', {}, i.rule))
      : h('p', { class: 'filters-why' }, h('b', {}, 'Global rule'), ' ', h('code', {}, i.rule))) : null;
    return h('li', i.number ? { onmouseenter: point(i.number), onmouseleave: point(0) } : {}, h('p', { class: 'filters-item' }, link(i.url, i.title || '(no title)')), i.date ? h('small', { class: 'muted' }, time(i.date)) : null, why,
      i.reason ? h('p', { class: 'filters-why' }, i.reason) : null);
  }

  async store() {
    this.clear();
    this.save.disabled = true;
    try {
      const f = this.filter.id ? await call('PATCH', path(this.filter.id), this.input()) : await call('POST', '/admin/filters', this.input());
      announce(this.filter.id ? 'Saved.' : 'The filter was added.');
      location.hash = '#/filter/' + f.id;
    } catch (problem) {
      if (this.fail(problem)) {
        this.element.querySelector('[aria-invalid]')?.focus();
      } else {
        this.wrong.textContent = problem.message;
        this.wrong.hidden = false;
      }
    } finally {
      this.save.disabled = false;
    }
  }
}
