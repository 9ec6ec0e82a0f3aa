// The form that starts a job. Without this script it works by its buttons; with it the preview follows what is typed
// and ticked, and pages, previews and trials come without a new page.
//
// What the server draws is drawn in one place only: the form is sent to the button's own address, and the parts of the
// page that came back replace those that stand here.

const TYPING_PAUSE = 400;
const TICKING_PAUSE = 700;
const GONE = "The server does not answer. Try again.";

let asking = null; // the preview that is under way
let waiting = 0;
let stale = false; // something was typed or ticked that the preview does not know

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
      throw new Error(GONE);
    });
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (!fresh.querySelector(".ingest-form")) {
    const said = fresh.querySelector(".message-error");
    throw new Error(said ? said.textContent : GONE);
  }
  return fresh;
}

// Put the parts in place of those that stand here; what had the focus has it still.
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
  asking?.abort(); // what it knows is out of date already
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
      // Only the rows are new; the numbers beside them need not be found out again.
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

// ---- a trial

async function attempt(button) {
  const form = theForm();
  const section = document.getElementById("ingest-trial");
  const calling = new AbortController();
  section.hidden = false;
  section.innerHTML =
    '<h2 id="ingest-trial-title" tabindex="-1">Trying…</h2><p role="status">This takes half a minute at most.</p>' +
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
    replace(fresh, "ingest-trial");
    document.getElementById("ingest-trial-title")?.focus();
  } catch (problem) {
    const stopped = calling.signal.aborted;
    section.innerHTML = '<p role="status"></p>';
    section.firstChild.textContent = stopped ? "The trial was stopped." : problem.message;
    button.focus();
  } finally {
    button.disabled = false;
  }
}

// ---- picking

function ticks() {
  return [...document.querySelectorAll(".ingest-pickable input[name^='tick.']")];
}

function count(form) {
  const split = (name) => form.elements[name].value.split("&").filter(Boolean);
  const here = new Set(split("shown"));
  const elsewhere = split("picked").filter((each) => !here.has(each)).length;
  return elsewhere + ticks().filter((each) => each.checked).length;
}

function sayPicked(form) {
  const picked = count(form);
  if (!picked) return; // the server knows how many match
  const words = `${picked.toLocaleString("en-US")} picked row${picked === 1 ? "" : "s"}`;
  document.getElementById("ingest-selection-title").textContent = words;
  const start = document.querySelector("#ingest-actions input[type=submit]");
  start.value = `Enrich ${words}`;
}

function prepare() {
  const form = theForm();
  if (!form) return;
  const head = document.querySelector(".ingest-pickable thead th");
  const rows = ticks();
  if (head && rows.length && !head.querySelector("input")) {
    const all = document.createElement("input");
    all.type = "checkbox";
    all.id = "ingest-tick-all";
    all.setAttribute("aria-label", "Pick all rows on this page");
    all.checked = rows.every((each) => each.checked);
    all.indeterminate = !all.checked && rows.some((each) => each.checked);
    head.replaceChildren(all);
  }
  if (document.querySelector("#ingest-selection[data-incomplete]") && !form.dataset.asked) {
    form.dataset.asked = "1"; // once: what the patient preview could not find out, nobody waits for again
    ask(null);
  }
}

function toFirstError() {
  document.querySelector("[aria-invalid=true]")?.focus();
}

// ---- what happens on the page

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
    sayPicked(form);
    later(TICKING_PAUSE);
  } else if (event.target.name?.startsWith("config.")) {
    later(TYPING_PAUSE);
  }
});

// A page that the browser keeps and shows again must be usable again.
addEventListener("pageshow", (event) => {
  if (event.persisted) theForm()?.querySelectorAll("[type=submit]").forEach((button) => (button.disabled = false));
});

prepare();
toFirstError();
