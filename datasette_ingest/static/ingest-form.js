// The form that starts a job: a second click on its button does nothing.
for (const form of document.querySelectorAll(".ingest-form")) {
  form.addEventListener("submit", () => {
    setTimeout(() => form.querySelectorAll("input[type=submit]").forEach((button) => (button.disabled = true)));
  });
}
// A page that the browser keeps and shows again must be usable again.
addEventListener("pageshow", () => {
  document.querySelectorAll(".ingest-form input[type=submit]").forEach((button) => (button.disabled = false));
});
