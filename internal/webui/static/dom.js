// Elements are built from values, never from markup: what comes from a target or a plan stays text.

export const $ = (id) => document.getElementById(id);

// h makes an element: h('a', {href, class: 'x', onclick: f}, 'text', child, [more]).
export function h(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? '' : value);
  }
  return add(e, ...children);
}

// add appends what is there of children: text, elements, lists of them.
export function add(e, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) e.append(child);
  }
  return e;
}

// announce says something to who listens to the page and does not see it.
export function announce(text) { $('announce').textContent = text; }

// trouble shows an error above everything; '' takes it away.
export function trouble(text) {
  $('trouble').textContent = text;
  $('trouble').hidden = !text;
}

// sure makes a button that acts at its second press, so that a slip deletes nothing.
export function sure(label, question, act, attributes) {
  let asked = false;
  const calm = () => { asked = false; b.textContent = label; b.classList.remove('asked'); };
  const b = h('button', { type: 'button', ...attributes, onblur: calm, onclick: () => {
    if (asked) { calm(); act(); return; }
    asked = true;
    b.textContent = question;
    b.classList.add('asked');
  } }, label);
  return b;
}
