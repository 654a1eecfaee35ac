// What the page knows: subscriptions with their results, messages, and the last updates. Views read it.

import { throttled } from "./dom.js";

const EXPIRE_MS = 500;
const TICK_MS = 1_000;
const FEED = 200; // updates that the feed keeps
const HEARD = 20_000; // updates that `window.__state` keeps
export const EVERYTHING = "nearcast-page"; // the page's own subscription, which every live message answers

export class Model extends EventTarget {
  constructor(setup) {
    super();
    this.setup = setup; // { bounds, metric, window: { count, age }, now, city }
    this.subscriptions = new Map();
    this.messages = new Map(); // bodies by id as text
    this.feed = []; // newest first
    this.heard = []; // all updates in order: [cursor, subscription, sign, message]
    this.clock = -Infinity;
    this.selected = null;
    this.told = 0;
    if (setup.now !== null) {
      const ahead = setup.now - Date.now(); // of the server's clock, which moves by itself
      setInterval(() => {
        this.clock = Math.max(this.clock, Date.now() + ahead);
        this.changed();
      }, TICK_MS);
    }
  }

  #asked = false;
  #expire = throttled(EXPIRE_MS, () => this.forget());

  /** Tell views, once for a frame. */
  changed() {
    if (this.#asked) return;
    this.#asked = true;
    const tell = () => {
      if (!this.#asked) return;
      this.#asked = false;
      this.#expire();
      this.dispatchEvent(new Event("change"));
    };
    requestAnimationFrame(tell);
    setTimeout(tell, 250); // a page in the background gets no frames
  }

  /** File a subscription, or its new form. */
  put(body) {
    const key = String(body.id);
    const known = this.subscriptions.get(key);
    if (known) known.body = body;
    else {
      const is_own = key === EVERYTHING;
      this.subscriptions.set(key, { key, id: body.id, body, results: new Map(), is_own, is_heard: false });
    }
    this.changed();
    return this.subscriptions.get(key);
  }

  remove(key) {
    this.subscriptions.delete(key);
    if (this.selected === key) this.select(null);
    this.changed();
  }

  select(key) {
    this.selected = key;
    this.dispatchEvent(new Event("select"));
    this.changed();
  }

  get current() {
    return this.subscriptions.get(this.selected) ?? null;
  }

  /** Subscriptions that people made. */
  get listed() {
    return [...this.subscriptions.values()].filter(each => !each.is_own);
  }

  /** The result of a subscription is now exactly this. */
  replace(key, results, messages) {
    const subscription = this.subscriptions.get(key);
    if (!subscription) return;
    this.#file(messages);
    const rows = results.map(([message, score]) => [String(message), score]);
    // A window that counts lets the oldest go: they stand first, as if they had been heard one by one.
    if (subscription.is_own) rows.sort((a, b) => (messages[a[0]]?.ts ?? 0) - (messages[b[0]]?.ts ?? 0));
    for (const [id] of rows) {
      const message = this.messages.get(id);
      if (message && Number.isFinite(this.clock)) message.ts ??= this.clock;
    }
    subscription.results = new Map(rows);
    subscription.is_heard = true;
    this.changed();
  }

  /** Apply updates, in order. */
  apply(key, rows, cursor, messages) {
    const subscription = this.subscriptions.get(key);
    if (!subscription) return;
    this.#file(messages);
    for (const [, sign, message, score, ts] of rows) {
      const id = String(message);
      if (sign === "+") {
        subscription.results.set(id, score);
        const message = this.messages.get(id);
        if (message) message.ts ??= ts; // without its own time it has that of the clock
      } else subscription.results.delete(id);
      this.clock = Math.max(this.clock, ts);
      this.heard.push([cursor, key, sign, id]);
      if (!subscription.is_own) {
        this.feed.unshift({ number: ++this.told, subscription: key, sign, message: id, score, ts });
      }
    }
    if (this.heard.length > HEARD) this.heard.splice(0, this.heard.length - HEARD);
    if (this.feed.length > FEED) this.feed.length = FEED;
    this.changed();
  }

  #file(messages) {
    for (const [id, body] of Object.entries(messages)) {
      const known = this.messages.get(id);
      this.messages.set(id, known && body.ts === undefined ? { ...body, ts: known.ts } : body);
      if (body.ts !== undefined) this.clock = Math.max(this.clock, body.ts);
    }
  }

  /** Messages leave the results of `within` and `similar` silently: their time is known here. */
  forget() {
    const { window } = this.setup,
      n = this.nLive;
    const age_ms = window.age === null ? Infinity : window.age * 1000;
    const all = this.subscriptions.get(EVERYTHING)?.results;
    if (all && window.count !== null) {
      for (const id of all.keys()) {
        if (all.size <= window.count) break;
        all.delete(id);
        const message = this.messages.get(id);
        if (message) message.gone = true;
      }
    }
    const used = new Set();
    for (const { body, results } of this.subscriptions.values()) {
      const silent = body.kind === "within" || body.kind === "similar";
      for (const id of results.keys()) {
        const message = this.messages.get(id);
        if (silent && message && (message.gone || this.#ends(message, age_ms) <= this.clock)) results.delete(id);
        else used.add(id);
      }
    }
    for (const { message } of this.feed) used.add(message);
    for (const id of this.messages.keys()) if (!used.has(id)) this.messages.delete(id);
    if (n !== this.nLive) this.changed();
  }

  #ends(message, age_ms) {
    return Math.min(message.expires ?? Infinity, (message.ts ?? Infinity) + age_ms);
  }

  /** How many messages the map shows. */
  get nLive() {
    return this.subscriptions.get(EVERYTHING)?.results.size ?? this.live.length;
  }

  /** The messages that the map shows. */
  get live() {
    const all = this.subscriptions.get(EVERYTHING);
    if (all) return [...all.results.keys()];
    return [...new Set(this.listed.flatMap(each => [...each.results.keys()]))];
  }
}

/** What tests and curious people read: plain values, made when asked for. */
export function mirror(model, client) {
  return {
    get connection() {
      return client.state;
    },
    get cursor() {
      return client.cursor;
    },
    get clock() {
      return model.clock;
    },
    get selected() {
      return model.selected;
    },
    get messages() {
      return model.nLive;
    },
    get told() {
      return model.told;
    },
    get heard() {
      return model.heard;
    },
    get feed() {
      return model.feed;
    },
    get subscriptions() {
      const plain = each => [
        each.key,
        { body: each.body, heard: each.is_heard, results: [...each.results].map(([id, score]) => [id, score]) },
      ];
      return Object.fromEntries([...model.subscriptions.values()].map(plain));
    },
  };
}
