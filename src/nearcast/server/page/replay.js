// Replay: what a subscription heard, from the server's log, at 1 to 100 times the speed of its messages.

import { $, clockText, make, scoreText, signMark, textOf } from "./dom.js";

const SHOWN = 40;
const LONGEST_MS = 1_000; // between two updates on the screen: silence is cut short

export class Replay {
  #model;
  #client;
  #key = null;
  #updates = [];
  #messages = {};
  #at = 0; // updates that were played
  #timer = null;

  #begun = null; // the cursor at which the page began to listen
  #epoch = null;

  /** `moved()` is called when the map should follow. */
  constructor(model, client, moved) {
    this.#model = model;
    this.#client = client;
    this.moved = moved;
    client.addEventListener("welcome", ({ detail: { epoch, cursor } }) => {
      if (epoch !== this.#epoch) this.#begun = cursor;
      this.#epoch = epoch;
    });
    $("play").addEventListener("click", () => this.#toggle());
    $("replay-end").addEventListener("click", () => this.stop());
    $("replay-at").addEventListener("input", () => {
      this.#pause();
      this.#go(Number($("replay-at").value));
    });
    model.addEventListener("select", () => {
      if (this.#key !== null && this.#key !== model.selected) this.stop();
    });
  }

  /** The result as of the replay, by message; null if nothing is replayed. */
  get results() {
    if (this.#key === null) return null;
    const results = new Map();
    for (const [, sign, message, score] of this.#updates.slice(0, this.#at)) {
      if (sign === "+") results.set(String(message), score);
      else results.delete(String(message));
    }
    return results;
  }

  /** A message of the log, as far as the server still has it. */
  message(id) {
    return this.#model.messages.get(id) ?? this.#messages[id] ?? null;
  }

  async #toggle() {
    if (this.#timer !== null) {
      this.#pause();
      return;
    }
    if (this.#key === null && !(await this.#load())) return;
    if (this.#at >= this.#updates.length) this.#at = 0;
    $("play").textContent = "Pause";
    this.#step();
  }

  async #load() {
    const { current } = this.#model;
    if (!current) {
      $("replay-status").textContent = "Select a subscription first.";
      return false;
    }
    $("replay-status").textContent = "Reading the log";
    let note = "";
    try {
      await this.#read(current.id, `${this.#epoch}.0`);
    } catch (error) {
      if (error.status !== 410) {
        $("replay-status").textContent = error.message;
        return false;
      }
      note = "; older updates are no longer kept";
      await this.#read(current.id, this.#begun);
    }
    $("replay-status").textContent = `${this.#updates.length} updates${note}`;
    if (!this.#updates.length) return false;
    this.#key = current.key;
    $("replay-at").max = this.#updates.length;
    $("replay-end").hidden = false;
    this.#go(0);
    return true;
  }

  async #read(id, after) {
    this.#updates = [];
    this.#messages = {};
    for (let more = true; more;) {
      const page = await this.#client.updates(id, after);
      this.#updates.push(...page.u);
      Object.assign(this.#messages, page.messages);
      ({ more, c: after } = page);
    }
  }

  #step() {
    this.#go(this.#at + 1);
    if (this.#at >= this.#updates.length) {
      this.#pause();
      return;
    }
    const wait = (this.#updates[this.#at][4] - this.#updates[this.#at - 1][4]) / Number($("speed").value);
    this.#timer = setTimeout(() => this.#step(), Math.max(0, Math.min(wait, LONGEST_MS)));
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#timer = null;
    $("play").textContent = "Play";
  }

  /** Back to what is live. */
  stop() {
    this.#pause();
    this.#key = null;
    this.#at = 0;
    $("replay-end").hidden = true;
    $("replay-at").max = $("replay-at").value = 0;
    $("replay-status").textContent = "";
    $("replayed").replaceChildren();
    this.moved();
  }

  #go(at) {
    this.#at = at;
    $("replay-at").value = at;
    const last = this.#updates[at - 1];
    if (last) $("replay-status").textContent = `${at} of ${this.#updates.length}, ${clockText(last[4])}`;
    const first = Math.max(0, at - SHOWN);
    $("replayed").replaceChildren(
      ...this.#updates
        .slice(first, at)
        .reverse()
        .map(update => this.#row(update)),
    );
    this.moved();
  }

  #row([, sign, id, score]) {
    const message = this.message(String(id)),
      entered = sign === "+";
    const kind = this.#model.subscriptions.get(this.#key)?.body.kind;
    return make(
      "li",
      { class: `update ${entered ? "plus" : "minus"}` },
      signMark(entered),
      make("span", { class: "said" }, message ? textOf(message) : `message ${id}`),
      make("small", {}, scoreText(kind, score, this.#model.setup.metric)),
    );
  }
}
