// The JavaScript client of a Nearcast server: publish, subscribe, and hear every update exactly once.
//
//     import { connect } from "./nearcast.js";
//     const nearcast = connect({ url: "http://127.0.0.1:8787" });
//     await nearcast.subscribe({ id: "ann", kind: "nearest", lon: 2.35, lat: 48.86, keywords: "taxi", k: 3 });
//     nearcast.attach("ann", {
//       snapshot: ({ results, messages }) => {},   // what the result is now; later updates start from here
//       updates: (rows, { cursor, messages }) => {}, // rows of [subscription, sign, message, score, ts]
//       end: reason => {},                         // it expired or was deleted; nothing follows
//       gap: ({ from, to }) => {},                 // updates were trimmed; a snapshot follows
//     });
//
// A connection that breaks is made again, at once and then at growing intervals, and goes on after the last cursor that
// was heard. Listeners do not notice, but for `client.addEventListener("state", ...)`.

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;
const ACK_MS = 1_000;
const PUBLISH_TRIES = 6;
const PROBE_MS = 4_000;
const UNAUTHORIZED = 4001; // how the server closes a connection whose key it does not take

/** An answer of the server that is no success: RFC 9457, with `field`, `value` and `rule` where they apply. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.name = "Problem";
    this.status = status;
    this.code = body.code || "";
    this.field = body.field ?? null;
    this.value = body.value ?? null;
    this.rule = body.rule ?? null;
  }
}

/** A client of the server at `url`; `token` is a key, if the server asks for one. */
export function connect({ url = location.origin, token = null } = {}) {
  return new Client(url, token);
}

/** The history that a cursor belongs to, and its event. */
function parseCursor(cursor) {
  const dot = cursor.lastIndexOf(".");
  return { epoch: cursor.slice(0, dot), event: Number(cursor.slice(dot + 1)) };
}

/** The later of two cursors of one history; a cursor of another history is later. */
function later(cursor, known) {
  const [one, other] = [parseCursor(cursor), parseCursor(known)];
  return one.epoch !== other.epoch || one.event > other.event ? cursor : known;
}

class Client extends EventTarget {
  #url;
  #token;
  #socket = null;
  #attached = new Map(); // by id as text: { id, listener, after, cursor, isHeard }
  #queue = []; // attachments to ask for: { ids, after }
  #pending = null; // the one that was asked for and is not answered
  #wait = FIRST_WAIT_MS;
  #retry = null;
  #watch = null;
  #ack = null;
  #heartbeat_ms = 20_000;
  #cursor = null;
  #closed = false;
  #online = () => this.#probe();

  constructor(url, token) {
    super();
    this.#url = new URL(url);
    this.#token = token;
    this.state = "closed"; // closed, connecting, open, waiting
  }

  // ---- over HTTP

