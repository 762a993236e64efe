// Elements are made here and nowhere else. Text is set as text: a model may be called anything.

const svgSpace = "http://www.w3.org/2000/svg";

// h makes an HTML element. An attribute that is null, undefined or false is left out; "vars" are custom properties of CSS.
export function h(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

// s makes an SVG element.
export function s(tag, attributes, ...children) {
  return dress(document.createElementNS(svgSpace, tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "vars") {
      for (const [property, v] of Object.entries(value)) element.style.setProperty(property, v);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// fill makes the children of parent what nodes say, by changing as little as possible: what stays keeps its focus, its
// selection and how far it is scrolled. Children with a data-key are recognised by it, the others by their place.
export function fill(parent, ...nodes) {
  const wanted = nodes.flat(Infinity).filter((n) => n !== null && n !== undefined && n !== false)
    .map((n) => (n instanceof Node ? n : document.createTextNode(n)));
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  const kept = new Set(wanted.map((n) => n.dataset?.key).filter(Boolean));
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = node.dataset?.key;
    while (at?.dataset?.key && at.dataset.key !== key && !kept.has(at.dataset.key)) at = drop(at);
    const old = key ? keyed.get(key) : at && !at.dataset?.key ? at : null;
    keyed.delete(key);
    if (!old || old.nodeName !== node.nodeName) {
      parent.insertBefore(node, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    update(old, node);
  }
  while (at) at = drop(at);
}

function drop(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// ours are attributes that belong to the reader and not to the data.
const ours = new Set(["open", "style"]);

function update(old, node) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!ours.has(name) && !node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) {
    if (!ours.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== node.style.cssText) old.style.cssText = node.style.cssText;
  fill(old, ...node.childNodes);
}
