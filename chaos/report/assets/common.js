// What every page has: its data, its live region, buttons that copy.
const at = (id) => document.getElementById(id);
const DATA = JSON.parse(at("data").textContent);

// Tell it to those who listen; what was to be told in a moment is overtaken.
let announcing = 0;
function say(text) {
  clearTimeout(announcing);
  at("say").textContent = text;
}

// An element with text and attributes; text never becomes markup.
function make(tag, text, attributes) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  return element;
}

function onClick(id, act) {
  at(id)?.addEventListener("click", act);
}

// A duration as people read it, as the rest of the page writes it.
function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 0.9995) return `${(value * 1000).toFixed(size < 0.01 ? 1 : 0)} ms`;
  if (size < 119.95) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 10000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

function counted(count, one) {
  return `${count} ${one}${count === 1 ? "" : "s"}`;
}

// Copy, by whatever the browser allows; where it allows nothing, select it, so that a key does.
async function copy(button) {
  const code = button.parentElement.querySelector("code");
  const marked = () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  let done = false;
  try {
    await navigator.clipboard.writeText(code.textContent);
    done = true;
  } catch {
    marked();
    try { done = document.execCommand("copy"); } catch { done = false; }
  }
  button.textContent = done ? "Copied" : "Press Ctrl+C";
  say(done ? "The command was copied" : "The command is selected: press Ctrl and C");
  setTimeout(() => { button.textContent = "Copy"; }, 2500);
}

for (const button of document.querySelectorAll(".copier")) button.addEventListener("click", () => copy(button));