  /** One message or many. A request that got no answer is sent again, and is applied once. */
  async publish(messages) {
    const many = Array.isArray(messages);
    const body = many ? messages.map(message => JSON.stringify(message)).join("\n") : JSON.stringify(messages);
    const type = many ? "application/x-ndjson" : "application/json";
    const headers = { "Content-Type": type, "Idempotency-Key": randomKey() };
    for (let tries = 1; ; tries++) {
      try {
        return await this.#request("POST", "messages", { body, headers });
      } catch (error) {
        const again = !(error instanceof Problem) || error.status === 503;
        if (!again || tries === PUBLISH_TRIES || this.#closed) throw error;
        await new Promise(done => setTimeout(done, FIRST_WAIT_MS * 2 ** tries));
      }
    }
  }

  /** Register a subscription, or replace the one with its id. */
  subscribe(subscription) {
    return this.#request("PUT", `subscriptions/${part(subscription.id)}`, { json: subscription });
  }

  /** End a subscription. */
  unsubscribe(id) {
    return this.#request("DELETE", `subscriptions/${part(id)}`);
  }

  /** Another place: `{lon, lat}`, or `{region}`. */
  move(id, place) {
    return this.#request("PATCH", `subscriptions/${part(id)}`, { json: place });
  }

  /** All subscriptions, page by page. */
  async *subscriptions(limit = 500) {
    let next = null;
    do {
      const query = new URLSearchParams(next === null ? { limit } : { limit, next });
      const page = await this.#request("GET", `subscriptions?${query}`);
      yield* page.subscriptions;
      next = page.next ?? null;
    } while (next !== null);
  }

  /** One subscription. */
  subscription(id) {
    return this.#request("GET", `subscriptions/${part(id)}`);
  }

  /** The result of a subscription now, and its cursor. */
  results(id) {
    return this.#request("GET", `subscriptions/${part(id)}/results`);
  }

  /** Updates of a subscription after a cursor. */
  updates(id, after) {
    return this.#request("GET", `subscriptions/${part(id)}/updates?${new URLSearchParams({ after })}`);
  }

  /** What a query matches now, and how many that is in an hour; nothing is stored. */
  preview(query) {
    return this.#request("POST", "preview", { json: query });
  }

  /** Why a message is, or is not, in the result. */
  explain(id, message) {
    return this.#request("GET", `subscriptions/${part(id)}/explain/${part(message)}`);
  }

  async #request(method, path, { json, body, headers = {} } = {}) {
    const all = { Accept: "application/json", ...headers };
    if (json !== undefined) {
      body = JSON.stringify(json);
      all["Content-Type"] = "application/json";
    }
    if (this.#token) all.Authorization = `Bearer ${this.#token}`;
    const answer = await fetch(new URL(`v1/${path}`, this.#url), { method, body, headers: all });
    const text = await answer.text();
    let parsed = {};
    try {
      parsed = text ? JSON.parse(text) : {};
    } catch {
      parsed = { detail: text };
    }
    if (!answer.ok) throw new Problem(answer.status, parsed);
    return parsed;
  }

  // ---- push

  /**
   * Hear of a subscription: from its present result on (`"results"`), from now on (`"now"`), or after a cursor.
   * Returns a function that ends it.
   */
  attach(id, listener, after = "results") {
    const entry = { id, listener, after, cursor: isWord(after) ? null : after, isHeard: false };
    this.#attached.set(String(id), entry);
    if (this.state === "open") this.#ask([id], after);
    else if (this.#socket === null && this.#retry === null) this.#open();
    return () => this.#detach(entry);
  }

  /** Close for good. */
  close() {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#drop();
    this.#attached.clear();
    globalThis.removeEventListener?.("online", this.#online);
    this.#become("closed");
  }

  /** The last cursor up to which everything was heard. */
  get cursor() {
    return this.#cursor;
  }

  #detach(entry) {
    if (this.#attached.get(String(entry.id)) !== entry) return;
    this.#attached.delete(String(entry.id));
    if (this.state === "open") this.#send({ detach: [entry.id] });
  }

  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }

  #open() {
    if (this.#closed) return;
    clearTimeout(this.#retry);
    this.#retry = null;
    globalThis.addEventListener?.("online", this.#online);
    this.#become("connecting");
    const address = new URL("v1/ws", this.#url);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.#socket = new WebSocket(address));
    const mine = handle => event => {
      if (socket === this.#socket) handle(event);
    };
    socket.onopen = mine(() => this.#send(this.#token ? { hello: 1, token: this.#token } : { hello: 1 }));
    socket.onmessage = mine(event => this.#hear(JSON.parse(event.data)));
    socket.onclose = mine(event => (event.code === UNAUTHORIZED ? this.#dismissed(event.reason) : this.#lost()));
    this.#expect(2 * LONGEST_WAIT_MS);
  }

  /** Something must be heard within this time, or the connection counts as broken. */
  #expect(ms) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => this.#lost(), ms);
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    clearTimeout(this.#watch);
    clearTimeout(this.#ack);
    this.#ack = null;
    this.#queue = [];
    this.#pending = null;
    for (const entry of this.#attached.values()) entry.isHeard = false;
    socket?.close();
  }

  /** The key is not, or no longer, valid: trying again would not help. */
  #dismissed(reason) {
    this.close();
    this.dispatchEvent(
      new CustomEvent("problem", { detail: new Problem(401, { code: "unauthorized", detail: reason }) }),
    );
  }

  #lost() {
    this.#drop();
    this.#become("waiting");
    this.#retry = setTimeout(() => this.#open(), this.#wait * (0.5 + Math.random()));
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT_MS);
  }

  #probe() {
    if (this.state === "open") {
      this.#send({ ping: 1 });
      this.#expect(PROBE_MS);
    } else if (this.state === "waiting") {
      this.#wait = FIRST_WAIT_MS;
      this.#open();
    }
  }

  #send(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  #hear(frame) {
    this.#expect(2 * this.#heartbeat_ms + 5_000);
    if ("welcome" in frame) this.#welcomed(frame);
    else if ("u" in frame) this.#updates(frame);
    else if ("snapshot" in frame) this.#snapshot(frame);
    else if ("progress" in frame) this.#reached(frame.progress);
    else if ("end" in frame) this.#ended(frame);
    else if ("gap" in frame) this.#attached.get(String(frame.gap))?.listener.gap?.(frame);
    else if ("attached" in frame) this.#answered(frame);
    else if ("error" in frame) this.#refused(frame.error);
  }

  #welcomed(frame) {
    this.dispatchEvent(new CustomEvent("welcome", { detail: frame }));
    this.#heartbeat_ms = 1_000 * frame.heartbeat;
    this.#wait = FIRST_WAIT_MS;
    this.#become("open");
    // Those who have heard equally much go on together.
    const groups = new Map();
    for (const entry of this.#attached.values()) {
      const after = entry.cursor ?? entry.after;
      groups.set(after, [...(groups.get(after) || []), entry.id]);
    }
    for (const [after, ids] of groups) this.#ask(ids, after);
  }

  /** Attach one group after another: an error then belongs to the one that is pending. */
  #ask(ids, after) {
    const same = this.#queue.find(each => each.after === after);
    if (same) same.ids.push(...ids);
    else this.#queue.push({ ids: [...ids], after });
    this.#next();
  }

  #next() {
    while (this.#pending === null && this.#queue.length) {
      const { ids, after } = this.#queue.shift();
      const wanted = ids.filter(id => this.#attached.has(String(id)));
      if (!wanted.length) continue;
      this.#pending = { ids: new Map(wanted.map(id => [String(id), id])), after };
      this.#send({ attach: wanted, after });
    }
  }

  #answered(frame) {
    for (const id of frame.attached) {
      const entry = this.#attached.get(String(id));
      if (entry) entry.isHeard = true;
      if (entry && entry.cursor === null && entry.after === "now") entry.cursor = frame.cursor;
      this.#pending?.ids.delete(String(id));
    }
    // Results are answered one by one, the rest together.
    if (this.#pending && (this.#pending.after !== "results" || !this.#pending.ids.size)) {
      this.#pending = null;
      this.#next();
    }
  }

  #snapshot(frame) {
    const entry = this.#attached.get(String(frame.snapshot));
    if (!entry) return;
    entry.cursor = frame.cursor;
    entry.listener.snapshot?.(frame);
  }

  #updates(frame) {
    const rows = new Map();
    for (const row of frame.u) {
      const id = String(row[0]);
      if (!rows.has(id)) rows.set(id, []);
      rows.get(id).push(row);
    }
    for (const [id, own] of rows) {
      const entry = this.#attached.get(id);
      if (!entry || entry.cursor === null) continue; // its snapshot is still to come
      entry.listener.updates?.(own, { cursor: frame.c, messages: frame.messages });
      entry.cursor = later(frame.c, entry.cursor);
    }
    this.#reached(frame.c);
  }

  /** Everything up to this cursor was heard, by all whom the server follows already. */
  #reached(cursor) {
    for (const entry of this.#attached.values()) {
      if (entry.isHeard && entry.cursor !== null) entry.cursor = later(cursor, entry.cursor);
    }
    this.#cursor = cursor;
    this.dispatchEvent(new CustomEvent("progress", { detail: cursor }));
    this.#ack ??= setTimeout(() => {
      this.#ack = null;
      this.#send({ ack: this.#cursor });
    }, ACK_MS);
  }

  #ended(frame) {
    const entry = this.#attached.get(String(frame.end));
    if (!entry) return;
    this.#attached.delete(String(frame.end));
    entry.listener.end?.(frame.reason);
  }

  #refused(error) {
    const pending = error.about === "attach" ? this.#pending : null;
    if (!pending) {
      this.dispatchEvent(new CustomEvent("problem", { detail: new Problem(error.status, error) }));
      return;
    }
    this.#pending = null;
    const ids = [...pending.ids.values()];
    if (error.status === 410) {
      for (const id of ids) this.#restart(id);
    } else if (ids.length > 1) {
      this.#queue.unshift(...ids.map(id => ({ ids: [id], after: pending.after }))); // one of them is at fault
    } else {
      for (const id of ids) this.#ended({ end: id, reason: error.code });
    }
    this.#next();
  }

  /** What was missed is no longer kept: begin again with the result. */
  #restart(id) {
    const entry = this.#attached.get(String(id));
    if (!entry) return;
    entry.listener.gap?.({ gap: id, from: entry.cursor, to: null });
    entry.cursor = null;
    entry.after = "results";
    this.#ask([id], "results");
  }
}

const isWord = after => after === "results" || after === "now";
const part = id => encodeURIComponent(String(id));

function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, "0")).join("");
}
