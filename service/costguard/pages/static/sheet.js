// Confirmations open in a dialog above the page; without this file each is a page of its own.
const sheet = document.getElementById("sheet");
const notifications = document.getElementById("notifications");
let from = null; // where the focus goes back to

document.addEventListener("htmx:after:swap", (event) => {
  const { ctx } = event.detail;
  if (ctx.target !== sheet || !sheet.firstElementChild) return;
  if (sheet.open) {
    sheet.querySelector("input:not([type=hidden]), button")?.focus(); // one confirmation led to another
    return;
  }
  from = ctx.sourceElement;
  sheet.showModal();
});

document.addEventListener("click", (event) => {
  if (sheet.open && (event.target === sheet || event.target.closest?.("#sheet [data-closes]"))) {
    event.preventDefault();
    sheet.close();
  }
});

document.addEventListener("input", (event) => {
  const { chooses } = event.target.dataset;
  if (chooses) event.target.form.querySelector(`[value="${chooses}"]`).checked = true;
});

// The account menu and those of the fleet's rows close as menus do.
const openMenus = () => [...document.querySelectorAll("details:is(.you, .menu)[open]")];
document.addEventListener("click", (event) => {
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || sheet.open) return;
  for (const menu of openMenus()) {
    if (menu.contains(document.activeElement)) menu.firstElementChild.focus();
    menu.open = false;
  }
});

sheet.addEventListener("close", () => {
  sheet.replaceChildren();
  if (from?.isConnected) from.focus();
});

// The request is stored: confirm it, and show the page as it is now.
document.addEventListener("done", async () => {
  const row = from?.closest("tr, section");
  sheet.close();
  setTimeout(() => notifications.replaceChildren(), 12_000);
  const here = location.pathname + location.search;
  await htmx.ajax("GET", here, { target: "#main", select: "#main", swap: "outerMorph" });
  if (document.activeElement === document.body) row?.querySelector("a")?.focus(); // the clicked button is gone
});
