// <ingest-job src="….json">: keeps what the page shows of one job up to date until the job ends.
//
// Numbers are written into the elements with data-live or data-outcome. When more than numbers has changed, a job's page
// (`page`) fetches its own HTML again and replaces the elements with data-section that differ, so only the server draws.
//
// It asks often while rows are being answered, less often while nothing changes, and never while the tab is hidden. When
// the server does not answer, the page says so and asks again.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;
const FIRST_SILENCE = 1000;
const LONGEST_SILENCE = 15000;
const LONGEST_ANSWER = 20000;
const GROWTH = 1.4;
const CASES = "case_"; // counters in a job's notes whose names begin with it
const LISTS_PAUSE = 5000;
const WELCOME = 5000;
const GONE = "The server does not answer. This page keeps trying; the job is not lost.";
const BACK = "The server answers again.";
const UNSEEN = "This job is not visible any more: you may be signed out. Sign in again; the job goes on.";

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  let whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const named = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].map(([name, size]) => {
    const count = Math.floor(whole / size);
    whole -= count * size;
    return [count, name];
  });
  const first = named.findIndex(([count]) => count);
  return named.slice(first, first + 2).filter(([count]) => count).map((pair) => pair.join(" ")).join(" ");
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond >= 10) return `${Math.round(perSecond).toLocaleString("en-US")} rows/s`;
  if (perSecond >= 1 || perSecond === 0) return `${perSecond.toFixed(1)} rows/s`;
  return `${(perSecond * 60).toFixed(1)} rows/min`;
}

// The same as the server writes: `2026-11-30 13:36:00 UTC`.
const moment = (iso) => iso.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");

function until(job) {
  if (job.waits_until) return `waits until ${moment(job.waits_until)}`;
  return job.resume_at && job.status === "paused" ? `resumes at ${moment(job.resume_at)}` : "";
}

const counted = (number) => number.toLocaleString("en-US");

class IngestJob extends HTMLElement {
  connectedCallback() {
    if (this.hasAttribute("final")) return;
    this.pause = FIRST_PAUSE;
    this.silence = FIRST_SILENCE;
    this.isGone = false;
    this.stopped = false;
    this.seen = null; // the job as it was last shown
    this.drawn = { shape: null, lists: null, at: 0 }; // what the sections show, and since when
    this.onFront = () => {
      if (document.hidden) return;
      this.pause = FIRST_PAUSE;
      this.silence = FIRST_SILENCE;
      this.look();
    };
    document.addEventListener("visibilitychange", this.onFront);
    addEventListener("online", this.onFront);
    this.later(FIRST_PAUSE);
  }

