// Elements, words and the memory of the browser. Text from files only ever becomes text nodes and values of attributes.

const byId = (id) => document.getElementById(id);

// Makes an element. Children that are strings become text nodes.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Text with `code` set as code.
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 === 1 ? el("code", {}, part) : part));
}

function duration(micros) {
  return micros < 1000 ? `${micros} µs` : micros < 1e6 ? `${(micros / 1000).toFixed(1)} ms` : `${(micros / 1e6).toFixed(2)} s`;
}

// Storage is refused to pages from files in some browsers.
function remember(key, value) {
  try {
    localStorage.setItem("fx-view-" + key, value);
  } catch {
    // The choice then lasts as long as the page.
  }
}

function remembered(key) {
  try {
    return localStorage.getItem("fx-view-" + key);
  } catch {
    return null;
  }
}
