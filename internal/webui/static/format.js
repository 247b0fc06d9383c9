// Numbers for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const two = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

const one = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

function digits(v) {
  const a = Math.abs(v);
  return (a >= 100 ? whole : a >= 10 ? one : two).format(v);
}

export const NONE = '\u2013';

export const count = (v) => v == null ? NONE : whole.format(v);
export const rate = (v) => v == null ? NONE : digits(v) + '/s';
export const percent = (v) => v == null || !isFinite(v) ? NONE : v === 0 ? '0\u00a0%' : v < 0.0001 ? '<0.01\u00a0%' : digits(v * 100) + '\u00a0%';

// short is a number for an axis: 12k.
export function short(v) {
  const a = Math.abs(v);
  if (a >= 1e6) return two.format(v / 1e6) + 'M';
  if (a >= 1e4) return two.format(v / 1e3) + 'k';
  return two.format(v);
}

export function micros(us) {
  if (us == null) return NONE;
  if (us >= 1e6) return digits(us / 1e6) + '\u00a0s';
  if (us >= 1e3) return digits(us / 1e3) + '\u00a0ms';
  return digits(us) + '\u00a0\u00b5s';
}

export function bytes(b) {
  if (b == null) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (b >= 1024 && i < units.length - 1) { b /= 1024; i++; }
  return digits(b) + '\u00a0' + units[i];
}

export const cpus = (v) => v == null ? NONE : v.toFixed(2) + '\u00a0CPU';

export function seconds(s) {
  if (s == null) return NONE;
  if (s < 59.5) return digits(s) + '\u00a0s';
  const m = Math.floor(Math.round(s) / 60);
  const rest = Math.round(s) % 60;
  if (m < 60) return m + '\u00a0min' + (rest ? ' ' + rest + '\u00a0s' : '');
  return Math.floor(m / 60) + '\u00a0h ' + (m % 60) + '\u00a0min';
}

// clock is a time on an axis.
export function clock(s) {
  if (s < 59.5) return two.format(s) + '\u00a0s';
  const m = Math.floor(Math.round(s) / 60);
  const rest = Math.round(s) % 60;
  return m + ':' + String(rest).padStart(2, '0');
}

const when_ = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
export const when = (t) => { const d = new Date(t); return isNaN(d) ? NONE : when_.format(d); };

// change is a relative change: +12 %.
export const change = (v) => v === 0 ? '0\u00a0%' : (v > 0 ? '+' : v < 0 ? '\u2212' : '') + (Math.abs(v) * 100).toFixed(Math.abs(v) < 0.1 ? 1 : 0) + '\u00a0%';