  disconnectedCallback() {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.welcome);
    document.removeEventListener("visibilitychange", this.onFront);
    removeEventListener("online", this.onFront);
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    if (!this.stopped) this.timer = setTimeout(() => this.look(), milliseconds);
  }

  async look() {
    if (document.hidden || this.stopped || this.looking) return;
    this.looking = true;
    clearTimeout(this.timer);
    try {
      const response = await this.ask(this.getAttribute("src"));
      if ([401, 403, 404].includes(response.status)) {
        this.stop(UNSEEN);
        return;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      const { job } = await response.json();
      await this.show(job);
      this.found();
      if (job.is_final) this.stop();
      else this.later(this.pause);
    } catch (problem) {
      this.lost();
    } finally {
      this.looking = false;
    }
  }

  ask(address) {
    const signal = AbortSignal.timeout ? AbortSignal.timeout(LONGEST_ANSWER) : undefined;
    return fetch(address, { credentials: "same-origin", cache: "no-store", signal });
  }

  // ---- connection to the server ----

  lost() {
    this.isGone = true;
    clearTimeout(this.welcome);
    this.say(GONE);
    this.later(this.silence);
    this.silence = Math.min(this.silence * 2, LONGEST_SILENCE);
  }

  found() {
    this.silence = FIRST_SILENCE;
    if (!this.isGone) return;
    this.isGone = false;
    this.pause = FIRST_PAUSE;
    this.say(BACK);
    this.welcome = setTimeout(() => this.say(""), WELCOME);
  }

  say(text) {
    const line = this.querySelector("[data-live=connection]");
    if (!line) return;
    if (line.textContent !== text) line.textContent = text;
    line.hidden = !text;
  }

  stop(text) {
    if (text) this.say(text);
    this.stopped = true;
    clearTimeout(this.timer);
  }

  // ---- what is shown ----

  async show(job) {
    const moved = this.seen !== null && (this.seen.done_count !== job.done_count || this.seen.status !== job.status);
    this.pause = moved ? FIRST_PAUSE : Math.min(this.pause * GROWTH, LONGEST_PAUSE);
    if (this.seen !== null && this.seen.status !== job.status) this.put("announcement", `The job is ${job.status}.`);
    this.seen = job;
    this.write(job);
    if (this.hasAttribute("page") && this.isOutdated(job)) await this.redraw(job);
  }

  write(job) {
    this.put("status", job.status);
    for (const badge of this.querySelectorAll(".ingest-badge")) badge.className = `ingest-badge ingest-badge-${job.status}`;
    this.put("until", until(job));
    this.put("done_count", counted(job.done_count));
    this.put("row_count", (job.is_counted ? "" : "at least ") + counted(job.row_count));
    this.put("percent", job.is_counted ? job.percent.toFixed(1) : "–");
    this.put("rate", rate(job.rows_per_second));
    this.put("remaining", duration(job.eta_seconds));
    const total = job.is_counted ? Math.max(job.row_count, job.done_count, 1) : Infinity;
    for (const [kind, count] of Object.entries(job.parts)) this.put(`part-${kind}`, counted(count));
    for (const bar of this.querySelectorAll("[data-live=bar]")) {
      bar.setAttribute("aria-valuenow", String(job.percent));
      for (const part of bar.querySelectorAll("[data-part]")) {
        part.style.width = `${(100 * job.parts[part.dataset.part]) / total}%`;
      }
    }
    const most = Math.max(...Object.values(job.outcomes), 1);
    for (const number of this.querySelectorAll("[data-outcome]")) {
      number.textContent = counted(job.outcomes[number.dataset.outcome] ?? 0);
    }
    for (const number of this.querySelectorAll("[data-case]")) {
      number.textContent = counted(job.state[CASES + number.dataset.case] ?? 0);
    }
    for (const bar of this.querySelectorAll("[data-outcome-bar]")) {
      bar.style.width = `${(100 * (job.outcomes[bar.dataset.outcomeBar] ?? 0)) / most}%`;
    }
  }

  put(name, text) {
    for (const element of this.querySelectorAll(`[data-live=${name}]`)) {
      if (element.textContent !== text) element.textContent = text;
    }
  }

  // Whether more than numbers has changed since the sections were drawn. New errors and waiting rows alone redraw them
  // only every LISTS_PAUSE milliseconds.
  isOutdated(job) {
    if (this.drawn.shape !== shapeOf(job)) return true;
    return this.drawn.lists !== listsOf(job) && Date.now() - this.drawn.at >= LISTS_PAUSE;
  }

  async redraw(job) {
    const response = await this.ask(location.href);
    if (!response.ok) throw new Error(`status ${response.status}`);
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const old of this.querySelectorAll("[data-section][id]")) {
      const drawn = fresh.getElementById(old.id);
      if (drawn && old.innerHTML !== drawn.innerHTML) replace(old, drawn);
    }
    this.drawn = { shape: shapeOf(job), lists: listsOf(job), at: Date.now() };
  }
}

// What decides the layout of a job's page; the rest is numbers.
function shapeOf(job) {
  const cases = Object.keys(job.state).filter((name) => name.startsWith(CASES));
  const words = [...Object.keys(job.outcomes), ...cases].sort();
  const lists = [job.error_count > 0, job.waits.length > 0];
  return JSON.stringify([job.status, job.resume_at, job.waits_until, lists, words, job.events?.[0]]);
}

// What of a job its lists of errors and of waiting rows show.
function listsOf(job) {
  return JSON.stringify([job.error_count, job.waits]);
}

// Replace a section: open folds stay open, and the focus stays where it was.
function replace(old, drawn) {
  for (const fold of old.querySelectorAll("details[open][id]")) {
    const same = drawn.querySelector(`#${CSS.escape(fold.id)}`);
    if (same) same.open = true;
  }
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(document.adoptNode(drawn));
  if (!focused) return;
  const same = focused.id ? document.getElementById(focused.id) : null;
  (same ?? drawn.querySelector("input[type=submit], a[href]"))?.focus({ preventScroll: true });
}

if (!customElements.get("ingest-job")) customElements.define("ingest-job", IngestJob);
