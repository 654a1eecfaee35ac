// The list of subscriptions, and the result of the selected one.

import { $, KINDS, make, mark, scoreText, textOf, throttled, wordsOf } from "./dom.js";

const SHOWN = 100; // rows of a result
const RESULT_MS = 400;

/** Messages of a result in the order that its kind means: best, nearest or newest first. */
export function ordered(subscription, results, messages) {
  const rows = [...results],
    { kind } = subscription.body;
  const newer = (a, b) => (messages.get(b[0])?.ts ?? 0) - (messages.get(a[0])?.ts ?? 0);
  if (kind === "within") return rows.sort(newer);
  const sign = kind === "nearest" ? 1 : -1;
  return rows.sort((a, b) => sign * (a[1] - b[1]) || newer(a, b));
}

export class List {
  #model;
  #rows = new Map(); // key -> { element, count }
  #drawn = "";
  #later = throttled(RESULT_MS, () => this.#result());

  constructor(model, why) {
    this.#model = model;
    this.why = why;
    model.addEventListener("change", () => this.show());
    model.addEventListener("select", () => this.#result());
    $("search").addEventListener("input", () => {
      this.#find();
    });
  }

  show() {
    const { listed, selected } = this.#model;
    for (const each of listed) {
      const row = this.#rows.get(each.key) || this.#add(each);
      if (row.body !== each.body) row.asks.textContent = wordsOf(each.body.keywords);
      row.body = each.body;
      if (row.count.textContent !== String(each.results.size)) row.count.textContent = each.results.size;
      row.element.firstElementChild.setAttribute("aria-pressed", String(each.key === selected));
    }
    for (const [key, { element }] of this.#rows) {
      if (!this.#model.subscriptions.has(key)) {
        element.remove();
        this.#rows.delete(key);
      }
    }
    $("none").hidden = listed.length > 0;
    this.#later();
  }

  #add({ key, body }) {
    const count = make("span", { class: "count" }),
      asks = make("span", { class: "asks" });
    const button = make(
      "button",
      {
        type: "button",
        class: `subscription ${body.kind}`,
        "aria-pressed": "false",
        title: KINDS[body.kind].asks,
        onclick: () => this.#model.select(key),
      },
      mark(body.kind),
      make("span", { class: "name" }, make("b", {}, key), asks),
      count,
    );
    const element = make("li", { "data-key": key }, button);
    $("subscriptions").append(element);
    const row = { element, count, asks, body: null };
    this.#rows.set(key, row);
    return row;
  }

  #result() {
    const { current, messages, setup } = this.#model;
    $("selected").hidden = !current;
    if (!current) {
      this.#drawn = "";
      return;
    }
    const all = ordered(current, current.results, messages),
      rows = all.slice(0, SHOWN);
    const drawn = JSON.stringify([current.key, rows]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    $("result-title").textContent = `Result of ${current.key}: ${all.length}`;
    $("result").replaceChildren(
      ...rows.map(([id, score]) => this.row(current.key, id, scoreText(current.body.kind, score, setup.metric))),
    );
  }

  /** One message as a row whose button asks why. */
  row(subscription, id, note) {
    const message = this.#model.messages.get(id);
    return make(
      "li",
      { "data-message": id },
      make(
        "button",
        { type: "button", class: "message", title: "Why?", onclick: () => this.why(subscription, id) },
        make("span", { class: "text" }, message ? textOf(message) : `message ${id}`),
        make("small", {}, note),
      ),
    );
  }

  /** Messages that hold what was typed: the way to any message without a map. */
  #find() {
    const wanted = $("search").value.trim().toLowerCase();
    const found = [];
    if (wanted) {
      for (const id of this.#model.live) {
        const message = this.#model.messages.get(id);
        if (message && (id === wanted || textOf(message).toLowerCase().includes(wanted))) found.push(id);
        if (found.length === 20) break;
      }
    }
    $("found").replaceChildren(...found.map(id => this.row(null, id, id)));
  }
}
