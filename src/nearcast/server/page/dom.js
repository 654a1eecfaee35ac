// Small helpers: elements, formats, waiting for calm.

export const $ = id => document.getElementById(id);

/** An element with attributes and children; text stays text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}

/** The sign of an update, to be seen or heard. */
export function signMark(entered) {
  return make(
    "span",
    { class: "sign" },
    make("span", { "aria-hidden": "true" }, entered ? "+" : "\u2212"),
    make("span", { class: "hidden" }, entered ? "entered" : "left"),
  );
}

/** Call `work` once things have been calm for `ms`. */
export function calmed(ms, work) {
  let timer = null;
  const call = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), ms);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** Call `work` at most once in `ms`, with the last thing given. */
export function throttled(ms, work) {
  let timer = null,
    last = -Infinity,
    waiting = null;
  const run = () => {
    timer = null;
    last = performance.now();
    const given = waiting;
    waiting = null;
    work(...given);
  };
  return (...given) => {
    waiting = given;
    timer ??= setTimeout(run, Math.max(0, last + ms - performance.now()));
  };
}

/** Call `work` for one value at a time; while it is at work, only the newest value waits. */
export function latest(work) {
  let busy = false,
    waiting = null;
  return async value => {
    waiting = { value };
    if (busy) return;
    busy = true;
    try {
      while (waiting) {
        const next = waiting.value;
        waiting = null;
        await work(next);
      }
    } finally {
      busy = false;
    }
  };
}

export const KINDS = {
  within: { name: "Within", asks: "every message in a region whose words satisfy an expression" },
  similar: { name: "Similar", asks: "every message similar enough in words and place" },
  topk: { name: "TopK", asks: "the k best messages by words and place" },
  nearest: { name: "Nearest", asks: "the k nearest messages with these words" },
};

/** Show a value; a slider is made wider or finer where it would change it. */
export function setField(field, value) {
  if (value === undefined) return; // a field that need not be there
  if (field.type === "range") {
    field.max = Math.max(field.max, value);
    if (Number(value.toFixed(2)) !== value) field.step = "any";
  }
  field.value = value;
}

/** A shape for each kind, so that colour is not needed to tell them apart. */
export function mark(kind) {
  const shapes = {
    within: '<rect x="4" y="4" width="16" height="16" rx="2"/>',
    similar: '<circle cx="12" cy="12" r="8.5"/>',
    topk: '<path d="M12 3l2.7 5.9 6.3.7-4.7 4.3 1.3 6.3L12 17l-5.6 3.2 1.3-6.3L3 9.6l6.3-.7z"/>',
    nearest: '<path d="M12 3l9 17H3z"/>',
  };
  const span = make("span", { class: `mark ${kind}`, "aria-hidden": "true" });
  span.innerHTML = `<svg viewBox="0 0 24 24" width="18" height="18" fill="currentColor">${shapes[kind] || ""}</svg>`;
  return span;
}

export const wordsOf = keywords => (Array.isArray(keywords) ? keywords.join(", ") : keywords);
export const textOf = message => message.text ?? (message.keywords || []).join(" ");

export function clockText(ts) {
  return new Date(ts).toISOString().slice(0, 19).replace("T", " ");
}

export function distanceText(value, metric) {
  if (metric !== "haversine") return value.toPrecision(4);
  return value < 1000 ? `${Math.round(value)} m` : `${(value / 1000).toFixed(1)} km`;
}

/** A score as the kind means it. */
export function scoreText(kind, score, metric) {
  if (score === null || score === undefined) return "";
  return kind === "nearest" ? distanceText(score, metric) : score.toFixed(3);
}
