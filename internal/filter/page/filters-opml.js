// Lists of subscriptions, in and out.

import { h } from './dom.js';
import { call } from './api.js';
import { filters } from './filters-parts.js';

const most = 16 << 20;

export async function show({ box }) {
  const report = h('div', { class: 'filters-said', role: 'status' });
  const wrong = h('p', { class: 'wrong', id: 'filters-file-wrong', hidden: true, role: 'alert' });
  const file = h('input', { type: 'file', id: 'filters-file', accept: '.opml,.xml,text/x-opml,text/xml,application/xml', 'aria-describedby': 'filters-file-wrong', onchange: () => check() });
  const fail = (text) => {
    wrong.textContent = text;
    wrong.hidden = !text;
    if (text) file.setAttribute('aria-invalid', 'true'); else file.removeAttribute('aria-invalid');
  };
  let opml = '';
  const send = async (dry) => {
    fail('');
    report.replaceChildren(h('p', { class: 'muted' }, dry ? 'Reading the list.' : 'Adding filters.'));
    try {
      return await call('POST', '/admin/filters/opml', { opml, dry_run: dry });
    } catch (problem) {
      report.replaceChildren();
      fail(problem.message);
    }
  };
  // check reads the file and says what would become of it.
  async function check() {
    report.replaceChildren();
    const chosen = file.files[0];
    if (!chosen) return;
    if (chosen.size > most) return fail('The file is larger than 16 MiB.');
    opml = await decode(chosen);
    const answer = await send(true);
    if (!answer) return;
    const go = h('button', { type: 'button', class: 'primary', disabled: !answer.added, onclick: async () => {
      go.disabled = true;
      const done = await send(false);
      if (done) report.replaceChildren(h('p', { class: 'good' }, `${filters(done.added)} added.`), h('p', {}, h('a', { href: '#/' }, 'Show them')), ...tables(done));
    } }, `Add ${filters(answer.added)}`);
    report.replaceChildren(h('p', {}, h('strong', {}, filters(answer.added)), ' would be added', answer.skipped ? `, ${answer.skipped.toLocaleString('en')} of the list skipped.` : ', none skipped.'), h('p', { class: 'actions' }, go), ...tables(answer, true));
  }
  box.replaceChildren(h('p', { class: 'filters-back' }, h('a', { href: '#/' }, '← All filters')),
    h('div', { class: 'filters-two' },
      h('section', { class: 'panel', 'aria-labelledby': 'filters-in' }, h('h2', { id: 'filters-in' }, 'Import'), h('p', {}, 'A list of subscriptions as OPML, from a reader or from weir. Each feed becomes a filter; what is there already is skipped. Nothing is added before you have seen what.'),
        h('div', { class: 'field' }, h('label', { for: 'filters-file' }, 'OPML file'), file, wrong), report),
      h('section', { class: 'panel', 'aria-labelledby': 'filters-out' }, h('h2', { id: 'filters-out' }, 'Export'), h('p', {}, 'All filters with their folders, tags and rules, as OPML. Readers import it as subscriptions, and weir as the same filters.'),
        h('p', { class: 'actions' }, h('a', { class: 'button', href: '/admin/filters/opml', download: 'filters.opml' }, 'Download filters.opml'), h('a', { class: 'button', href: '/admin/filters/backup', download: 'filters.db' }, 'Download the database')))));
}

// decode reads a file in the charset that it says it is in.
async function decode(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  const start = new TextDecoder('latin1').decode(data.subarray(0, 200));
  const said = start.startsWith('\xff\xfe') ? 'utf-16le' : start.startsWith('\xfe\xff') ? 'utf-16be' : start.match(/encoding=["']([\w-]+)/)?.[1] ?? 'utf-8';
  let text;
  try { text = new TextDecoder(said).decode(data); } catch { text = new TextDecoder().decode(data); }
  return text.replace(/^(<\?xml[^>]*?)encoding=["'][\w-]+["']/, '$1encoding="utf-8"');
}

function tables(answer, dry) {
  const part = (title, n, rows, columns) => rows.length ? h('details', { open: rows.length <= 20 }, h('summary', {}, `${title} (${n.toLocaleString('en')}${n > rows.length ? `, ${rows.length} shown` : ''})`),
    h('ul', { class: 'filters-report' }, rows.map((r) => h('li', {}, h('strong', {}, r.title || r.url), h('small', {}, columns(r)))))) : null;
  return [part('Skipped', answer.skipped, answer.reasons, (r) => `${r.reason} · ${r.url}`), part(dry ? 'To be added' : 'Added', answer.added, answer.filters, (r) => [r.folder, r.rules ? `${r.rules} rules` : '', r.url].filter(Boolean).join(' · '))].filter(Boolean);
}
