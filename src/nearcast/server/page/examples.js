// Worked examples: past posts with the parts of their score, again after every change of the settings.

import { $, calmed, make, textOf } from "./dom.js";
import { ordered } from "./list.js";
import { bars } from "./why.js";

const EACH = 4; // posts that are in the result, and posts that are not
const CALM_MS = 150;

export class Examples {
  #model;
  #client;
  #chosen = []; // message keys
  #turn = 0;

  constructor(model, client, why) {
    this.#model = model;
    this.#client = client;
    this.why = why;
    this.again = calmed(CALM_MS, () => this.#show());
    model.addEventListener("select", () => {
      this.#choose();
      this.again();
    });
    $("examples-more").addEventListener("click", () => {
      this.#choose();
      this.again();
    });
    $("examples-panel").addEventListener("toggle", () => {
      if (!this.#chosen.length) this.#choose();
      this.again();
    });
  }

  /** Posts at the edge of the result: the last that are in, and the newest outside that share a word. */
  #choose() {
    const { current, messages, live } = this.#model;
    this.#chosen = [];
    if (!current) return;
    const inside = ordered(current, current.results, messages)
      .map(([id]) => id)
      .slice(-EACH);
    const asked = new Set(
      String(current.body.keywords)
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u),
    );
    const outside = [];
    for (let at = live.length - 1; at >= 0 && outside.length < EACH; at--) {
      const message = messages.get(live[at]);
      if (!message || current.results.has(live[at])) continue;
      if (
        textOf(message)
          .toLowerCase()
          .split(/[^\p{L}\p{N}]+/u)
          .some(word => asked.has(word))
      )
        outside.push(live[at]);
    }
    this.#chosen = [...inside, ...outside];
  }

  async #show() {
    const { current } = this.#model;
    if (!current || !$("examples-panel").open) return;
    const turn = ++this.#turn;
    const said = await Promise.all(this.#chosen.map(id => this.#client.explain(current.id, id).catch(() => null)));
    if (turn !== this.#turn) return;
    const rows = this.#chosen.map((id, at) => (said[at] ? this.#row(current.key, id, said[at]) : null)).filter(Boolean);
    $("examples").replaceChildren(...rows);
    $("examples-none").hidden = rows.length > 0;
  }

  #row(key, id, { in_result, reason, parts }) {
    const message = this.#model.messages.get(id);
    const sign = make("span", { class: "sign", "aria-hidden": "true" }, in_result ? "+" : "\u2212");
    const text = make(
      "button",
      { type: "button", class: "text", onclick: () => this.why(key, id) },
      message ? textOf(message) : id,
    );
    return make(
      "li",
      { class: in_result ? "plus" : "minus", "data-message": id },
      make("div", { class: "head" }, sign, text),
      bars(parts) ?? make("p", { class: "sum" }, reason),
    );
  }
}
