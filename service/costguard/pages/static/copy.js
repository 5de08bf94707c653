// Buttons that copy a text; without this file they do not show.
for (const button of document.querySelectorAll("[data-copies]")) button.hidden = false;

document.addEventListener("htmx:before:swap", (event) => {
  for (const { fragment } of event.detail.tasks)
    for (const button of fragment.querySelectorAll("[data-copies]")) button.hidden = false;
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copies]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(text); // browsers refuse it on plain http from other computers
  }
});
