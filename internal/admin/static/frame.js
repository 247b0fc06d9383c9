// What all pages share: the switch of the theme, and the way out.

import { $, announce } from './dom.js';
import { call, onRefused } from './api.js';
import { repaint } from './plots.js';

// Pages stay where they are when a session has ended: what was typed is not lost, and the login leads back.
onRefused(() => { location.href = '/login?to=' + encodeURIComponent(location.pathname + location.search + location.hash); });

const root = document.documentElement;
const dark = matchMedia('(prefers-color-scheme: dark)');
const shown = () => root.dataset.theme ?? (dark.matches ? 'dark' : 'light');
const other = () => shown() === 'dark' ? 'light' : 'dark';

function label() {
  $('theme').textContent = other() === 'dark' ? 'Dark' : 'Light';
  $('theme').setAttribute('aria-label', `Switch to ${other()} colours`);
}

$('theme').addEventListener('click', () => {
  root.dataset.theme = other();
  try { localStorage.setItem('weir-theme', root.dataset.theme); } catch { /* not remembered */ }
  label();
  repaint();
  announce(`The colours are ${shown()}.`);
});
dark.addEventListener('change', label);
label();

if (document.cookie.includes('weir-logged-in=1')) {
  $('logout').hidden = false;
  $('logout').addEventListener('click', async () => {
    await call('DELETE', '/admin/session');
    location.href = '/login';
  });
}

// For who waits until all modules have run.
addEventListener('load', () => { root.dataset.ready = 'yes'; });
