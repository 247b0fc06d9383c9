// Takes the password and goes where the person wanted to.

import { $ } from './dom.js';
import { call } from './api.js';

$('login').addEventListener('submit', async (e) => {
  e.preventDefault();
  const button = e.target.querySelector('button');
  button.disabled = true;
  try {
    await call('POST', '/admin/session', { secret: $('secret').value });
    const to = new URLSearchParams(location.search).get('to') ?? '';
    location.replace(/^\/ui\/[\w-]+([?#].*)?$/.test(to) ? to : '/ui/overview');
  } catch (problem) {
    $('secret-error').textContent = problem.message;
    $('secret-error').hidden = false;
    $('secret').setAttribute('aria-invalid', 'true');
    $('secret').select();
  }
  button.disabled = false;
});
$('secret').focus();
document.documentElement.dataset.ready = 'yes';
