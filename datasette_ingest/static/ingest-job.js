// <ingest-job src="….json">: keeps the server's picture of one job up to date until the job is over.
//
// Numbers are written into the elements that carry data-live. When the job's state, its errors or its outcomes change,
// the page's own HTML is asked for again and the sections below are replaced, so that they are laid out in one place only.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;
const LONGEST_SILENCE = 30000;
const GROWTH = 1.4;
const SECTIONS = ["ingest-head", "ingest-outcomes", "ingest-errors"];

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

const counted = (number) => number.toLocaleString("en-US");

class IngestJob extends HTMLElement {
  connectedCallback() {
    if (this.hasAttribute("final")) return;
    this.pause = FIRST_PAUSE;
    this.silence = 1000;
    this.seen = null;
    this.stopped = false;
    this.onVisible = () => {
      if (!document.hidden) this.look();
    };
    document.addEventListener("visibilitychange", this.onVisible);
    this.later(FIRST_PAUSE);
  }

  disconnectedCallback() {
    this.stopped = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    if (!this.stopped) this.timer = setTimeout(() => this.look(), milliseconds);
  }

  async look() {
    if (document.hidden || this.stopped || this.looking) return;
    this.looking = true;
    try {
      const response = await fetch(this.getAttribute("src"), { credentials: "same-origin", cache: "no-store" });
      if ([401, 403, 404].includes(response.status)) {
        this.stop("This job cannot be seen any more. Reload the page to find out why.");
        return;
      }
      if (!response.ok) throw new Error(`status ${response.status}`);
      const { job } = await response.json();
      this.say("");
      this.silence = 1000;
      await this.show(job);
    } catch (problem) {
      this.say(`The server does not answer; trying again in ${duration(this.silence / 1000)}. The job itself is not lost.`);
      this.later(this.silence);
      this.silence = Math.min(this.silence * 2, LONGEST_SILENCE);
    } finally {
      this.looking = false;
    }
  }

  async show(job) {
    const shape = JSON.stringify([job.status, job.error_count > 0, job.outcomes, job.resume_at]);
    const moved = this.seen !== null && this.seen.done !== job.done_count;
    const changed = this.seen !== null ? this.seen.shape !== shape : true;
    this.seen = { done: job.done_count, shape };
    this.write(job);
    if (changed) await this.redraw(job);
    if (job.is_final) {
      this.stop("");
      return;
    }
    this.pause = moved ? FIRST_PAUSE : Math.min(this.pause * GROWTH, LONGEST_PAUSE);
    this.later(this.pause);
  }

  write(job) {
    this.put("status", job.status);
    for (const badge of this.querySelectorAll(".ingest-badge")) badge.className = `ingest-badge ingest-badge-${job.status}`;
    this.put("done_count", counted(job.done_count));
    this.put("row_count", counted(job.row_count));
    this.put("percent", job.percent.toFixed(1));
    this.put("error_count", counted(job.error_count));
    this.put("rate", rate(job.rows_per_second));
    this.put("remaining", duration(job.eta_seconds));
    const total = Math.max(job.row_count, job.done_count, 1);
    for (const bar of this.querySelectorAll("[data-live=bar]")) {
      bar.setAttribute("aria-valuenow", String(job.percent));
      for (const part of bar.querySelectorAll("[data-part]")) {
        part.style.width = `${(100 * job.parts[part.dataset.part]) / total}%`;
      }
    }
  }

  put(name, text) {
    for (const element of this.querySelectorAll(`[data-live=${name}]`)) {
      if (element.textContent !== text) element.textContent = text;
    }
  }

  async redraw() {
    if (!this.querySelector("#ingest-head")) return;
    const response = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const focused = document.activeElement && this.contains(document.activeElement) ? document.activeElement.id : "";
    for (const id of SECTIONS) {
      const old = this.querySelector(`#${id}`);
      const drawn = fresh.getElementById(id);
      if (!old || !drawn || old.innerHTML === drawn.innerHTML) continue;
      for (const fold of old.querySelectorAll("details[open][id]")) {
        const same = drawn.querySelector(`#${CSS.escape(fold.id)}`);
        if (same) same.open = true;
      }
      old.replaceWith(document.adoptNode(drawn));
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  say(text) {
    const line = this.querySelector("[data-live=connection]");
    if (!line) return;
    line.textContent = text;
    line.hidden = !text;
  }

  stop(text) {
    this.say(text);
    this.stopped = true;
    clearTimeout(this.timer);
  }
}

if (!customElements.get("ingest-job")) customElements.define("ingest-job", IngestJob);
