// Two sets of parameters side by side: what only the left hears, both hear, only the right hears.

import { $, calmed, latest, make, setField, textOf } from "./dom.js";

const SHOWN = 30;
const CALM_MS = 150;
const SLIDERS = {
  similar: [
    ["delta", 0, 1, 0.01],
    ["tau", 0, 1, 0.01],
  ],
  topk: [
    ["alpha", 0, 1, 0.01],
    ["k", 1, 100, 1],
  ],
  nearest: [["k", 1, 100, 1]],
  within: [],
};
const SIDES = ["left", "right"];

export class Compare {
  #model;
  #client;
  #keys = { left: null, right: null };
  #drawn = "";

  /** `saved(body)` is called when the server has taken a change. */
  constructor(model, client, saved, why) {
    this.#model = model;
    this.#client = client;
    this.saved = saved;
    this.why = why;
    for (const side of SIDES)
      $(`compare-${side}`).addEventListener("change", event => this.#choose(side, event.target.value));
    $("compare-copy").addEventListener("click", () => this.#copy());
    $("compare-panel").addEventListener("toggle", () => this.show());
    model.addEventListener("change", () => this.show());
    model.addEventListener("select", () => {
      if (!this.#keys.left) this.#choose("left", model.selected);
    });
  }

  #choose(side, key) {
    this.#keys[side] = key || null;
    this.#sliders(side);
    this.show();
  }

  /** A copy of the left subscription, to be changed. */
  async #copy() {
    const left = this.#model.subscriptions.get(this.#keys.left);
    if (!left) return;
    const body = { ...left.body, id: typeof left.id === "number" ? Date.now() : `${left.key}-b` };
    await this.#client.subscribe(body);
    this.saved(body);
    this.#choose("right", String(body.id));
  }

  #sliders(side) {
    const key = this.#keys[side],
      subscription = this.#model.subscriptions.get(key),
      target = $(`compare-${side}-sliders`);
    target.replaceChildren();
    if (!subscription) return;
    const changes = {};
    const put = latest(async () => {
      const body = { ...subscription.body, ...changes };
      await this.#client.subscribe(body);
      this.saved(body);
    });
    const send = calmed(CALM_MS, put);
    for (const [name, min, max, step] of SLIDERS[subscription.body.kind]) {
      const value = subscription.body[name];
      const output = make("output", {}, String(value));
      const input = make("input", { type: "range", name, min, max, step, "aria-label": `${name} of ${key}` });
      setField(input, value);
      input.addEventListener("input", () => {
        output.textContent = input.value;
        changes[name] = Number(input.value);
        send();
      });
      target.append(make("div", { class: "slider" }, make("span", { "aria-hidden": "true" }, name), input, output));
    }
  }

  show() {
    if (!$("compare-panel").open) return;
    const keys = this.#model.listed.map(each => each.key);
    for (const side of SIDES) this.#options(side, keys);
    const [left, right] = SIDES.map(side => this.#model.subscriptions.get(this.#keys[side])?.results ?? new Map());
    const columns = {
      "only-left": [...left.keys()].filter(id => !right.has(id)),
      both: [...left.keys()].filter(id => right.has(id)),
      "only-right": [...right.keys()].filter(id => !left.has(id)),
    };
    const drawn = JSON.stringify(columns);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    for (const [name, ids] of Object.entries(columns)) {
      $(`${name}-count`).textContent = ids.length;
      const side = name === "only-right" ? "right" : "left";
      $(name).replaceChildren(
        ...ids
          .slice(-SHOWN)
          .reverse()
          .map(id => this.#row(this.#keys[side], id)),
      );
    }
  }

  #row(key, id) {
    const message = this.#model.messages.get(id);
    return make(
      "li",
      { "data-message": id },
      make(
        "button",
        { type: "button", class: "message", onclick: () => this.why(key, id) },
        message ? textOf(message) : `message ${id}`,
      ),
    );
  }

  #options(side, keys) {
    const select = $(`compare-${side}`);
    if (this.#keys[side] && !keys.includes(this.#keys[side])) this.#choose(side, null);
    const wanted = ["", ...keys];
    if (
      wanted.join("\n") === [...select.options].map(option => option.value).join("\n") &&
      select.value === (this.#keys[side] ?? "")
    )
      return;
    select.replaceChildren(...wanted.map(key => make("option", { value: key }, key || "(choose)")));
    select.value = this.#keys[side] ?? "";
  }
}
