// The feed: a list of the last updates. What enters slides in, what leaves fades; a screen reader gets a sum now and then.

import { clockText, make, scoreText, signMark, textOf, throttled } from "./dom.js";

const SHOWN = 60;
const SAY_MS = 5_000;

export class Feed {
  #model;
  #list;
  #newest = 0; // number of the newest update that is in the list
  #said = 0;
  #say;

  /** `why(subscription, message)` opens the explanation. */
  constructor(model, list, status, why) {
    this.#model = model;
    this.#list = list;
    this.why = why;
    this.#say = throttled(SAY_MS, () => {
      const [first] = model.feed;
      const n = model.told - this.#said;
      if (!first || !n) return;
      this.#said = model.told;
      const verb = first.sign === "+" ? "entered" : "left";
      status.textContent = `${n} update${n === 1 ? "" : "s"}. Last: ${this.#text(first.message)} ${verb} ${first.subscription}.`;
    });
    model.addEventListener("change", () => this.show());
  }

  #text(key) {
    const message = this.#model.messages.get(key);
    return message ? textOf(message) : `message ${key}`;
  }

  show() {
    const fresh = this.#model.feed.filter(update => update.number > this.#newest).slice(0, SHOWN);
    if (!fresh.length) return;
    this.#newest = fresh[0].number;
    this.#list.prepend(...fresh.map(update => this.#row(update)));
    while (this.#list.children.length > SHOWN) this.#list.lastElementChild.remove();
    this.#say();
  }

  #row({ subscription, sign, message, score, ts }) {
    const kind = this.#model.subscriptions.get(subscription)?.body.kind;
    const entered = sign === "+";
    return make(
      "li",
      { class: `update ${entered ? "plus" : "minus"}` },
      signMark(entered),
      make("button", { type: "button", class: "who", onclick: () => this.#model.select(subscription) }, subscription),
      make(
        "button",
        { type: "button", class: "text", title: "Why?", onclick: () => this.why(subscription, message) },
        this.#text(message) || "(no words)",
      ),
      make(
        "small",
        {},
        [scoreText(kind, score, this.#model.setup.metric), clockText(ts).slice(11)].filter(Boolean).join(" \u00b7 "),
      ),
    );
  }
}
