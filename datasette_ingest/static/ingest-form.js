// The form that starts a job. Without this script it works by its buttons; with it the preview follows what is typed
// and ticked, and previews, pages of rows and dry runs come without loading a new page.
//
// Only the server draws: the form is sent to the button's own address, and parts of the page that comes back replace
// those of this page.

const TYPING_PAUSE = 400;
const TICKING_PAUSE = 700;
const NO_ANSWER = "The server does not answer. Try again.";

let asking = null; // the preview that is being fetched
let waiting = 0;
let stale = false; // something was typed or ticked since the last preview

function theForm() {
  return document.querySelector(".ingest-form");
}

async function send(form, address, submitter, signal) {
  const fields = new URLSearchParams(new FormData(form));
  if (submitter && submitter.name) fields.append(submitter.name, submitter.value);
  const given = { method: "POST", body: fields, credentials: "same-origin", signal };
  const text = await fetch(address, given)
    .then((response) => response.text())
    .catch(() => {
      throw new Error(NO_ANSWER);
    });
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (!fresh.querySelector(".ingest-form")) {
    const said = fresh.querySelector(".message-error");
    throw new Error(said ? said.textContent : NO_ANSWER);
  }
  return fresh;
}

// Replace parts of the page by id; the focus stays where it was.
function replace(fresh, ...ids) {
  const { id, name, value } = document.activeElement ?? {};
  for (const each of ids) {
    const drawn = fresh.getElementById(each);
    if (drawn) document.getElementById(each)?.replaceWith(document.adoptNode(drawn));
  }
  prepare();
  if (document.activeElement !== document.body) return;
  const named = () => [...theForm().elements].find((each) => each.name === name && each.value === value);
  const same = (id && document.getElementById(id)) || (name && named());
  if (same) same.focus({ preventScroll: true });
}

function note(text) {
  const section = document.getElementById("ingest-selection");
  let line = section.querySelector("[data-note]");
  if (!line) {
    line = document.createElement("p");
    line.dataset.note = "";
    line.className = "ingest-note";
    line.setAttribute("role", "status");
    section.querySelector("h2").after(line);
  }
  line.textContent = text;
}

// ---- the preview

function later(pause) {
  clearTimeout(waiting);
  asking?.abort(); // it is out of date already
  stale = true;
  waiting = setTimeout(() => ask(null), pause);
}

async function ask(submitter) {
  clearTimeout(waiting);
  asking?.abort();
  const mine = (asking = new AbortController());
  const form = theForm();
  const section = document.getElementById("ingest-selection");
  section.setAttribute("aria-busy", "true");
  try {
    const fresh = await send(form, form.dataset.preview, submitter, mine.signal);
    if (mine.signal.aborted) return;
    if (submitter?.name === "turn" && submitter.value !== "clear") {
      // Only the rows are new; the other numbers need not be computed again.
      replace(fresh, "ingest-rows");
      section.removeAttribute("aria-busy");
      const rows = document.querySelector("#ingest-rows .table-wrapper");
      rows?.scrollIntoView({ block: "nearest" });
      if (document.activeElement === document.body) rows?.focus({ preventScroll: true }); // the button is gone
      if (stale) later(TICKING_PAUSE);
      return;
    }
    stale = false;
    replace(fresh, "ingest-selection", "ingest-actions");
  } catch (problem) {
    if (mine.signal.aborted) return;
    section.removeAttribute("aria-busy");
    note(problem.message);
  }
}

// ---- a dry run

async function attempt(button) {
  const form = theForm();
  const section = document.getElementById("ingest-dry-run");
  const calling = new AbortController();
  section.hidden = false;
  section.setAttribute("aria-labelledby", "ingest-dry-run-title");
  section.innerHTML =
    '<h2 id="ingest-dry-run-title" tabindex="-1">Trying…</h2><p role="status">This takes at most half a minute.</p>' +
    '<p><button type="button" class="ingest-plain">Stop</button></p>';
  section.querySelector("button").addEventListener("click", () => calling.abort());
  section.scrollIntoView({ block: "nearest" });
  button.disabled = true;
  try {
    const fresh = await send(form, form.dataset.try, null, calling.signal);
    if (fresh.querySelector("[aria-invalid]") || fresh.querySelector(".ingest > .message-error")) {
      document.querySelector(".ingest").replaceWith(document.adoptNode(fresh.querySelector(".ingest")));
      prepare();
      toFirstError();
      return;
    }
    replace(fresh, "ingest-dry-run");
    document.getElementById("ingest-dry-run-title")?.focus();
  } catch (problem) {
    const stopped = calling.signal.aborted;
    section.innerHTML = '<p role="status"></p>';
    section.firstChild.textContent = stopped ? "Stopped." : problem.message;
    button.focus();
  } finally {
    button.disabled = false;
  }
}

// ---- ticking rows

function ticks() {
  return [...document.querySelectorAll(".ingest-tickable input[name^='tick.']")];
}

function count(form) {
  const split = (name) => form.elements[name].value.split("&").filter(Boolean);
  const here = new Set(split("shown"));
  const elsewhere = split("ticked").filter((each) => !here.has(each)).length;
  return elsewhere + ticks().filter((each) => each.checked).length;
}

function showCount(form) {
  const number = count(form);
  if (!number) return; // the server knows how many match
  const words = `${number.toLocaleString("en-US")} selected row${number === 1 ? "" : "s"}`;
  document.getElementById("ingest-selection-title").textContent = words;
  const start = document.querySelector("#ingest-actions input[type=submit]");
  start.value = `Enrich ${words}`;
}

function prepare() {
  const form = theForm();
  if (!form) return;
  const head = document.querySelector(".ingest-tickable thead th");
  const rows = ticks();
  if (head && rows.length && !head.querySelector("input")) {
    const all = document.createElement("input");
    all.type = "checkbox";
    all.id = "ingest-tick-all";
    all.setAttribute("aria-label", "Select all rows on this page");
    all.checked = rows.every((each) => each.checked);
    all.indeterminate = !all.checked && rows.some((each) => each.checked);
    head.replaceChildren(all);
  }
  if (document.querySelector("#ingest-selection[data-incomplete]") && !form.dataset.asked) {
    form.dataset.asked = "1"; // only once: what took too long then will take too long again
    ask(null);
  }
}

function toFirstError() {
  document.querySelector("[aria-invalid=true]")?.focus();
}

// ---- events

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".ingest-form")) return;
  const address = event.submitter?.getAttribute("formaction");
  if (address && address === event.target.dataset.try) {
    event.preventDefault();
    attempt(event.submitter);
  } else if (address) {
    event.preventDefault();
    ask(event.submitter);
  } else {
    clearTimeout(waiting);
    asking?.abort();
    // A second click on the button does nothing.
    setTimeout(() => event.target.querySelectorAll("[type=submit]").forEach((button) => (button.disabled = true)));
  }
});

document.addEventListener("change", (event) => {
  const form = event.target.closest(".ingest-form");
  if (!form) return;
  if (event.target.id === "ingest-tick-all") {
    ticks().forEach((each) => (each.checked = event.target.checked));
  }
  if (event.target.id === "ingest-tick-all" || event.target.name?.startsWith("tick.")) {
    showCount(form);
    later(TICKING_PAUSE);
  } else if (event.target.name?.startsWith("config.")) {
    later(TYPING_PAUSE);
  }
});

// Enable the buttons when the browser shows the page from its cache.
addEventListener("pageshow", (event) => {
  if (event.persisted) theForm()?.querySelectorAll("[type=submit]").forEach((button) => (button.disabled = false));
});

prepare();
toFirstError();
